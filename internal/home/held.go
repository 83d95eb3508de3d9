package home

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/wire"
)

// Held is the home of a journal that stays in memory inside one request of a session, whose
// client is asked there and then. It implements [call.Home].
type Held struct {
	*Carried
	Session *mcp.ServerSession

	started time.Time // by the clock of the instance
	began   time.Time // the same moment, to measure from
}

// Held returns the home of a call in a session.
func (c *Carrier) Held(r *call.Request, session *mcp.ServerSession) *Held {
	return &Held{Carried: c.Home(r), Session: session}
}

// Open implements [call.Home]. A request in a session has no state and no answers.
func (h *Held) Open(ctx context.Context) (opened call.Opened, err error) {
	if h.task, err = h.readTaskRequest(h.request, false); err != nil { // nor the extension
		return opened, err
	}
	h.task.Fresh = true
	h.started, h.began = clock.Now(ctx), time.Now()
	j := &journal.Journal{ID: rand.Text(), Started: h.started}
	return h.opened(ctx, j, call.Answers{}), nil
}

// now is the time by the clock of the instance as it was when the call began. It may be set before the call ends.
func (h *Held) now() time.Time { return h.started.Add(time.Since(h.began)) }

// Suspend implements [call.Home]: it asks the client, and the call goes on.
func (h *Held) Suspend(
	ctx context.Context, j *journal.Journal, out *call.Outcome,
) (answers call.Answers, again bool, err error) {
	if ctx.Err() != nil {
		return answers, false, context.Cause(ctx)
	}
	id := journal.Derived("call", j.ID)
	manual := slices.ContainsFunc(out.Questions, func(q *question.Question) bool { return q.Accept == nil })
	now := h.now()
	j.Start(now)
	var within map[string]time.Duration
	for _, q := range j.Pending {
		if !q.Deadline.IsZero() {
			if within == nil {
				within = make(map[string]time.Duration)
				defer gate.Unhurried(ctx)()
			}
			within[q.Wire] = q.Deadline.Sub(now)
		}
	}
	fallback := make(map[string]bool)
	for _, q := range out.Questions {
		fallback[q.Wire] = q.Fallback || q.Optional
	}
	defer h.beat(ctx)()
	responses, unfit, err := Ask(ctx, h.Session, id, out.Typed(), within, fallback, !manual)
	for _, q := range out.Questions {
		if err == nil && unfit[q.Wire] && q.Accept == nil { // its handler would take it for one that fits
			refusal := journal.Refusal{Key: q.Wire, Reason: q.Unfit(responses[q.Wire])}
			call.LogRefused(ctx, h.Log, id, h.request.Handler.Method, h.request.Params.Target, j.Round, refusal)
			delete(responses, q.Wire)
		}
	}
	if err == nil && len(within) > 0 {
		j.Expire(h.now(), responses)
	}
	return call.Answers{Responses: responses}, true, err
}

// beat tells the client, until stop, that the call waits for its user. Many hosts end a call of which they hear nothing
// for a minute.
func (h *Held) beat(ctx context.Context) (stop func()) {
	if h.request.Progress == nil {
		return func() {}
	}
	ctx, stop = context.WithCancel(ctx)
	began, before := time.Now(), h.request.Reported()
	go func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(call.ReportsEvery):
				_ = h.request.Report(ctx, before+time.Since(began).Seconds(), 0, "Waiting for your answer.") // or the next one
			case <-ctx.Done():
			}
		}
	}()
	return stop
}

