package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/seal"
)

// issuer is an authorization server, as far as a resource server knows it.
type issuer struct {
	url    string
	signer jose.Signer
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := new(issuer)
	if i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}},
		nil); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	reply := func(value func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(value())
		}
	}
	mux.HandleFunc("/.well-known/openid-configuration", reply(func() any {
		return map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"}}
	}))
	mux.HandleFunc("/keys", reply(func() any {
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1", Algorithm: "ES256", Use: "sig"}}}
	}))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	i.url = web.URL
	return i
}

func (i *issuer) token(t *testing.T, subject, audience, scope string, life time.Duration) string {
	t.Helper()
	token, err := jwt.Signed(i.signer).Claims(map[string]any{
		"iss": i.url, "sub": subject, "aud": audience, "scope": scope, "exp": time.Now().Add(life).Unix(),
	}).Serialize()
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
	i := newIssuer(t)
	web := httptest.NewUnstartedServer(nil)
	resource := "http://" + web.Listener.Addr().String() + "/mcp"
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if web.Config.Handler, err = newHandler(t.Context(), i.url, resource, keys); err != nil {
		t.Fatal(err)
	}
	web.Start()
	t.Cleanup(web.Close)

	// Who has no token for this server is told where to get one.
	for name, token := range map[string]string{
		"none":       "",
		"foreign":    newIssuer(t).token(t, "alice", resource, scope, time.Hour),
		"for others": i.token(t, "alice", "http://other.example.com/mcp", scope, time.Hour),
		"expired":    i.token(t, "alice", resource, scope, -time.Hour),
		"nobody's":   i.token(t, "", resource, scope, time.Hour),
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
		fmt.Sprint(metadata.Servers) != "["+i.url+"]" {
		t.Errorf("%+v, %v", metadata, err)
	}
	if _, err := connect(t, resource, i.token(t, "alice", resource, "other", time.Hour), nil); err == nil {
		t.Error("a token without the scope is taken")
	}

	// A call that alice has parked is hers: bob cannot answer it, whatever he knows of it.
	alice, bob := i.token(t, "alice", resource, scope, time.Hour), i.token(t, "bob", resource, scope, time.Hour)
	park := func(context.Context, *client.Question) (*mcp.ElicitResult, error) { return nil, client.ErrPark }
	sure := func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"sure": true}}, nil
	}
	first, err := connect(t, resource, alice, park)
	if err != nil {
		t.Fatal(err)
	}
	_, err = first.CallTool(t.Context(), &mcp.CallToolParams{Name: "delete_note", Arguments: note{"milk"}})
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
	if got, err := resume(alice); err != nil || got != fmt.Sprintf("%q of %s alice is deleted.", "milk", i.url) {
		t.Errorf("alice: %s, %v", got, err)
	}
}
