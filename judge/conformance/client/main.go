// Command client is the MCP client that the official conformance suite drives; the
// README of the directory above tells how. The suite appends the server's URL to the
// command, and names the scenario and the protocol's revision in the environment.
//
// Everything that a scenario calls is called through Askback's package client, so that Askback is judged; lists come
// from the session of the SDK below. Beyond what the suite observes, a scenario checks what came back. The client
// writes to standard error only when something is wrong, which `run` counts as a failure of the scenario, even if the
// suite does not.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

func main() {
	negotiate := flag.Bool("negotiate", false,
		"agree with the server on a revision, instead of using the one that the suite names")
	flag.Parse()
	s := &scenario{
		endpoint: flag.Arg(0),
		name:     os.Getenv("MCP_CONFORMANCE_SCENARIO"),
		context:  []byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")),
	}
	if !*negotiate {
		s.version = os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION")
	}
	// The suite kills what takes longer than 30 seconds, and the reason is lost.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := errors.New("this client has no such scenario")
	if play := plays[s.name]; play != nil {
		err = play(ctx, s)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "conformance client: scenario %q at %s: %v\n", s.name, s.endpoint, err)
		os.Exit(1)
	}
}

// scenario is one run of this command.
type scenario struct {
	endpoint string
	name     string
	context  []byte // further settings of the scenario, as JSON
	version  string // of the protocol; empty to negotiate
}

// decodeContext decodes the scenario's further settings.
func (s *scenario) decodeContext(v any) error {
	if err := json.Unmarshal(s.context, v); err != nil {
		return fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
	}
	return nil
}

// connect connects a client that declares every capability, so that the suite sees all
// of them. Only forms are ever asked in its scenarios, and form answers them.
func (s *scenario) connect(ctx context.Context, form formHandler, oauth auth.OAuthHandler) (*client.Session, error) {
	c := client.New(&client.Options{
		Implementation: &mcp.Implementation{Name: "askback-conformance-client", Version: "1.0.0"},
		Form:           form,
		URL: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
		Sample: func(context.Context, *client.Question, *mcp.CreateMessageWithToolsParams) (
			*mcp.CreateMessageWithToolsResult, error,
		) {
			return nil, errors.New("no model is at hand")
		},
		Roots: func(context.Context) ([]*mcp.Root, error) { return nil, nil },
	})
	transport := &mcp.StreamableClientTransport{Endpoint: s.endpoint, OAuthHandler: oauth}
	return c.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: s.version})
}

type formHandler = func(context.Context, *client.Question) (*mcp.ElicitResult, error)

// accept accepts a form as it is, with its defaults.
func accept(context.Context, *client.Question) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
}
