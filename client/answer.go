package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// check refuses questions that no capability was declared for.
func (o *Options) check(questions ...*Question) error {
	for _, q := range questions {
		ok, kind := false, q.Method
		switch {
		case q.Method == methodElicit && q.URL != "":
			ok, kind = o.URL != nil, "elicitation.url"
		case q.Method == methodElicit:
			ok, kind = o.Form != nil, "elicitation.form"
		case q.Method == methodCreateMessage:
			ok, kind = o.Sample != nil, "sampling"
			tools := strictjson.Get(q.Params, "tools") != nil || strictjson.Get(q.Params, "toolChoice") != nil
			if ok && !o.SampleTools && tools {
				ok, kind = false, "sampling.tools"
			}
		case q.Method == methodListRoots:
			ok, kind = o.Roots != nil, "roots"
		}
		if !ok {
			return &UndeclaredError{Key: q.Key, Kind: kind}
		}
	}
	return nil
}

// answer has the handler answer one question.
func (o *Options) answer(ctx context.Context, q *Question) (answer json.RawMessage, err error) {
	if err := o.check(q); err != nil {
		return nil, err
	}
	var res any
	switch {
	case q.Method == methodElicit && q.URL != "":
		res, err = o.URL(ctx, q)
	case q.Method == methodElicit:
		res, err = o.Form(ctx, q)
	case q.Method == methodCreateMessage:
		var params mcp.CreateMessageWithToolsParams
		if err := json.Unmarshal(q.Params, &params); err != nil {
			return nil, &ProtocolError{fmt.Sprintf("the question %q: %v", q.Key, err)}
		}
		res, err = o.Sample(ctx, q, &params)
	default:
		var roots []*mcp.Root
		roots, err = o.Roots(ctx)
		res = &mcp.ListRootsResult{Roots: append([]*mcp.Root{}, roots...)} // never null
	}
	if err != nil {
		return nil, err
	}
	return o.encode(q, res)
}

// checkElicited checks the answer to an elicitation. The content of a form is checked
// against its schema, and the schema's defaults are filled in (client/elicitation, "Form
// Mode Security"). A schema outside of the restricted dialect is left to the server.
func checkElicited(q *Question, res *mcp.ElicitResult) (any, error) {
	if res == nil || res.Action != "accept" && res.Action != "decline" && res.Action != "cancel" {
		return nil, fmt.Errorf("the handler for %q must return a result with the action accept, decline or cancel", q.Key)
	}
	if q.URL != "" || res.Action != "accept" {
		return res, nil
	}
	schema, err := form.Parse(q.Schema)
	if err != nil {
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

// encode checks and encodes an answer.
func (o *Options) encode(q *Question, answer any) (json.RawMessage, error) {
	if err := o.check(q); err != nil {
		return nil, err
	}
	if res, ok := answer.(*mcp.ElicitResult); ok && q.Method == methodElicit {
		var err error
		if answer, err = checkElicited(q, res); err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(answer)
	if err == nil && strictjson.TypeOf(data) != strictjson.TypeObject {
		err = errors.New("it is not an object")
	}
	if err != nil {
		return nil, fmt.Errorf("the answer to %q: %w", q.Key, err)
	}
	return data, nil
}

// answerAll answers the questions of a round concurrently, except those that have an answer already. Questions that
// handlers park are left out, and parked is true. With an error it returns the answers that were given before.
func (o *Options) answerAll(ctx context.Context, questions []*Question, have map[string]json.RawMessage) (answers map[string]json.RawMessage, parked bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	answers = make(map[string]json.RawMessage, len(questions))
	for _, q := range questions {
		if given, ok := have[q.Key]; ok {
			mu.Lock()
			answers[q.Key] = given
			mu.Unlock()
			continue
		}
		wg.Go(func() {
			answer, err := o.answer(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, ErrPark):
				parked = true
			case err != nil:
				cancel(err)
			default:
				answers[q.Key] = answer
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return answers, false, context.Cause(ctx)
	}
	return answers, parked, nil
}
