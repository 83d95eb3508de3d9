package drafts

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
)

// echoed is the home of a call in a session whose questions carry a state: held, and sealed as if it were carried, so
// that another process can go on.
type echoed struct {
	*home.Held
	call *Call
}

// Echo returns the home of a call in a session whose questions carry a state.
func Echo(r *call.Request, held *home.Held, id []byte) (call.Home, error) {
	e := &echoed{held, &Call{Session: held.Session.ID(), ID: id, Method: r.Handler.Method, Params: r.Raw}}
	var err error
	if init := held.Session.InitializeParams(); init != nil {
		e.call.Capabilities, err = json.Marshal(init.Capabilities)
	}
	return e, err
}

// Suspend implements [call.Home]. Where there can be no state, because it is too large or the store fails, the call
// goes on all the same.
func (e *echoed) Suspend(
	ctx context.Context, j *journal.Journal, out *call.Outcome,
) (answers call.Answers, again bool, err error) {
	j.Start(time.Now()) // the state has the deadlines, too
	sealed, _, err := e.Seal(ctx, j)
	if err != nil {
		return e.Held.Suspend(ctx, j, out)
	}
	for i, q := range out.Questions {
		state, err := e.call.Encode(sealed, q.Wire)
		if err != nil {
			return answers, false, err
		}
		out.Questions[i] = q.WithTyped(home.WithMeta(q.Typed(), mcp.Meta{MetaState: state}))
	}
	if answers, again, err = e.Held.Suspend(ctx, j, out); err != nil {
		return answers, again, err
	}
	return answers, again, e.Spend(ctx, j, sealed)
}

// End implements [call.Home].
func (e *echoed) End(ctx context.Context, j *journal.Journal, _ *call.Outcome, _ error) {
	if j.Round > 0 {
		e.Drop(ctx, j)
	}
}
