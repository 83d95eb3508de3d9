package streamable

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// user authorizes a client.
type user struct {
	token   *oauth2.Token
	failed  error // of the token source
	refuses error
	asked   int
}

func (u *user) TokenSource(context.Context) (oauth2.TokenSource, error) { return u, nil }

func (u *user) Token() (*oauth2.Token, error) { return u.token, u.failed }

func (u *user) Authorize(_ context.Context, _ *http.Request, res *http.Response) error {
	res.Body.Close()
	u.asked++
	u.token, u.failed = &oauth2.Token{AccessToken: "new"}, nil
	return u.refuses
}

func TestAuthorization(t *testing.T) {
	refused, away := errors.New("the user refuses"), errors.New("the authorization server is away")
	for name, c := range map[string]struct {
		user    user
		listens bool
		want    func(error) bool // nil for none
		asked   int
		sent    []string
	}{
		"a token": {user{token: &oauth2.Token{AccessToken: "new"}}, false, nil, 0,
			[]string{"Bearer new"}},
		"an old token": {user{token: &oauth2.Token{AccessToken: "old"}}, false, nil, 1,
			[]string{"Bearer old", "Bearer new"}},
		"no token": {user{}, false, nil, 1, []string{"", "Bearer new"}},
		"a token that was revoked": {user{failed: &oauth2.RetrieveError{ErrorCode: "invalid_grant"}}, false, nil, 1,
			[]string{"", "Bearer new"}},
		"a token that cannot be had":   {user{failed: away}, false, is(away), 0, nil},
		"a user who refuses":           {user{refuses: refused}, false, is(refused), 1, []string{""}},
		"a subscription asks for none": {user{}, true, isStatus, 0, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			e := endpoint(func(r *http.Request) *http.Response {
				sent = append(sent, r.Header.Get("Authorization"))
				if r.Header.Get("Authorization") != "Bearer new" {
					return respond(http.StatusUnauthorized, "", "")
				}
				return respond(200, "application/json", `{"jsonrpc":"2.0","id":"a1","result":{}}`)
			})
			e.OAuth = &c.user
			timer := time.NewTimer(time.Hour)
			defer timer.Stop()
			_, err := e.Send(t.Context(), &Request{Method: "tasks/get", Params: []byte(`{}`), Listens: c.listens, Timer: timer})
			if c.want == nil && err != nil || c.want != nil && !c.want(err) || c.user.asked != c.asked {
				t.Errorf("asked %d times, got %v", c.user.asked, err)
			}
			if len(sent) != len(c.sent) {
				t.Fatalf("sent %q, want %q", sent, c.sent)
			}
			for i := range sent {
				if sent[i] != c.sent[i] {
					t.Errorf("sent %q, want %q", sent, c.sent)
				}
			}
		})
	}
}

// The end of the context is what a request tells, whatever it broke.
func TestTheContextsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := endpoint(func(*http.Request) *http.Response { cancel(); return nil })
	if _, err := e.Send(ctx, &Request{Method: "tasks/get", Params: []byte(`{}`)}); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	if _, err := endpoint(func(*http.Request) *http.Response { return nil }).Send(t.Context(),
		&Request{Params: []byte(`{}`)}); !isAway(err) {
		t.Errorf("got %v", err)
	}
}
