package askback_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// askOnce adds a tool with one question.
func askOnce(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
		func(_ context.Context, call *askback.Call, in Bug) (string, error) {
			res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
			return fmt.Sprintf("bug #%d closed as %s", in.ID, res.Resolution), err
		})
}

// withToken sends requests with a bearer token.
type withToken string

func (b withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// park calls close_bug at the endpoint, and parks its question.
func park(endpoint string, transport http.RoundTripper) *client.Pending {
	ctx := context.Background()
	c := client.New(&client.Options{Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return nil,
			client.ErrPark
	}})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint,
		HTTPClient: &http.Client{Transport: transport}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "close_bug", Arguments: Bug{ID: 7}})
	pending, ok := errors.AsType[*client.PendingError](err)
	if !ok {
		log.Fatal(err)
	}
	return pending.Pending
}

// resume goes on with a parked call, and prints what comes of it.
func resume(endpoint string, transport http.RoundTripper, pending *client.Pending) {
	ctx := context.Background()
	c := client.New(&client.Options{Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return accept(map[string]any{"resolution": "Fixed"}), nil
	}})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint,
		HTTPClient: &http.Client{Transport: transport}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	res, err := session.Resume(ctx, pending)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		fmt.Println("refused:", refused.Err)
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text)
}

// A call goes on at another instance that has the same keys and the same audience, and at no other server.
func ExampleOptions_keys() {
	ring := func() *seal.Ring {
		keys, err := seal.NewRing(seal.NewKey(time.Now()))
		if err != nil {
			log.Fatal(err)
		}
		return keys
	}
	keys := ring()
	instance := func(keys *seal.Ring, audience string) *httptest.Server {
		srv := newServer(askback.Options{Keys: keys, Audience: audience})
		askOnce(srv)
		return httptest.NewServer(srv.HTTPHandler(nil))
	}
	first, second := instance(keys, "tracker"), instance(keys, "tracker")
	otherKeys, otherService := instance(ring(), "tracker"), instance(keys, "billing")
	for _, web := range []*httptest.Server{first, second, otherKeys, otherService} {
		defer web.Close()
	}
	pending := park(first.URL, nil)
	for _, web := range []*httptest.Server{second, otherKeys, otherService} {
		resume(web.URL, nil, pending)
	}
	// Output:
	// bug #7 closed as Fixed
	// refused: calling "tools/call": Invalid or expired requestState
	// refused: calling "tools/call": Invalid or expired requestState
}

// Callers are named by their tokens. A call belongs to the caller who began it, and not everybody may call everything.
func ExampleOptions_principal() {
	srv := newServer(askback.Options{
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return "https://id.example " + extra.TokenInfo.UserID, nil // a user ID is unique at its issuer only
		},
		Authorize: func(_ context.Context, access askback.Access) error {
			if access.Method == "tools/call" && access.Principal == "https://id.example mallory" {
				return errors.New("mallory calls no tools")
			}
			return nil
		},
	})
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"}, func(_ context.Context, call *askback.Call, _ Bug) (string, error) {
		res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		return call.Principal() + " closed it as " + res.Resolution, err
	})
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil // verify it
	}
	web := httptest.NewServer(auth.RequireBearerToken(verify, nil)(srv.HTTPHandler(nil)))
	defer web.Close()

	pending := park(web.URL, withToken("alice"))
	resume(web.URL, withToken("bob"), pending)
	resume(web.URL, withToken("alice"), pending)
	session, err := client.New(nil).Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: web.URL, HTTPClient: &http.Client{Transport: withToken("mallory")},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	_, err = session.CallTool(context.Background(), &mcp.CallToolParams{Name: "close_bug", Arguments: Bug{ID: 7}})
	fmt.Println(err)
	// Output:
	// refused: calling "tools/call": Invalid or expired requestState
	// https://id.example alice closed it as Fixed
	// calling "tools/call": the caller is not authorized for this request
}

// While people decide, their caller may leave. The directory is asked again before the call goes on, and while it is
// away the task waits.
func ExampleErrUndecided() {
	directory := func(name string) (works bool, err error) {
		if name == "alice" {
			return false, errors.New("no answer")
		}
		return name == "bob", nil
	}
	opts := askback.Options{
		AuthorizeContinues: true,
		Authorize: func(_ context.Context, access askback.Access) error {
			works, err := directory(access.Principal)
			switch {
			case err != nil:
				return fmt.Errorf("the directory: %w: %w", err, askback.ErrUndecided)
			case !works:
				return errors.New(access.Principal + " has left")
			}
			return nil
		},
	}
	for _, name := range []string{"alice", "bob", "carol"} {
		err := opts.Authorize(context.Background(), askback.Access{Principal: name, Continues: true})
		fmt.Println(err, errors.Is(err, askback.ErrUndecided))
	}
	// Output:
	// the directory: no answer: it cannot be told now true
	// <nil> false
	// carol has left false
}

// Tokens of machines may name nobody. They are refused unless the server says that all of them are one anonymous
// caller.
func ExampleOptions_anonymousTokens() {
	for _, anonymous := range []bool{false, true} {
		srv := newServer(askback.Options{AnonymousTokens: anonymous})
		askOnce(srv)
		verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
			return &auth.TokenInfo{Expiration: time.Now().Add(time.Hour)}, nil
		}
		web := httptest.NewServer(auth.RequireBearerToken(verify, nil)(srv.HTTPHandler(nil)))
		c := client.New(&client.Options{Form: form(map[string]any{"resolution": "Fixed"})})
		session, err := c.Connect(context.Background(), &mcp.StreamableClientTransport{
			Endpoint: web.URL, HTTPClient: &http.Client{Transport: withToken("machine")},
		}, nil)
		if err != nil {
			fmt.Println("refused")
			web.Close()
			continue
		}
		res, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "close_bug", Arguments: Bug{ID: 7}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Content[0].(*mcp.TextContent).Text)
		session.Close()
		web.Close()
	}
	// Output:
	// refused
	// asked: How was this bug resolved?
	// bug #7 closed as Fixed
}

// By default a client may send a round again, because its response may have been lost. With a guard it may not.
func ExampleOptions_replayGuard() {
	srv := newServer(askback.Options{ReplayGuard: new(state.MemoryGuard)})
	askOnce(srv)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	pending := park(web.URL, nil)
	resume(web.URL, nil, pending)
	resume(web.URL, nil, pending)
	// Output:
	// bug #7 closed as Fixed
	// refused: calling "tools/call": Invalid or expired requestState
}

// The first round has nothing to remember, so there is no state. Nothing binds the answer to its question then.
func ExampleOptions_bareFirstRound() {
	for _, bare := range []bool{false, true} {
		srv := newServer(askback.Options{BareFirstRound: bare})
		askOnce(srv)
		web := httptest.NewServer(srv.HTTPHandler(nil))
		pending := park(web.URL, nil)
		fmt.Println("has a state:", pending.State != "")
		resume(web.URL, nil, pending)
		web.Close()
	}
	// Output:
	// has a state: true
	// bug #7 closed as Fixed
	// has a state: false
	// bug #7 closed as Fixed
}
