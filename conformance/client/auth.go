package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// The Go SDK brings the OAuth that Askback's client is connected with: these scenarios
// show that calls through Askback survive it, such as a retry with more scopes.

const redirectURL = "http://localhost:3000/callback"

func init() {
	for _, name := range []string{
		"metadata-default", "metadata-var1", "metadata-var2", "metadata-var3",
		"basic-cimd", "pre-registration",
		"scope-from-www-authenticate", "scope-from-scopes-supported", "scope-omitted-when-undefined", "scope-step-up",
		"token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none",
		"offline-access-scope", "offline-access-not-supported",
		"authorization-server-migration",
		"iss-supported", "iss-not-advertised",
	} {
		plays["auth/"+name] = callAuthorized
	}
	for name, why := range map[string]string{
		"scope-retry-limit":        "TODO",
		"resource-mismatch":        "TODO",
		"iss-supported-missing":    "TODO",
		"iss-wrong-issuer":         "TODO",
		"iss-unexpected":           "TODO",
		"iss-normalized":           "TODO",
		"metadata-issuer-mismatch": "TODO",
	} {
		plays["auth/"+name] = refuse(why)
	}
	plays["auth/client-credentials-basic"] = callAuthorized
	plays["auth/enterprise-managed-authorization"] = callAuthorized
}

// callAuthorized calls a tool of a server that wants a token.
func callAuthorized(ctx context.Context, s *scenario) error {
	handler, err := s.oauth()
	if err != nil {
		return err
	}
	session, err := s.connect(ctx, accept, handler)
	if err != nil {
		return err
	}
	defer session.Close()
	if err := listed(ctx, session, "test-tool"); err != nil {
		return err
	}
	return call(ctx, session, "test-tool", nil, "test")
}

// refuse does the same, where the authorization must end with an error that says why.
func refuse(why string) func(context.Context, *scenario) error {
	return func(ctx context.Context, s *scenario) error {
		err := callAuthorized(ctx, s)
		if err == nil {
			return fmt.Errorf("the call went through, want an error")
		}
		if !strings.Contains(err.Error(), why) {
			return fmt.Errorf("the error is not the one that is wanted, %q: %w", why, err)
		}
		return nil
	}
}

// oauth returns the OAuth client that a scenario is for.
func (s *scenario) oauth() (auth.OAuthHandler, error) {
	var told struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Issuer       string `json:"issuer"`

		IdPClientID string `json:"idp_client_id"`
		IdPIDToken  string `json:"idp_id_token"`
		IdPIssuer   string `json:"idp_issuer"`
	}
	if len(s.context) > 0 {
		if err := s.told(&told); err != nil {
			return nil, err
		}
	}
	registered := &oauthex.ClientCredentials{
		ClientID:         told.ClientID,
		ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: told.ClientSecret},
		Issuer:           told.Issuer,
	}
	switch s.name {
	case "auth/client-credentials-basic":
		return extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{Credentials: registered})
	}
	config := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL:              redirectURL,
		AuthorizationCodeFetcher: visit,
		RequestRefreshToken:      true,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName:   "Askback's conformance client",
			RedirectURIs: []string{redirectURL},
			GrantTypes:   []string{"authorization_code", "refresh_token"},
		}},
	}
	switch s.name {
	case "auth/basic-cimd":
		config.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: "https://conformance-test.local/client-metadata.json"}
	case "auth/pre-registration":
		config.PreregisteredClient = registered
	}
	return auth.NewAuthorizationCodeHandler(config)
}

// visit is the user at the authorization server, which consents to everything at once.
func visit(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, err
	}
	// The redirection goes to a browser, and its query is the answer.
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	to, err := res.Location()
	if err != nil {
		return nil, fmt.Errorf("the authorization server answered %s: %w", res.Status, err)
	}
	if got := (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String(); got != redirectURL {
		return nil, fmt.Errorf("the authorization server redirects to %s, not to %s", got, redirectURL)
	}
	query := to.Query()
	return &auth.AuthorizationResult{Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss")}, nil
}
