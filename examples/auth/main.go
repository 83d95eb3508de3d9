// Command auth is an MCP server behind an OAuth authorization server: it takes access tokens that are JWTs for it, and
// serves each caller as the token's issuer and subject together. Its one tool asks before it deletes.
//
//	go run ./cmd/askback keys new askback.keys
//	ISSUER=https://login.example.com RESOURCE=https://mcp.example.com/mcp go run ./examples/auth
//
// The issuer publishes its keys by OpenID Connect Discovery. The server tells clients of it in the protected resource
// metadata (RFC 9728), so that a client without a token finds where to get one. To try it without an issuer of your
// own, start the one in the folder issuer.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/seal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Getenv("ISSUER"), os.Getenv("RESOURCE")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, issuer, resource string) error {
	keys, err := seal.File("askback.keys").Load(ctx) // the same keys on every instance
	if err != nil {
		return err
	}
	handler, err := newHandler(ctx, issuer, resource, keys)
	if err != nil {
		return err
	}
	listener, err := drain.Listen(cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080")) // behind a proxy that speaks TLS
	if err != nil {
		return err
	}
	log.Printf("listening on %s", listener.Addr())
	return drain.Serve(ctx, listener, &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}, nil)
}

// What a token must allow: scope for every request, and scopeDelete for the tool that deletes.
const (
	scope       = "notes"
	scopeDelete = "notes:delete"
)

// newHandler serves the MCP endpoint that is reached as resource, and its metadata.
func newHandler(ctx context.Context, issuer, resource string, keys *seal.Ring) (http.Handler, error) {
	at, err := url.Parse(resource)
	if err != nil || at.Scheme == "" || at.Host == "" || at.Path == "" {
		return nil, fmt.Errorf("RESOURCE %q: want the URL of this server's endpoint, as clients see it", resource)
	}
	provider, err := oidc.NewProvider(ctx, issuer) // reads its metadata
	if err != nil {
		return nil, fmt.Errorf("ISSUER %q: %w", issuer, err)
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Keys: keys, Authorize: authorize})
	if err != nil {
		return nil, err
	}
	register(srv)

	// A token must be of this issuer and for this resource: one for another server must not open this one.
	tokens := provider.VerifierContext(ctx, &oidc.Config{ClientID: resource})
	metadata := "/.well-known/oauth-protected-resource" + at.Path
	protect := auth.RequireBearerToken(verifier(tokens), &auth.RequireBearerTokenOptions{
		ResourceMetadataURL: at.Scheme + "://" + at.Host + metadata, Scopes: []string{scope},
	})
	mux := http.NewServeMux()
	mux.Handle("GET "+metadata, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: resource, AuthorizationServers: []string{issuer}, ScopesSupported: []string{scope, scopeDelete},
		BearerMethodsSupported: []string{"header"},
	}))
	mux.Handle(at.Path, protect(srv.HTTPHandler(&askback.HTTPOptions{AllowedHosts: []string{at.Host}})))
	return mux, nil
}

// verifier verifies access tokens. The UserID is the issuer and the subject together, because a subject is unique at
// its issuer only. To Askback it is the principal: a question of one caller cannot be answered by another.
func verifier(tokens *oidc.IDTokenVerifier) auth.TokenVerifier {
	return func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		verified, err := tokens.Verify(ctx, token)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
		}
		var claims struct {
			Scope string `json:"scope"`
		}
		if err := verified.Claims(&claims); err != nil || verified.Subject == "" {
			return nil, fmt.Errorf("%w: it has no subject, or no readable claims", auth.ErrInvalidToken)
		}
		return &auth.TokenInfo{
			UserID: verified.Issuer + " " + verified.Subject, Scopes: strings.Fields(claims.Scope), Expiration: verified.Expiry,
		}, nil
	}
}

// authorize refuses the tool that deletes to a token without the scope for it.
func authorize(_ context.Context, access askback.Access) error {
	if access.Method == "tools/call" && access.Target == "delete_note" &&
		!slices.Contains(access.Extra.TokenInfo.Scopes, scopeDelete) {
		return errors.New("the token lacks the scope " + scopeDelete)
	}
	return nil
}

type note struct {
	Title string `json:"title"`
}

type consent struct {
	Sure bool `json:"sure" title:"Delete it permanently?"`
}

func register(srv *askback.Server) {
	askback.MustForm[consent]()
	askback.AddTool(srv, &mcp.Tool{Name: "delete_note", Description: "Delete a note"},
		func(ctx context.Context, call *askback.Call, in note) (string, error) {
			answer, err := askback.Elicit[consent](call, "sure", fmt.Sprintf("The note %q will be gone.", in.Title))
			if err != nil {
				return "", err
			}
			if !answer.Sure {
				return "", errors.New("nothing was deleted")
			}
			err = call.Do(ctx, "delete", func(context.Context) error {
				log.Printf("%q of %s is deleted", in.Title, call.Principal()) // stands for your own system
				return nil
			})
			return fmt.Sprintf("%q of %s is deleted.", in.Title, call.Principal()), err
		})
}
