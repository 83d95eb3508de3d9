package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/examples/auth/internal/issuer"
	"github.com/askback-mcp/askback/seal"
)

// newIssuer starts an authorization server.
func newIssuer(t *testing.T) (i *issuer.Issuer, url string) {
	t.Helper()
	web := httptest.NewUnstartedServer(nil)
	url = "http://" + web.Listener.Addr().String()
	i, err := issuer.New(url)
	if err != nil {
		t.Fatal(err)
	}
	web.Config.Handler = i.Handler()
	web.Start()
	t.Cleanup(web.Close)
	return i, url
}

func tokenOf(t *testing.T, i *issuer.Issuer, subject, resource, scope string, life time.Duration) string {
	t.Helper()
	token, err := i.Token(subject, resource, scope, life)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connect is a session of a caller whose user answers with form.
func connect(t *testing.T, url, token string,
	form func(context.Context, *client.Question) (*mcp.ElicitResult, error)) (*client.Session, error) {
	t.Helper()
	s, err := client.New(&client.Options{Form: form}).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)},
	}, nil)
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func TestCallersAreKeptApart(t *testing.T) {
	i, at := newIssuer(t)
	other, _ := newIssuer(t)
	web := httptest.NewUnstartedServer(nil)
	resource := "http://" + web.Listener.Addr().String() + "/mcp"
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if web.Config.Handler, err = newHandler(t.Context(), at, resource, keys); err != nil {
		t.Fatal(err)
	}
	web.Start()
	t.Cleanup(web.Close)

	// Who has no token for this server is told where to get one.
	for name, token := range map[string]string{
		"none":       "",
		"foreign":    tokenOf(t, other, "alice", resource, scope, time.Hour),
		"for others": tokenOf(t, i, "alice", "http://other.example.com/mcp", scope, time.Hour),
		"expired":    tokenOf(t, i, "alice", resource, scope, -time.Hour),
		"nobody's":   tokenOf(t, i, "", resource, scope, time.Hour),
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, resource, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if challenge := res.Header.Get("WWW-Authenticate"); res.StatusCode != http.StatusUnauthorized ||
			!strings.Contains(challenge, "/.well-known/oauth-protected-resource/mcp") {
			t.Errorf("%s: %s, %q", name, res.Status, challenge)
		}
	}
	var metadata struct {
		Resource string
		Servers  []string `json:"authorization_servers"`
	}
	res, err := http.Get("http://" + web.Listener.Addr().String() + "/.well-known/oauth-protected-resource/mcp")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&metadata); err != nil || metadata.Resource != resource ||
		fmt.Sprint(metadata.Servers) != "["+at+"]" {
		t.Errorf("%+v, %v", metadata, err)
	}
	if _, err := connect(t, resource, tokenOf(t, i, "alice", resource, scopeDelete, time.Hour), nil); err == nil {
		t.Error("a token without the scope is taken")
	}

	// A call that alice has parked is hers: bob cannot answer it, whatever he knows of it.
	const all = scope + " " + scopeDelete
	alice, bob := tokenOf(t, i, "alice", resource, all, time.Hour), tokenOf(t, i, "bob", resource, all, time.Hour)
	park := func(context.Context, *client.Question) (*mcp.ElicitResult, error) { return nil, client.ErrPark }
	sure := func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"sure": true}}, nil
	}
	reader, err := connect(t, resource, tokenOf(t, i, "alice", resource, scope, time.Hour), sure)
	if err != nil {
		t.Fatal(err)
	}
	remove := &mcp.CallToolParams{Name: "delete_note", Arguments: note{"milk"}}
	if res, err := reader.CallTool(t.Context(), remove); err == nil || !strings.Contains(err.Error(), "not authorized") {
		t.Errorf("without the scope of the tool: %+v, %v", res, err)
	}
	first, err := connect(t, resource, alice, park)
	if err != nil {
		t.Fatal(err)
	}
	_, err = first.CallTool(t.Context(), remove)
	parked, ok := errors.AsType[*client.PendingError](err)
	if !ok {
		t.Fatal(err)
	}
	resume := func(token string) (string, error) {
		s, err := connect(t, resource, token, sure)
		if err != nil {
			t.Fatal(err)
		}
		result, err := s.Resume(t.Context(), parked.Pending)
		if err != nil {
			return "", err
		}
		return result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text, nil
	}
	if got, err := resume(bob); err == nil || !strings.Contains(err.Error(), "requestState") {
		t.Errorf("bob: %s, %v", got, err)
	}
	if got, err := resume(alice); err != nil || got != fmt.Sprintf("%q of %s alice is deleted.", "milk", at) {
		t.Errorf("alice: %s, %v", got, err)
	}
}
