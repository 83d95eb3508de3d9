package client

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// inlineSessions holds the state of each open session of a client, and answers the questions
// that servers before 2026-07-28 ask inside them.
type inlineSessions struct {
	opts    *Options
	receive mcp.MethodHandler // The SDK's client calls it for each message of a server.
	states  sync.Map          // From *mcp.ClientSession to *inlineState.
}

func (i *inlineSessions) of(s *mcp.ClientSession) *inlineState {
	v, _ := i.states.LoadOrStore(s, new(inlineState))
	return v.(*inlineState)
}

// answer is middleware of the SDK's client.
func (i *inlineSessions) answer(next mcp.MethodHandler) mcp.MethodHandler {
	i.receive = func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		session := req.GetSession().(*mcp.ClientSession)
		if strings.HasPrefix(method, "notifications/") { // one at a time, over every transport
			state := i.of(session)
			state.notifying.Lock()
			defer state.notifying.Unlock()
		}
		if method == "notifications/tools/list_changed" {
			i.of(session).tools.Store(new(map[string]string))
		}
		if changed, ok := req.GetParams().(*mcp.ResourceUpdatedNotificationParams); ok && changed != nil {
			i.of(session).resources.forget(changed.URI)
		}
		if done, ok := req.GetParams().(*mcp.ElicitationCompleteParams); ok && done != nil {
			i.of(session).complete(done.ElicitationID)
		}
		if method != input.MethodElicit && method != input.MethodCreateMessage && method != input.MethodListRoots {
			return next(ctx, method, req)
		}
		q, task, ours, err := readInline(method, req, session)
		if err != nil {
			return nil, err
		}
		if err := parse(q); err != nil {
			return nil, inlineError(err)
		}
		if method == input.MethodListRoots { // roots are asked for outside of calls, too
			res, err := i.opts.answer(ctx, q)
			return inlineResult(task, res, err)
		}
		state := i.of(session)
		ctx, leave, err := state.admit(ctx, &i.opts.Limits)
		if err != nil {
			return nil, inlineError(err)
		}
		defer leave()
		res, err := i.opts.answer(ctx, q)
		// Askback's servers keep a task that asks, and ask again. Other servers may take an
		// error for an answer, and therefore get no response.
		if errors.Is(err, ErrPark) && task != "" && state.park(task, parkedQuestion{q, ours}) && !ours {
			return nil, tap.NoResponse
		}
		return inlineResult(task, res, err)
	}
	return i.receive
}

// readInline reads a question, the ID of the task that asks it, if it is one, and whether
// the server is one of Askback's.
func readInline(
	method string, req mcp.Request, session *mcp.ClientSession,
) (q *Question, task string, ours bool, err error) {
	q = &Question{Key: method, Method: method}
	if res := session.InitializeResult(); res != nil {
		q.Server = res.ServerInfo
	}
	if q.Params, err = json.Marshal(req.GetParams()); err != nil {
		return nil, "", false, err
	}
	if came, ok := strictjson.String(strictjson.Get(strictjson.Get(q.Params, "_meta"), tap.MetaParams)); ok {
		q.Params = []byte(came)
	}
	// Parameters may be absent: then these are null.
	if meta := strictjson.Get(q.Params, "_meta"); meta != nil {
		if key, ok := strictjson.String(strictjson.Get(meta, wire.MetaKey)); ok {
			q.Key, ours = key, true
		}
		task, _ = strictjson.String(strictjson.Get(strictjson.Get(meta, wire.MetaRelatedTask), "taskId"))
	}
	return q, task, ours, nil
}

// inlineState holds what a session learns from the messages that the SDK's client receives. Above all it ties the
// questions that a server asks inside a session to the session's calls: the calls bound them, and they end with the
// last call and with the session.
type inlineState struct {
	mu    sync.Mutex
	calls int                // The calls that run.
	open  int                // questions that handlers have
	asked int                // questions since the first of these calls
	ctx   context.Context    // The questions' context ends with the last call and with the session.
	end   context.CancelFunc // ends ctx

	completions sync.Map // From elicitation IDs to *context.CancelFunc: see completion.

	parked sync.Map // From task IDs to chan parkedQuestion, which takes the parked questions of the task.

	// tools holds the execution.taskSupport of each tool, or nil if the list is not known. Each
	// change of the list stores another pointer.
	tools atomic.Pointer[map[string]string]

	notifying sync.Mutex // held while a notification is handled

	web atomic.Bool // Over HTTP arguments may be mirrored into headers.

	// What the SDK keeps for its own requests, and direct requests need as well.
	mirrored  sync.Map // tools that mirror arguments into headers: their names to []wire.ParamHeader
	resources resourceCache
}

