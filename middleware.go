package askback

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// middleware stands around the SDK's handlers. It seals the state of handlers in the
// manual style that are registered on the SDK's server, and sends every outcome that
// needs input in the form of the specification.
func (s *Server) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if s.tasks != nil && wire.IsTask(method) {
			return s.serveTasksSDK(ctx, method, req)
		}
		m := manualParams(req)
		if !wire.MayAsk(method) || m == nil {
			result, err := next(ctx, method, req)
			if err != nil || s.tasks == nil {
				return result, err
			}
			return s.advertise(req, result)
		}
		// Whoever serves it: the SDK's server may have a resource that one of our templates also matches.
		principal, err := s.principal(ctx, caller(req))
		if err != nil {
			return nil, err
		}
		own := s.lookup(method, m.target) != nil
		switch {
		case own:
			r := new(reply)
			result, err := next(context.WithValue(ctx, ownCallKey{s}, &ownCall{principal, r}), method, req)
			if err == nil && r.task != nil {
				return &rawResult{encoded: s.encodeCreated(r, !legacy(req))}, nil
			}
			if legacy(req) {
				return result, err
			}
			if err == nil && (len(r.questions) > 0 || r.state != "") {
				form := &inputRequired{requests: r.encoded(), state: r.state}
				form.Meta = r.meta()
				return form, nil
			}
			if err == nil {
				if _, _, manual := manualOutcome(result); manual {
					// A resource of the SDK's server that one of our templates also matches.
					return nil, wire.Errorf(jsonrpc.CodeInternalError, "internal error")
				}
			}
			return result, err
		case legacy(req):
			return s.manualInline(ctx, next, method, req, m)
		default:
			return s.inputRequiredForm(s.manual(ctx, next, method, req, m, principal))
		}
	}
}

// manualRequest is the part of a request that the manual style uses.
type manualRequest struct {
	target    string
	arguments []byte
	state     string
	responses mcp.InputResponseMap
	// with makes the request with other state and responses.
	with func(state string, responses mcp.InputResponseMap) mcp.Request
}

func manualParams(req mcp.Request) *manualRequest {
	switch r := req.(type) {
	case *mcp.CallToolRequest:
		return &manualRequest{r.Params.Name, r.Params.Arguments, r.Params.RequestState, r.Params.InputResponses,
			func(state string, responses mcp.InputResponseMap) mcp.Request {
				params := *r.Params
				params.RequestState, params.InputResponses = state, responses
				return &mcp.CallToolRequest{Session: r.Session, Params: &params, Extra: r.Extra}
			}}
	case *mcp.GetPromptRequest:
		arguments, err := json.Marshal(r.Params.Arguments)
		if err != nil || r.Params.Arguments == nil {
			arguments = nil
		}
		return &manualRequest{r.Params.Name, arguments, r.Params.RequestState, r.Params.InputResponses,
			func(state string, responses mcp.InputResponseMap) mcp.Request {
				params := *r.Params
				params.RequestState, params.InputResponses = state, responses
				return &mcp.GetPromptRequest{Session: r.Session, Params: &params, Extra: r.Extra}
			}}
	case *mcp.ReadResourceRequest:
		return &manualRequest{r.Params.URI, nil, r.Params.RequestState, r.Params.InputResponses,
			func(state string, responses mcp.InputResponseMap) mcp.Request {
				params := *r.Params
				params.RequestState, params.InputResponses = state, responses
				return &mcp.ReadResourceRequest{Session: r.Session, Params: &params, Extra: r.Extra}
			}}
	}
	return nil
}

