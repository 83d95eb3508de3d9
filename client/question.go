package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Question is an input request of a server. Everything in it is the server's word.
type Question struct {
	// Key names the question within its call. Inside a session before 2026-07-28 it is
	// the method, unless the server is one of Askback's.
	Key    string              `json:"key"`
	Server *mcp.Implementation `json:"-"` // who asks, or nil
	// Method is "elicitation/create", "sampling/createMessage" or "roots/list".
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`

	// Of elicitation:
	Message string          `json:"-"`
	Schema  json.RawMessage `json:"-"` // of a form; its properties are in the server's order, before 2026-07-28 sorted
	URL     string          `json:"-"` // of a page, http or https; empty for a form
}

const (
	methodElicit        = "elicitation/create"
	methodCreateMessage = "sampling/createMessage"
	methodListRoots     = "roots/list"
)

// parse fills in what Params say.
func (q *Question) parse() error {
	if q.Method != methodElicit {
		return nil
	}
	var p struct {
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
		URL     string          `json:"url"`
	}
	if err := json.Unmarshal(q.Params, &p); err != nil {
		return &ProtocolError{fmt.Sprintf("the question %q: %v", q.Key, err)}
	}
	q.Message = p.Message
	switch {
	case p.Mode == "url" && p.URL == "":
		return &ProtocolError{fmt.Sprintf("the question %q has no URL", q.Key)}
	case p.Mode == "url" && !isPage(p.URL):
		return &ProtocolError{fmt.Sprintf("the question %q wants %.60q to be opened, which is no https:// or http:// URL", q.Key, p.URL)}
	case p.Mode == "url":
		q.URL = p.URL
	case p.Mode == "form" || p.Mode == "":
		if q.Schema = p.Schema; q.Schema == nil {
			q.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
	default:
		return &UndeclaredError{Key: q.Key, Kind: "elicitation." + p.Mode}
	}
	return nil
}

// isPage reports whether an address is an absolute URL of the web: another scheme may run what it names, or read it from
// the user's disk.
func isPage(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// parseQuestions reads an inputRequests object. Its members have been checked.
func parseQuestions(requests []byte, server *mcp.Implementation, most int) ([]*Question, error) {
	if strictjson.TypeOf(requests) != strictjson.TypeObject {
		return nil, &ProtocolError{"inputRequests is not an object"}
	}
	questions := []*Question{}
	err := strictjson.Members(requests, func(name, value []byte) error {
		if len(questions) == most {
			return limit("questions in one round", most, nil)
		}
		q := &Question{Key: string(name), Server: server}
		if strictjson.TypeOf(value) != strictjson.TypeObject {
			return &ProtocolError{fmt.Sprintf("the question %q is not an object", q.Key)}
		}
		q.Method, _ = strictjson.String(strictjson.Get(value, "method"))
		if params := strictjson.Get(value, "params"); params != nil {
			q.Params = json.RawMessage(strings.Clone(string(params)))
		}
		questions = append(questions, q)
		return q.parse()
	})
	return questions, err
}

// check refuses questions that no capability was declared for.
func (c *Client) check(q *Question) error {
	ok := false
	kind := q.Method
	switch {
	case q.Method == methodElicit && q.URL != "":
		ok, kind = c.opts.URL != nil, "elicitation.url"
	case q.Method == methodElicit:
		ok, kind = c.opts.Form != nil, "elicitation.form"
	case q.Method == methodCreateMessage:
		ok, kind = c.opts.Sample != nil, "sampling"
		if ok && !c.opts.SampleTools && (present(q.Params, "tools") || present(q.Params, "toolChoice")) {
			ok, kind = false, "sampling.tools"
		}
	case q.Method == methodListRoots:
		ok, kind = c.opts.Roots != nil, "roots"
	}
	if !ok {
		return &UndeclaredError{Key: q.Key, Kind: kind}
	}
	return nil
}

func present(params json.RawMessage, name string) bool {
	return params != nil && strictjson.TypeOf(strictjson.Get(params, name)) != strictjson.TypeInvalid
}

// answer lets the handler answer one question.
func (c *Client) answer(ctx context.Context, q *Question) (any, error) {
	if err := c.check(q); err != nil {
		return nil, err
	}
	switch {
	case q.Method == methodElicit && q.URL != "":
		res, err := c.opts.URL(ctx, q)
		return checkAction(q, res, err)
	case q.Method == methodElicit:
		res, err := c.opts.Form(ctx, q)
		if _, err := checkAction(q, res, err); err != nil {
			return nil, err
		}
		return fit(q, res)
	case q.Method == methodCreateMessage:
		var params mcp.CreateMessageWithToolsParams
		if err := json.Unmarshal(q.Params, &params); err != nil {
			return nil, &ProtocolError{fmt.Sprintf("the question %q: %v", q.Key, err)}
		}
		res, err := c.opts.Sample(ctx, q, &params)
		if err == nil && res == nil {
			err = fmt.Errorf("the handler of Sample returned nothing for %q", q.Key)
		}
		return res, err
	default:
		roots, err := c.opts.Roots(ctx)
		if roots == nil {
			roots = []*mcp.Root{}
		}
		return &mcp.ListRootsResult{Roots: roots}, err
	}
}

func checkAction(q *Question, res *mcp.ElicitResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if res == nil || res.Action != "accept" && res.Action != "decline" && res.Action != "cancel" {
		return nil, fmt.Errorf("the handler for %q must return a result with the action accept, decline or cancel", q.Key)
	}
	return res, nil
}

// fit checks an answer against its form, and fills in the form's defaults
// (client/elicitation, "Form Mode Security"). A schema that the restricted dialect does
// not know is left to the server.
func fit(q *Question, res *mcp.ElicitResult) (any, error) {
	schema, err := form.Parse(q.Schema)
	if res.Action != "accept" || err != nil {
		return res, nil
	}
	content, err := json.Marshal(res.Content)
	if err != nil {
		return nil, fmt.Errorf("the answer to %q: %w", q.Key, err)
	}
	clean, err := schema.Check(content)
	if err != nil {
		return nil, fmt.Errorf("the answer to %q does not fit its form: %w", q.Key, err)
	}
	// As JSON, so that no number loses digits.
	return map[string]any{"action": "accept", "content": json.RawMessage(clean)}, nil
}

// answerAll answers the questions of a round concurrently. Those that handlers park are
// left out, and parked is true. With an error it returns the answers that there are.
func (c *Client) answerAll(ctx context.Context, questions []*Question, have map[string]json.RawMessage) (answers map[string]json.RawMessage, parked bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	answers = make(map[string]json.RawMessage, len(questions))
	var open []*Question
	for _, q := range questions {
		if given, ok := have[q.Key]; ok {
			answers[q.Key] = given
		} else {
			open = append(open, q)
		}
	}
	for _, q := range open {
		wg.Go(func() {
			res, err := c.answer(ctx, q)
			var data []byte
			if err == nil {
				data, err = json.Marshal(res)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, ErrPark):
				parked = true
			case err != nil:
				cancel(err)
			default:
				answers[q.Key] = data
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return answers, false, context.Cause(ctx)
	}
	return answers, parked, nil
}

// answerInline answers the requests that servers before 2026-07-28 send inside a session.
func (c *Client) answerInline(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if session, ok := req.GetSession().(*mcp.ClientSession); ok && method == methodToolsChanged {
			c.inlineOf(session).tools.forget()
		}
		if method != methodElicit && method != methodCreateMessage && method != methodListRoots {
			return next(ctx, method, req)
		}
		q := &Question{Key: method, Method: method}
		if session, ok := req.GetSession().(*mcp.ClientSession); ok && session.InitializeResult() != nil {
			q.Server = session.InitializeResult().ServerInfo
		}
		var err error
		if q.Params, err = json.Marshal(req.GetParams()); err != nil {
			return nil, err
		}
		task, ours := "", false
		// Parameters may be absent: then these are null.
		if meta := strictjson.Get(q.Params, "_meta"); meta != nil {
			if key, ok := strictjson.String(strictjson.Get(meta, wire.MetaKey)); ok {
				q.Key, ours = key, true
			}
			task, _ = strictjson.String(strictjson.Get(strictjson.Get(meta, wire.MetaRelatedTask), "taskId"))
		}
		if err := q.parse(); err != nil {
			return nil, inline(err)
		}
		if session, ok := req.GetSession().(*mcp.ClientSession); ok && method != methodListRoots { // roots are asked for outside of calls, too
			var leave func()
			if ctx, leave, err = c.inlineOf(session).ask(ctx, c.opts.Limits); err != nil {
				return nil, inline(err)
			}
			defer leave()
			// Askback's servers keep a task that asks, and ask again. To others an error may be an
			// answer: they are told nothing.
			res, err := c.answer(ctx, q)
			if errors.Is(err, ErrPark) && task != "" && c.inlineOf(session).park(task, parked{q, ours}) && !ours {
				<-ctx.Done()
			}
			return inlineResult(task, res, err)
		}
		res, err := c.answer(ctx, q)
		return inlineResult(task, res, err)
	}
}

// inlineResult is the answer to a question, and says to which task's, if it was one's
// (2025-11-25, "Associating Task-Related Messages").
func inlineResult(task string, res any, err error) (mcp.Result, error) {
	if err != nil {
		return nil, inline(err)
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

// relate adds the id of a task to what a result has in _meta.
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

// inline is the answer to a session's request that cannot be answered.
func inline(err error) error {
	switch {
	case errors.Is(err, ErrPark):
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "no answer is at hand, and a question inside a session cannot wait"}
	default:
		if _, undeclared := errors.AsType[*UndeclaredError](err); undeclared {
			return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client did not declare that capability"}
		}
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
}

// rawResult is a result that is encoded already.
type rawResult struct {
	mcp.ResultBase
	data json.RawMessage
}

func (r *rawResult) MarshalJSON() ([]byte, error) { return r.data, nil }
