// Package primes is an example of a tool that sheds load: count_primes works in parts, and a loaded server ends the
// request between two parts, without a question. The client sends the request again, and the server that gets it
// continues after the parts that are done.
package primes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// parts is the number of steps of the work.
const parts = 4

type args struct {
	Below int `json:"below"`
}

var argsSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"below": {"type": "integer", "minimum": 2, "maximum": 5000000, "description": "count the primes below this number"}
	},
	"required": ["below"],
	"additionalProperties": false
}`)

// counted is the recorded result of the step of a part.
type counted struct {
	Primes int    `json:"primes"`
	Server string `json:"server"` // the random ID of the server that counted them
}

// Outcome is the structured result of count_primes.
type Outcome struct {
	Below   int    `json:"below"`
	Primes  int    `json:"primes" jsonschema:"how many primes there are below it"`
	Servers int    `json:"servers" jsonschema:"how many servers counted them"`
	Parts   []Part `json:"parts"`
}

// Part is the primes of one range: from From, and below Below.
type Part struct {
	From   int `json:"from"`
	Below  int `json:"below"`
	Primes int `json:"primes"`
	Server int `json:"server" jsonschema:"which server counted them, numbered from 1 in the order in which they took part"`
}

// Register adds the tool count_primes to s. Loaded reports between two parts whether another server should continue. It
// must be safe for concurrent use. Its answer may change at any time, because no question and no count depends on it.
func Register(s *askback.Server, loaded func() bool) {
	server := rand.Text()
	output, err := jsonschema.For[Outcome](nil)
	if err != nil {
		panic(err) // a fault of the build
	}
	tool := &mcp.Tool{
		Name: "count_primes", Description: "Count the primes below a number",
		InputSchema: argsSchema, OutputSchema: output,
	}

	askback.AddTool(s, tool, func(ctx context.Context, call *askback.Call, in args) (*mcp.CallToolResult, error) {
		out := Outcome{Below: in.Below}
		var servers []string
		var took bool // this round has counted a part: a server must do some work before it hands a call over
		for i := range parts {
			step := fmt.Sprintf("part-%d", i+1)
			if took && loaded() {
				if err := call.Checkpoint(ctx, "before-"+step); err != nil {
					return nil, err
				}
			}
			part := Part{From: boundary(in.Below, i), Below: boundary(in.Below, i+1)}
			got, err := askback.Do(ctx, call, step, func(context.Context) (counted, error) {
				took = true
				return counted{count(part.From, part.Below), server}, nil
			})
			if err != nil {
				return nil, err
			}
			if !slices.Contains(servers, got.Server) {
				servers = append(servers, got.Server)
			}
			part.Primes, part.Server = got.Primes, slices.Index(servers, got.Server)+1
			out.Primes += part.Primes
			out.Parts = append(out.Parts, part)
		}
		out.Servers = len(servers)
		return &mcp.CallToolResult{
			Content:           []mcp.Content{&mcp.TextContent{Text: out.String()}},
			StructuredContent: out,
		}, nil
	})
}

func (o Outcome) String() string {
	are, primes, servers := "are", "primes", "servers"
	if o.Primes == 1 {
		are, primes = "is", "prime"
	}
	if o.Servers == 1 {
		servers = "server"
	}
	return fmt.Sprintf("There %s %d %s below %d, counted by %d %s.", are, o.Primes, primes, o.Below, o.Servers, servers)
}

// boundary returns the number at which part i of the numbers from 2 to n-1 begins.
func boundary(n, i int) int { return 2 + (n-2)*i/parts }

// count returns the number of primes from from, at least 2, to below-1. It sieves that segment alone.
func count(from, below int) int {
	if below <= from {
		return 0
	}
	composite := make([]bool, below-from)
	for d := 2; d*d < below; d++ { // primes would be enough, but finding them needs another sieve
		for m := max(d*d, (from+d-1)/d*d); m < below; m += d {
			composite[m-from] = true
		}
	}
	primes := 0
	for _, c := range composite {
		if !c {
			primes++
		}
	}
	return primes
}
