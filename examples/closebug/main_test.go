package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/harness"
)

// The tool is called, asks, is answered, and acts.
func Example() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	defer log.SetOutput(os.Stderr)
	m := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	register(srv)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()

	ctx := context.Background()
	c := client.New(&client.Options{Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		fmt.Println(q.Message)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"resolution": "Fixed"}}, nil
	}})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "close_bug", Arguments: Bug{ID: 7}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output:
	// How was this bug resolved?
	// bug 7 is closed as Fixed
	// Bug #7 closed as Fixed.
}

// README.md says what the manual style does not do. Each of these is sent to both servers in the second round, after
// the first one asked about bug 7.
func TestManualStyle(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil)
	registerManual(m)
	manual := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m },
		&mcp.StreamableHTTPOptions{Stateless: true})
	principal := func(_ context.Context, extra *mcp.RequestExtra) (string, error) { return extra.Header.Get("User"), nil }
	ours := harness.NewServer(t, &askback.Options{Principal: principal}, register).HTTPHandler(nil)

	const fixed = `{"resolution":{"action":"accept","content":{"resolution":"Fixed"}}}`
	as := func(user string) http.Header { return http.Header{"User": {user}} }
	for name, c := range map[string]struct {
		second       func(r *harness.Request) // changes the second round
		manual, ours string                   // what comes back
	}{
		"the answer":           {func(r *harness.Request) {}, "Bug #7 closed as Fixed.", "Bug #7 closed as Fixed."},
		"for another bug":      {func(r *harness.Request) { r.Arguments = `{"id":8}` }, "Bug #8 closed as Fixed.", "refused"},
		"as another user":      {func(r *harness.Request) { r.Header = as("eve") }, "Bug #7 closed as Fixed.", "refused"},
		"a state of one's own": {func(r *harness.Request) { r.State = "step=2" }, "Bug #7 closed as Fixed.", "refused"},
		"an answer that is not on the list": {func(r *harness.Request) {
			r.Responses = strings.Replace(fixed, "Fixed", "Lost", 1)
		}, "Bug #7 closed as Lost.", "asked again"},
	} {
		for server, side := range map[string]struct {
			handler http.Handler
			want    string
		}{"manual": {manual, c.manual}, "Askback": {ours, c.ours}} {
			r := harness.Request{Target: "close_bug", Arguments: `{"id":7}`, Header: as("alice")}
			first := r.Send(t, side.handler)
			first.Asked(t, "resolution")
			if plain := first.Result.State == "step=1"; plain != (server == "manual") {
				t.Errorf("%s sends the state %q", server, first.Result.State)
			}
			r.State, r.Responses = first.Result.State, fixed
			c.second(&r)
			second := r.Send(t, side.handler)
			var got string
			switch {
			case second.Error != nil && second.Error.Code == -32602:
				got = "refused"
			case second.Result != nil && len(second.Result.Requests) > 0:
				got = "asked again"
			default:
				got = second.Text(t)
			}
			if got != side.want {
				t.Errorf("%s, %s: got %q, want %q", name, server, got, side.want)
			}
		}
	}
}
