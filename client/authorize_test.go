package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"github.com/askback-mcp/askback/client"
)

type refusing struct{ asked int }

var errRefused = errors.New("the user refused")

func (r *refusing) TokenSource(context.Context) (oauth2.TokenSource, error) { return nil, nil }

func (r *refusing) Authorize(_ context.Context, _ *http.Request, res *http.Response) error {
	res.Body.Close()
	r.asked++
	return errRefused
}

// One attempt to connect asks a user who refuses only once.
func TestARefusedAuthorizationIsNotRepeated(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	user := new(refusing)
	_, err := client.New(nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.URL, OAuthHandler: user},
		nil)
	if err == nil || user.asked != 1 {
		t.Errorf("asked %d times; err %v", user.asked, err)
	}
}