// parkedQuestion is a question of a task that nobody answers now.
type parkedQuestion struct {
	question  *Question
	responded bool // else the server learns it from the end of the request for the task's result
}

// enter begins a call of a session that lasts as long as life, and returns how to end the call.
func (s *inlineState) enter(life context.Context) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.calls == 1 {
		s.ctx, s.end = context.WithCancel(life)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.calls--; s.calls == 0 {
			s.asked = 0
			s.end()
		}
	}
}

// admit admits a question within the limits. It returns the context of the question, and how to end it.
func (s *inlineState) admit(ctx context.Context, l *Limits) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.calls == 0 || s.ctx.Err() != nil:
		return nil, nil, errors.New("no call is running that this question could belong to")
	case s.open >= l.Questions*s.calls:
		return nil, nil, l.questionsReached()
	case s.asked >= l.Rounds*l.Questions*s.calls:
		return nil, nil, l.roundsReached()
	}
	s.asked++
	s.open++
	ctx, cancel := join(ctx, s.ctx)
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	}, nil
}

// wait lets the questions of a task be parked while its result is waited for.
func (s *inlineState) wait(task string) (questions <-chan parkedQuestion, leave func()) {
	ch := make(chan parkedQuestion, 1)
	s.parked.Store(task, ch)
	return ch, func() { s.parked.CompareAndDelete(task, ch) }
}

// park parks a question of a task, and reports whether its result is waited for.
func (s *inlineState) park(task string, p parkedQuestion) bool {
	ch, ok := s.parked.Load(task)
	if ok {
		select {
		case ch.(chan parkedQuestion) <- p:
		default: // another one is there already
		}
	}
	return ok
}

// completion returns a context that ends when the server says that it is done with a page.
func (s *inlineState) completion(id string) (done context.Context, leave func()) {
	done, end := context.WithCancel(context.Background())
	s.completions.Store(id, &end)
	return done, func() { s.completions.CompareAndDelete(id, &end); end() }
}

// complete ends what waits for a page.
func (s *inlineState) complete(id string) {
	if end, ok := s.completions.Load(id); ok {
		(*end.(*context.CancelFunc))()
	}
}

// inlineResult is the response to a question. It names the question's task, if there is one
// (2025-11-25, "Associating Task-Related Messages").
func inlineResult(task string, answer json.RawMessage, err error) (mcp.Result, error) {
	if err != nil {
		return nil, inlineError(err)
	}
	if task == "" {
		return &rawResult{RawMessage: answer}, nil
	}
	var members map[string]json.RawMessage
	err = json.Unmarshal(answer, &members)
	meta := make(map[string]json.RawMessage)
	if given := members["_meta"]; given != nil {
		err = errors.Join(err, json.Unmarshal(given, &meta))
	}
	if err != nil {
		return nil, err
	}
	meta[wire.MetaRelatedTask], _ = json.Marshal(map[string]string{"taskId": task}) // strings always marshal
	members["_meta"], _ = json.Marshal(meta)
	data, err := json.Marshal(members)
	return &rawResult{RawMessage: data}, err
}

// inlineError is the response to a question that cannot be answered.
func inlineError(err error) error {
	fault := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	if errors.Is(err, ErrPark) {
		fault.Message = "there is no answer yet, and a question inside a session cannot wait"
	} else if _, undeclared := errors.AsType[*UndeclaredError](err); undeclared {
		fault.Code, fault.Message = jsonrpc.CodeMethodNotFound, "this client did not declare that capability"
	}
	return fault
}

// rawResult is a result as JSON.
type rawResult struct {
	mcp.ResultBase
	json.RawMessage
}