// manual serves a modern client: the state is opened for the handler and sealed again.
func (s *Server) manual(ctx context.Context, next mcp.MethodHandler, method string, req mcp.Request, m *manualRequest, principal string) (mcp.Result, error) {
	if m.arguments != nil {
		if err := strictjson.Check(m.arguments, s.opts.Limits.Depth); err != nil {
			return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", err)
		}
	}
	x := &exchange{
		handler:   &handler{method: method},
		params:    &wire.Params{Target: m.target, Arguments: m.arguments, State: m.state, HasState: m.state != "", Responses: make(map[string][]byte)},
		principal: principal,
	}
	for key := range m.responses {
		x.params.Responses[key] = nil // the SDK has decoded them
	}
	if meta, err := json.Marshal(req.GetParams().GetMeta()); err == nil {
		parsed, fault := wire.ParseMeta(meta)
		if fault != nil {
			return nil, fault
		}
		x.can = Kind(parsed.Capabilities)
	}
	j, err := s.openJournal(ctx, x)
	if err != nil {
		return nil, err
	}
	// Answers count only for questions that the state says are open.
	var responses mcp.InputResponseMap
	if s.opts.BareFirstRound && m.state == "" {
		responses = m.responses
	}
	for _, q := range j.Pending {
		if r, ok := m.responses[q.Wire]; ok {
			if responses == nil {
				responses = make(mcp.InputResponseMap)
			}
			responses[q.Wire] = r
		}
	}
	waited := j.Round > 0
	inner := j.Manual
	j.Pending, j.Manual = nil, ""
	result, err := next(ctx, method, m.with(inner, responses))
	if err != nil {
		return nil, err
	}
	requests, state, manual := manualOutcome(result)
	if !manual {
		if waited {
			s.dropState(ctx, x, j)
		}
		return result, nil
	}
	r, err := s.suspendManual(x.can, j, requests, state)
	if err == nil && (!s.opts.BareFirstRound || state != "" || j.Round > 1 || len(requests) == 0) {
		r.state, r.expires, err = s.sealJournal(ctx, x, j)
	}
	if err != nil {
		return nil, protocolError(err)
	}
	switch res := result.(type) {
	case *mcp.CallToolResult:
		own := *res // the author may return the same result to many
		own.RequestState, result = r.state, &own
	case *mcp.GetPromptResult:
		own := *res // the author may return the same result to many
		own.RequestState, result = r.state, &own
	case *mcp.ReadResourceResult:
		own := *res // the author may return the same result to many
		own.RequestState, result = r.state, &own
	}
	if meta := r.meta(); meta != nil {
		maps.Copy(meta, result.GetMeta())
		result.SetMeta(meta)
	}
	return result, nil
}

// manualInline serves a legacy client. The SDK asks the first round's questions itself
// and runs the handler once more; this goes on from there for as long as it asks.
func (s *Server) manualInline(ctx context.Context, next mcp.MethodHandler, method string, req mcp.Request, m *manualRequest) (mcp.Result, error) {
	session := req.GetSession().(*mcp.ServerSession)
	can := sessionCapabilities(session)
	j := &journal.Journal{ID: rand.Text()}
	for {
		result, err := next(ctx, method, req)
		if err != nil {
			return nil, err
		}
		requests, state, manual := manualOutcome(result)
		if !manual {
			return result, nil
		}
		if _, err := s.suspendManual(can, j, requests, state); err != nil {
			return nil, protocolError(err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		raw, err := askInline(ctx, session, journal.Derived("call", j.ID), requests)
		if err != nil {
			return nil, protocolError(err)
		}
		responses := manualState{responses: maps.Clone(raw)}.typedResponses()
		req = m.with(state, responses)
	}
}

// inputRequired is the result of a round that needs input, as it is sent. The SDK's
// own types would mark one without requests as complete, and carry an empty content.
type inputRequired struct {
	mcp.ResultBase
	requests []wire.InputRequest
	state    string
}

func (r *inputRequired) MarshalJSON() ([]byte, error) {
	var meta []byte
	if len(r.Meta) > 0 {
		var err error
		if meta, err = json.Marshal(r.Meta); err != nil {
			return nil, err
		}
	}
	return wire.InputRequired(nil, r.requests, r.state, meta), nil
}

func (s *Server) inputRequiredForm(result mcp.Result, err error) (mcp.Result, error) {
	if err != nil {
		return result, err
	}
	requests, state, manual := manualOutcome(result)
	if !manual {
		return result, nil
	}
	form := &inputRequired{state: state}
	form.Meta = result.GetMeta()
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		q, _, err := manualQuestion(requests[key])
		if err != nil {
			return nil, err
		}
		form.requests = append(form.requests, wire.InputRequest{Key: key, Method: q.method, Params: q.params})
	}
	return form, nil
}
