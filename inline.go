package askback

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// AddInlineTool adds a tool whose handler was written for the SDK's mcp.AddTool and asks in the middle: through
// Elicit, CreateMessage, CreateMessageWithTools or ListRoots of req.Session. The handler stays as it is.
//
// In a session of a revision before 2026-07-28 it runs once, in the client's own session, as it always did. For a
// client of 2026-07-28 it runs in rounds, from the top in each. An ask that was answered in an earlier round returns
// the answer. One that was not ends the round:
//
//   - In the handler's own goroutine it does not return. Deferred functions run, and
//     nothing else: recover finds nothing in them, and ctx is cancelled with the cause
//     [ErrInputRequired]. A mutex that is not unlocked by one of them stays locked.
//   - In any other goroutine it returns an error that wraps ErrInputRequired. What the
//     handler returns then is left out.
//
// This is sound if the handler
//
//   - asks the same questions when it gets the same answers,
//   - does what has a side effect before its last question in [Do], with the call of
//     [CallFrom], and asks in no such step,
//   - releases what it holds while it asks in deferred functions.
//
// What stands after the last question runs again if the last response is lost and the client repeats the round, as in
// every handler. Unless t is annotated as read-only, a warning is logged that says what to do.
//
// A question is known by its content; the same one, asked again after its answer, is a new one. An answer that does
// not fit its form is asked for again; it is no error. A form has to keep to the restricted schema of the
// specification: the SDK also sends what no client need understand, such as patterns, and here Elicit says what is
// wrong with it. If the client has not declared the capability for an ask, Elicit returns the SDK's error for that
// and the others a [*CapabilityError]; returned by the handler both become the JSON-RPC error -32021.
//
// In rounds req.Session is a stand-in that nothing is connected to. Its InitializeParams say what the client
// declared, and its ID is the call's; progress goes to the client, other notifications go nowhere.
//
// Arguments and results are handled as the SDK's mcp.AddTool does it: a string, too, is
// structured content. AddInlineTool panics if a schema cannot be inferred or is invalid. An error that wraps a
// *jsonrpc.Error, such as the error of a client's answer, is a tool error; only one that is itself of that type is sent
// as such. (basic/patterns/mrtr)
func AddInlineTool[In, Out any](s *Server, t *mcp.Tool, h mcp.ToolHandlerFor[In, Out]) {
	addTool[In, Out](s, t, nil, func(ctx context.Context, call *Call, in In) (*mcp.CallToolResult, any, error) {
		var res *mcp.CallToolResult
		var out Out
		ctx = context.WithValue(ctx, callKey{}, call)
		err := s.inline().Run(ctx, call.c, func(ctx context.Context, req *mcp.CallToolRequest) (err error) {
			res, out, err = h(ctx, req, in)
			return err
		})
		return ownResult(res), out, err
	})
	s.warnInline(t)
}

// warnInline says what running in rounds asks of a handler that was not written for it.
func (s *Server) warnInline(t *mcp.Tool) {
	const advice = "put what has a side effect before a question into askback.Do(ctx, askback.CallFrom(ctx), …), " +
		"give what has one after the last question the call's IdempotencyKey, because a lost response repeats it, " +
		"and let questions depend on arguments and answers alone"
	switch hints := t.Annotations; {
	case hints != nil && hints.ReadOnlyHint:
	case hints != nil && hints.IdempotentHint:
		s.log.Info("askback: an inline tool runs from the top in every round; "+
			"it says that it is idempotent, so that repeating it should do no harm; if it does, "+advice, "tool", t.Name)
	default:
		s.log.Warn("askback: an inline tool runs from the top in every round, "+
			"so that everything before an open question happens again in each; "+advice+
			"; annotate it with ReadOnlyHint if there is nothing to repeat", "tool", t.Name)
	}
}

// CallFrom returns the call that a handler added with [AddInlineTool] serves, found in its ctx, for use with [Do], or
// nil elsewhere. Do keeps its promise in sessions, too, where the handler runs once. [Elicit], the other asks and
// [Call.Checkpoint] do not take such a call: the handler asks through its session, or becomes one for [AddTool].
func CallFrom(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}

type callKey struct{}
