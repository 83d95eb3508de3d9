// Package askbacktest runs handlers that ask back in unit tests, without a network:
//
//	func TestClose(t *testing.T) {
//		res := askbacktest.Run(t, register, askbacktest.Call{
//			Tool:      "close_bug",
//			Arguments: map[string]any{"id": 7},
//			Answers: map[string]askbacktest.Answer{
//				"resolution": askbacktest.Accept(map[string]any{"resolution": "Fixed"}),
//			},
//		})
//		if res.Text() != "Bug #7 closed as Fixed." {
//			t.Error(res.Text())
//		}
//	}
//
// The run is harder on the handler than most clients are:
//
//   - A new server serves every round, as if the process had been restarted.
//   - Every request is sent twice, as by a client whose response was lost.
//   - After every round the handler is replayed without answers.
//
// The test fails when any of this changes a question or a result. Then the handler depends on something that is neither
// an answer nor the result of a step, or a step is not safe to repeat.
package askbacktest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// Call is a call and the answers that its client will give.
type Call struct {
	// One of these names what is called.
	Tool     string
	Prompt   string
	Resource string // its URI

	// Arguments marshal to a JSON object. Nil means none.
	Arguments any
	// Answers holds the answers by the questions' keys. A question of askback.AddInlineTool has no key of its author:
	// its message is the key. The test fails if an answer is missing or is never asked for.
	Answers map[string]Answer
	// Cannot are the capabilities that the client does not declare, combined with |. Zero means that it declares all.
	Cannot askback.Capability
	// Principal is the authenticated caller.
	Principal string
	// Lossless sends no request twice, so that steps need not be safe to repeat.
	Lossless bool
	// Effects, if set, counts what the test's fakes record, and the test fails if that happens outside of a step.
	Effects *Effects
	// RealClock leaves the clock alone, so that a question that depends on a coarse one is not found: see [Run].
	RealClock bool
	// Options of the servers, such as Limits. Run sets Keys, Principal, ReplayGuard, Logger and the times to live.
	Options askback.Options
}

// Answer is what the client answers to one question.
type Answer struct{ results []json.RawMessage }

// Accept answers a form with content, which marshals to a JSON object, or consents to open a URL with nil.
func Accept(content any) Answer {
	if content == nil {
		return result(map[string]any{"action": "accept"})
	}
	return result(map[string]any{"action": "accept", "content": content})
}

// Decline answers that the user declined.
func Decline() Answer { return result(map[string]any{"action": "decline"}) }

// Cancel answers that the user dismissed the question.
func Cancel() Answer { return result(map[string]any{"action": "cancel"}) }

// Completion answers a sampling request with a text of the model.
func Completion(text string) Answer {
	return Sampled(&mcp.CreateMessageWithToolsResult{
		Role: "assistant", Model: "askbacktest", StopReason: "endTurn",
		Content: []mcp.Content{&mcp.TextContent{Text: text}},
	})
}

// Sampled answers a sampling request.
func Sampled(res *mcp.CreateMessageWithToolsResult) Answer { return result(res) }

// Roots answers a request for roots with these file URIs.
func Roots(uris ...string) Answer {
	roots := make([]*mcp.Root, len(uris))
	for i, uri := range uris {
		roots[i] = &mcp.Root{URI: uri}
	}
	return result(mcp.ListRootsResult{Roots: roots})
}

// InTurn answers a question that is asked several times: with the first answer first,
// and with the last one from then on.
func InTurn(answers ...Answer) Answer {
	var all Answer
	for _, a := range answers {
		all.results = append(all.results, a.results...)
	}
	return all
}

func result(v any) Answer {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("askbacktest: an answer cannot be encoded: %v", err))
	}
	return Answer{[]json.RawMessage{data}}
}

// Result is how a call ended.
type Result struct {
	// Asked are the keys asked in each round that ended with input required, in order.
	Asked [][]string
	// One of these is set.
	Tool     *mcp.CallToolResult
	Prompt   *mcp.GetPromptResult
	Resource *mcp.ReadResourceResult
	Err      *jsonrpc.Error
}

// Text returns the text of a tool's result, or the message of an error.
func (r *Result) Text() string {
	if r.Err != nil {
		return r.Err.Message
	}
	var b strings.Builder
	if r.Tool != nil {
		for _, c := range r.Tool.Content {
			if text, ok := c.(*mcp.TextContent); ok {
				b.WriteString(text.Text)
			}
		}
	}
	return b.String()
}
