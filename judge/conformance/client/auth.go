package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// The OAuth client is the Go SDK's, in the transport that Askback's client connects over. These scenarios judge it,
// and that calls through Askback survive it: one that needs more scopes in the middle is sent twice.

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
		"client-credentials-basic",
	} {
		plays["auth/"+name] = callAuthorized
	}
	for name, why := range map[string]string{
		"iss-supported-missing":    `advertises RFC 9207 iss parameter support but none was received`,
		"iss-wrong-issuer":         `issuer "https://evil\.example\.com" does not match`,
		"iss-unexpected":           `issuer "https://evil\.example\.com" does not match`,
		"iss-normalized":           `issuer "http://localhost:\d+/" does not match expected issuer "http://localhost:\d+"`,
		"metadata-issuer-mismatch": `metadata issuer "https://attacker\.example\.com" does not match`,
		// The SDK passes over the metadata of another resource, takes the server for one of
		// 2025-03-26 that is its own authorization server, and fails on that.
		"resource-mismatch": `failed to register client`,
		// Where the server refuses to be discovered, the SDK tries to initialize.
		"scope-retry-limit": `Forbidden|Missing MCP-Protocol-Version header`,
	} {
		plays["auth/"+name] = refuse(regexp.MustCompile(why))
	}
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
	return callListed("test-tool", nil, "test")(ctx, session)
}

// refuse does the same where it must end with an error that says why.
func refuse(why *regexp.Regexp) func(context.Context, *scenario) error {
	return func(ctx context.Context, s *scenario) error {
		err := callAuthorized(ctx, s)
		if err == nil {
			return errors.New("the call went through, but must be refused")
		}
		if !why.MatchString(err.Error()) {
			return fmt.Errorf("refused for another reason than %q: %w", why, err)
		}
		return nil
	}
}

// oauth returns the OAuth client that the scenario is for.
func (s *scenario) oauth() (auth.OAuthHandler, error) {
	var settings struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Issuer       string `json:"issuer"`
	}
	if len(s.context) > 0 {
		if err := s.decodeContext(&settings); err != nil {
			return nil, err
		}
	}
	registered := &oauthex.ClientCredentials{
		ClientID:         settings.ClientID,
		ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: settings.ClientSecret},
		Issuer:           settings.Issuer,
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
	case "auth/client-credentials-basic":
		return extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{Credentials: registered})
	case "auth/pre-registration":
		config.PreregisteredClient = registered
	case "auth/basic-cimd": // only here, since no other scenario could read the document
		const document = "https://conformance-test.local/client-metadata.json"
		config.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: document}
	}
	return auth.NewAuthorizationCodeHandler(config)
}

// visit stands for the user and the browser: it opens the page of the authorization
// server, which agrees at once and sends the browser back with the code.
func visit(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultTransport.RoundTrip(req) // which does not follow it
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	back, err := res.Location()
	if err != nil {
		return nil, fmt.Errorf("the authorization server answered %s: %w", res.Status, err)
	}
	if !strings.HasPrefix(back.String(), redirectURL+"?") {
		return nil, fmt.Errorf("the authorization server sends the browser to %s, not to %s", back, redirectURL)
	}
	answer := back.Query()
	return &auth.AuthorizationResult{Code: answer.Get("code"), State: answer.Get("state"), Iss: answer.Get("iss")}, nil
}
