// Package issuer is an authorization server for trials and tests: it gives a token to everybody who asks for one.
package issuer

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer is an authorization server, as far as a resource server knows it.
type Issuer struct {
	url    string
	public jose.JSONWebKey
	signer jose.Signer
}

// New returns an authorization server with a new key, which is reached at url.
func New(url string) (*Issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		return nil, err
	}
	public := jose.JSONWebKey{Key: &key.PublicKey, KeyID: "1", Algorithm: "ES256", Use: "sig"}
	return &Issuer{url: url, public: public, signer: signer}, nil
}

// Handler serves the metadata, the keys, and the tokens: /token?sub=…&resource=…&scope=… returns one.
func (i *Issuer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", reply(map[string]any{
		"issuer": i.url, "jwks_uri": i.url + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"},
	}))
	mux.HandleFunc("GET /keys", reply(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.public}}))
	mux.HandleFunc("GET /token", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		scope := cmp.Or(q.Get("scope"), "notes notes:delete")
		token, err := i.Token(q.Get("sub"), q.Get("resource"), scope, time.Hour)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, token)
	})
	return mux
}

func reply(value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
}

// Token returns an access token for a resource.
func (i *Issuer) Token(subject, resource, scope string, life time.Duration) (string, error) {
	return jwt.Signed(i.signer).Claims(map[string]any{
		"iss": i.url, "sub": subject, "aud": resource, "scope": scope, "exp": time.Now().Add(life).Unix(),
	}).Serialize()
}