// Ask sends questions as requests of the server and waits for all results. Those that do not fit their questions are
// among the responses, too: they are unfit, unless the caller of Ask checks all of them. A question that is not
// answered within its time, if it has one, is withdrawn, and has no response. An error of the client counts as an
// answer that says nothing to a question that others can be asked, by fallback.
func Ask(
	ctx context.Context, session *mcp.ServerSession, callID string, requests mcp.InputRequestMap,
	within map[string]time.Duration, fallback map[string]bool, checked bool,
) (responses map[string][]byte, unfit map[string]bool, err error) {
	var mu sync.Mutex
	responses, unfit = make(map[string][]byte, len(requests)), make(map[string]bool)
	group, ctx := errgroup.WithContext(ctx)
	for key, request := range requests {
		group.Go(func() error {
			a, began := &answered{checked: checked}, time.Now()
			asking := ctx
			if left, has := within[key]; has {
				a.timed = true
				var withdraw context.CancelFunc
				asking, withdraw = context.WithTimeoutCause(ctx, left, errLate)
				defer withdraw()
			}
			result, err := send(context.WithValue(asking, answeredKey{}, a), session, callID, key, request)
			if err != nil && ctx.Err() == nil && context.Cause(asking) == errLate {
				return nil
			}
			doesNotFit := err != nil && isUnfit(err)
			if doesNotFit || err == nil && a.result != nil {
				result, err = a.result, nil
			}
			if _, refused := errors.AsType[*jsonrpc.Error](err); refused && fallback[key] && asking.Err() == nil {
				result, err = struct{}{}, nil
			}
			if err != nil {
				return failed(key, err)
			}
			data, err := json.Marshal(result)
			if err != nil {
				return err
			}
			if checked {
				data = question.WithAfter(data, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			responses[key], unfit[key] = data, doesNotFit
			return nil
		})
	}
	return responses, unfit, group.Wait()
}

// failed is the error of a question that the client did not answer. The client's own error is not wrapped: it is not
// this server's answer to it.
func failed(key string, err error) error {
	if limit, ok := errors.AsType[*fault.LimitError](err); ok {
		return limit
	}
	return fmt.Errorf("asking the client %q: %v", key, err)
}

// answered is what a client answered, before the SDK checks it. The SDK's error tells that an answer does not fit, and
// may repeat it; the question's own check tells why.
type answered struct {
	result  mcp.Result
	checked bool // by the question
	timed   bool // it has a deadline of its own
}

type answeredKey struct{}

// Timed reports whether the context belongs to a question of [Ask] with a deadline of its own.
func Timed(ctx context.Context) bool {
	a, ok := ctx.Value(answeredKey{}).(*answered)
	return ok && a.timed
}

// Answered keeps the result of a question of [Ask], and returns what the SDK is to have of it. It is for the middleware
// around what the SDK's server sends. The SDK would check the content of an answer by the question's schema, which it
// reads anew for each answer: that is a third of what a question in a session costs. A question that checks its answer
// itself therefore leaves the content out.
func Answered(ctx context.Context, result mcp.Result) mcp.Result {
	a, ok := ctx.Value(answeredKey{}).(*answered)
	if !ok {
		return result
	}
	a.result = result
	if answer, ok := result.(*mcp.ElicitResult); ok && a.checked && answer != nil {
		return &mcp.ElicitResult{Action: answer.Action}
	}
	return result
}

func send(ctx context.Context, session *mcp.ServerSession, callID, key string, request mcp.InputRequest) (any, error) {
	switch q := WithMeta(request, mcp.Meta{wire.MetaKey: key}).(type) {
	case *mcp.ElicitParams:
		if q.Mode == "url" && q.ElicitationID == "" {
			q.ElicitationID = callID + "/" + key // required before 2026-07-28
		}
		return session.Elicit(ctx, q)
	case *mcp.CreateMessageWithToolsParams:
		return session.CreateMessageWithTools(ctx, q)
	case *mcp.CreateMessageParams:
		return session.CreateMessage(ctx, q)
	case *mcp.ListRootsParams:
		return session.ListRoots(ctx, q)
	}
	return nil, fmt.Errorf("unknown input request %T", request)
}

// WithMeta returns a copy of a request with more in its _meta. The request's own members win.
func WithMeta(request mcp.InputRequest, more mcp.Meta) mcp.InputRequest {
	switch p := request.(type) {
	case *mcp.ElicitParams:
		request = new(*p)
	case *mcp.CreateMessageWithToolsParams:
		request = new(*p)
	case *mcp.CreateMessageParams:
		request = new(*p)
	case *mcp.ListRootsParams:
		request = new(*p)
	}
	if params, ok := request.(mcp.Params); ok {
		meta := maps.Clone(more)
		maps.Copy(meta, params.GetMeta())
		params.SetMeta(meta)
	}
	return request
}

// isUnfit reports whether the SDK refused a form's answer because it does not fit the schema. The
// SDK has no type for that error.
func isUnfit(err error) bool {
	_, fromClient := errors.AsType[*jsonrpc.Error](err)
	return !fromClient && strings.Contains(err.Error(), "does not match requested schema")
}
