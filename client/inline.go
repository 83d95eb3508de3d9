package client

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

const methodToolsChanged = "notifications/tools/list_changed"

// inlineSessions holds the state of each open session of a client, and answers the questions
// that servers before 2026-07-28 ask inside them.
type inlineSessions struct {
	opts   *Options
	states sync.Map // of *mcp.ClientSession to *inlineState
}

func (i *inlineSessions) of(s *mcp.ClientSession) *inlineState {
	v, _ := i.states.LoadOrStore(s, &inlineState{open: make(map[int]context.CancelFunc)})
	return v.(*inlineState)
}

// answer is middleware of the SDK's client.
func (i *inlineSessions) answer(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		session, _ := req.GetSession().(*mcp.ClientSession)
		if session != nil && method == methodToolsChanged {
			i.of(session).tools.forget()
		}
		if method != methodElicit && method != methodCreateMessage && method != methodListRoots {
			return next(ctx, method, req)
		}
		q, task, ours, err := readInline(method, req, session)
		if err != nil {
			return nil, err
		}
		if err := q.parse(); err != nil {
			return nil, inlineError(err)
		}
		if session == nil || method == methodListRoots { // roots are asked for outside of calls, too
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
			<-ctx.Done()
		}
		return inlineResult(task, res, err)
	}
}

// readInline reads a question, the ID of the task that asks it, if it is one, and whether
// the server is one of Askback's.
func readInline(method string, req mcp.Request, session *mcp.ClientSession) (q *Question, task string, ours bool, err error) {
	q = &Question{Key: method, Method: method}
	if session != nil && session.InitializeResult() != nil {
		q.Server = session.InitializeResult().ServerInfo
	}
	if q.Params, err = json.Marshal(req.GetParams()); err != nil {
		return nil, "", false, err
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

// inlineState ties the questions that a server asks inside a session to the session's calls:
// the calls bound them, and they end with the last call and with the session. It also holds
// the list of tools of a session before 2026-07-28.
type inlineState struct {
	mu     sync.Mutex
	closed bool
	calls  int                            // that run
	asked  int                            // questions since the first of these calls
	next   int                            // key for open
	open   map[int]context.CancelFunc     // questions that handlers have
	waits  map[string]chan parkedQuestion // where the questions of a task go when they are parked, by the task's ID

	tools toolTasks
}

// parkedQuestion is a question of a task that nobody answers now.
type parkedQuestion struct {
	question  *Question
	responded bool // else the server learns it from the end of the request for the task's result
}

// enter begins a call, and returns how to end it.
func (s *inlineState) enter() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.calls--; s.calls == 0 {
			s.asked = 0
			s.cancelAll()
		}
	}
}

func (s *inlineState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cancelAll()
}

func (s *inlineState) cancelAll() {
	for _, cancel := range s.open {
		cancel()
	}
}

// admit admits a question within the limits. It returns the context of the question, and how
// to end it.
func (s *inlineState) admit(ctx context.Context, l *Limits) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.calls == 0:
		return nil, nil, errors.New("no call is running that this question could belong to")
	case len(s.open) >= l.Questions*s.calls:
		return nil, nil, l.questionsReached()
	case s.asked >= l.Rounds*l.Questions*s.calls:
		return nil, nil, l.roundsReached()
	}
	s.asked++
	s.next++
	id := s.next
	ctx, cancel := context.WithCancel(ctx)
	s.open[id] = cancel
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, id)
	}, nil
}

// wait lets the questions of a task be parked while its result is waited for.
func (s *inlineState) wait(task string) (questions <-chan parkedQuestion, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := make(chan parkedQuestion, 1)
	if s.waits == nil {
		s.waits = make(map[string]chan parkedQuestion)
	}
	s.waits[task] = ch
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waits[task] == ch {
			delete(s.waits, task)
		}
	}
}

// park parks a question of a task, and reports whether its result is waited for.
func (s *inlineState) park(task string, p parkedQuestion) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, ok := s.waits[task]
	if ok {
		select {
		case ch <- p:
		default: // another one is there already
		}
	}
	return ok
}

// inlineResult is the response to a question. It names the question's task, if there is one
// (2025-11-25, "Associating Task-Related Messages").
func inlineResult(task string, res any, err error) (mcp.Result, error) {
	if err != nil {
		return nil, inlineError(err)
	}
	if res, ok := res.(mcp.Result); ok && task == "" {
		return res, nil
	}
	data, err := json.Marshal(res) // it may be a form's answer with its defaults
	if err == nil && task != "" {
		data, err = relate(data, task)
	}
	if err != nil {
		return nil, err
	}
	return &rawResult{data: data}, nil
}

// relate adds the ID of a task to the _meta of a result.
func relate(result []byte, task string) ([]byte, error) {
	var members, meta map[string]json.RawMessage
	err := json.Unmarshal(result, &members)
	if given := members["_meta"]; err == nil && given != nil {
		err = json.Unmarshal(given, &meta)
	}
	if err != nil {
		return nil, err
	}
	if meta == nil {
		meta = make(map[string]json.RawMessage)
	}
	if meta[wire.MetaRelatedTask], err = json.Marshal(map[string]string{"taskId": task}); err != nil {
		return nil, err
	}
	if members["_meta"], err = json.Marshal(meta); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// inlineError is the response to a question that cannot be answered.
func inlineError(err error) error {
	fault := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	if errors.Is(err, ErrPark) {
		fault.Message = "no answer is at hand, and a question inside a session cannot wait"
	} else if _, undeclared := errors.AsType[*UndeclaredError](err); undeclared {
		fault.Code, fault.Message = jsonrpc.CodeMethodNotFound, "this client did not declare that capability"
	}
	return fault
}

// rawResult is a result that is encoded already.
type rawResult struct {
	mcp.ResultBase
	data json.RawMessage
}

func (r *rawResult) MarshalJSON() ([]byte, error) { return r.data, nil }
