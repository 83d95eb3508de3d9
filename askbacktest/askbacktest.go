// Package askbacktest runs handlers that ask back in unit tests, without a network:
//
//	func TestCloseBug(t *testing.T) {
//		var effects askbacktest.Effects
//		tracker := &fakeTracker{effects: &effects} // its Close calls effects.Record("close bug")
//		res := askbacktest.Run(t, func(srv *askback.Server) { Register(srv, tracker) }, askbacktest.Call{
//			Tool:      "close_bug",
//			Arguments: map[string]any{"id": 7},
//			Answers: map[string]askbacktest.Answer{
//				"resolution": askbacktest.Accept(map[string]any{"resolution": "Fixed"}),
//			},
//			Effects: &effects,
//		})
//		if res.Text() != "Bug #7 closed as Fixed." {
//			t.Error(res.Text())
//		}
//	}
//
// # What a run does
//
// [Run] is harder on the handler than most clients are:
//
//  1. A new server serves every round, as if the process had been restarted.
//  2. Every request is sent twice, as by a client whose response was lost, unless [Call.Lossless] is set.
//  3. After every round, the last one included, the handler is replayed a hundred times. For half of them the clock is
//     moved, a week at a time, by more than a year. In a replay no step runs: each returns what it returned in the
//     round.
//
// The client speaks 2026-07-28. In a session of an earlier revision the handler runs in the same rounds, except one of
// askback.AddInlineTool, which runs once there.
//
// # What it finds
//
// The test fails at the first of these mistakes, in a few lines:
//
//   - A question depends on a clock, a counter, a random number or the order of a map: the message has the question,
//     and the part of it that changed. Take such a value in [askback.Do], and sort the keys of a map. A question may
//     contain the result of a step, such as the nonce in the URL of a login, or [askback.Call.ID].
//   - Whether the handler asks depends on one of these.
//   - An effect on the outside, such as an email, happens outside of a step, where it happens again in every round. The
//     test's fakes tell [Effects] what they do. Put the effect into [askback.Do] or [askback.Call.Do].
//   - A step asks. Ask before it.
//   - The result of a step loses a field in the JSON that records it, because the field is unexported, has the tag
//     json:"-", or its type encodes itself without it. The handler would read a zero value.
//   - A step is not safe to repeat: the result changes when the request is sent again. Give the outside
//     [askback.Call.IdempotencyKey]. If it takes none, ask before the step, and set [Call.Lossless].
//   - The handler panics: the message has the place.
//   - A question has no answer in [Call.Answers] or one that does not fit, or an answer belongs to no question.
//
// docs/reference.md shows their messages.
//
// Three mistakes go unnoticed: an effect that no fake records, a question that depends on something that stays the same
// during the test, such as a row of a database, and a step that is not safe to repeat whose result appears only in
// questions.
//
// # Clocks and networks
//
// The clock is moved in a bubble of [testing/synctest], in which only code outside of steps runs, because a bubble and
// a real network do not go together: a connection of a pool that is used inside and outside of one ends the process. So
// put network calls into steps, where they are safe. A handler that makes others is noticed if it passes on its
// context: then the clock is not moved, and the test's log says so. The same goes for a handler that derives a context
// with a deadline or a cancellation of its own. If it makes network calls without its context, or shares channels with
// goroutines of the test, the process ends with "fatal error: … synctest channel from outside bubble": set
// [Call.RealClock]. In a test that is in a bubble itself, everything runs in that one.
//
// # People
//
// [Answer.By] and [Unanswered] decide a question for people. Nobody waits: a deadline passes when the
// test says so, and a sleep ends at once. The call continues in rounds, for which everything above holds. Where
// [Call.Options] have no Tasks or no Desk, Run sets them. A client's decline counts as shown, however fast it comes.
//
// # Tasks
//
// A tool of [askback.AddTaskTool] runs in rounds, as for a client that cannot take a task, unless its TaskSupport
// requires one. What holds for rounds holds for its task: the same steps, the same questions.
package askbacktest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
)

// Call is a call and the answers that its client will give.
type Call struct {
	// One of these names the tool, prompt or resource.
	Tool     string
	Prompt   string
	Resource string // its URI

	// Arguments marshal to a JSON object. Nil means none.
	Arguments any
	// Answers holds the answers by the questions' keys. A question of askback.AddInlineTool has no key of its author:
	// its message is the key. The test fails if an answer is missing, is never asked for, or does not fit, unless another
	// one follows it (see InTurn).
	Answers map[string]Answer
	// Cannot are the capabilities that the client does not declare, such as askback.CapabilityForm, combined with |.
	// Zero means that it declares all.
	Cannot askback.Capability
	// Principal is the authenticated caller.
	Principal string
	// Lossless sends no request twice, so that steps need not be safe to repeat.
	Lossless bool
	// Effects, if set, counts what the test's fakes record, and the test fails if that happens outside of a step.
	Effects *Effects
	// RealClock leaves the clock alone, and then a question that depends on a coarse one, such as the day, is not found.
	// It is for handlers that use a network outside of their steps, and without their context.
	RealClock bool
	// Options of the servers, such as Limits. Run sets Keys, Principal, ReplayGuard, Logger and the times to live.
	Options askback.Options
}

// Answer is the client's answer to one question, or the answer of the people whom it is for.
type Answer struct{ given []given }

// given is one answer.
type given struct {
	result     json.RawMessage
	by         *desk.Person // nil: the client
	why        string
	unanswered bool // the deadline passes instead
}

// By names the person who answers a question for people (see [askback.Question]), and which groups the person is
// in. Several votes are InTurn:
//
//	"approve": askbacktest.InTurn(
//		askbacktest.Accept(nil).By("ada", "release"),
//		askbacktest.Decline().By("bob", "release").Because("not on a Friday"),
//	),
//
// They are given at a desk, by the rules of package desk. An answer after the one that decides comes too late.
func (a Answer) By(name string, groups ...string) Answer {
	return a.with(func(g *given) { g.by = &desk.Person{Name: name, Groups: groups} })
}

// Because gives the reason for an answer of a person.
func (a Answer) Because(reason string) Answer { return a.with(func(g *given) { g.why = reason }) }

func (a Answer) with(change func(*given)) Answer {
	changed := Answer{slices.Clone(a.given)}
	for i := range changed.given {
		change(&changed.given[i])
	}
	return changed
}

// Unanswered lets the deadline of a question pass. Votes may come before it, InTurn.
func Unanswered() Answer { return Answer{[]given{{unanswered: true}}} }

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
		all.given = append(all.given, a.given...)
	}
	return all
}

func result(v any) Answer {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("askbacktest: an answer cannot be encoded: %v", err))
	}
	return Answer{[]given{{result: data}}}
}

// Result is the outcome of a call.
type Result struct {
	// Asked are the keys asked in each round that ended with input required, in order.
	Asked [][]string
	// Refused are the errors of people's answers that did not count, in order: a *desk.ClosedError for one that came too
	// late, a desk.ErrOwnCall, or a task.ErrNotFound for somebody whom the question is not for.
	Refused []error
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
