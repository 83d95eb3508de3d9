package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// check refuses questions that no capability was declared for.
func (o *Options) check(questions ...*Question) error {
	for _, q := range questions {
		ok, kind := false, q.Method
		switch {
		case q.Method == input.MethodElicit && q.URL != "":
			ok, kind = o.URL != nil, "elicitation.url"
		case q.Method == input.MethodElicit:
			ok, kind = o.Form != nil, "elicitation.form"
		case q.Method == input.MethodCreateMessage:
			ok, kind = o.Sample != nil, "sampling"
			tools := strictjson.Get(q.Params, "tools") != nil || strictjson.Get(q.Params, "toolChoice") != nil
			if ok && !o.SampleTools && tools {
				ok, kind = false, "sampling.tools"
			}
		case q.Method == input.MethodListRoots:
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
	case q.Method == input.MethodElicit && q.URL != "":
		res, err = o.URL(ctx, q)
	case q.Method == input.MethodElicit:
		res, err = o.Form(ctx, q)
	case q.Method == input.MethodCreateMessage:
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

// checkElicited checks the answer to an elicitation. It returns a form's answer as JSON, so that no number loses
// digits: the content is checked against the schema, and the schema's defaults are filled in (client/elicitation, "Form
// Mode Security"). It returns nil for any other answer, and for an answer to a malformed form: the server checks those.
func checkElicited(q *Question, res *mcp.ElicitResult) (json.RawMessage, error) {
	if res == nil || res.Action != "accept" && res.Action != "decline" && res.Action != "cancel" {
		return nil, fmt.Errorf("the handler for %q must return a result with the action accept, decline or cancel", q.Key)
	}
	if q.URL != "" || res.Action != "accept" {
		return nil, nil
	}
	schema, err := forms.parse(q.Schema)
	if err != nil {
		return nil, nil
	}
	content, err := json.Marshal(res.Content)
	if err != nil {
		return nil, fmt.Errorf("the answer to %q: %w", q.Key, err)
	}
	clean, err := schema.Check(content)
	if err != nil {
		return nil, fmt.Errorf("the answer to %q does not fit its form: %w", q.Key, err)
	}
	return slices.Concat([]byte(`{"action":"accept","content":`), clean, []byte("}")), nil
}

// forms are those that servers asked for lately.
var forms formCache

// formCache holds parsed forms by their schemas, because a tool asks the same question again and again. It is bounded,
// and begins anew when it is full. The zero value is empty.
type formCache struct {
	mu     sync.Mutex
	parsed map[string]*form.Schema
}

// parse returns the form of a schema that may have been parsed before.
func (c *formCache) parse(schema []byte) (*form.Schema, error) {
	const most, largest = 128, 8 << 10
	c.mu.Lock()
	known := c.parsed[string(schema)]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	parsed, err := form.Read(schema)
	if err != nil || len(schema) > largest {
		return parsed, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil || len(c.parsed) == most {
		c.parsed = make(map[string]*form.Schema)
	}
	c.parsed[string(schema)] = parsed
	return parsed, nil
}

// encode checks and encodes an answer.
func (o *Options) encode(q *Question, answer any) (json.RawMessage, error) {
	if err := o.check(q); err != nil {
		return nil, err
	}
	if res, ok := answer.(*mcp.ElicitResult); ok && q.Method == input.MethodElicit {
		clean, err := checkElicited(q, res)
		if clean != nil || err != nil {
			return clean, err
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
func (o *Options) answerAll(
	ctx context.Context, questions []*Question, have map[string]json.RawMessage,
) (answers map[string]json.RawMessage, parked bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	answers = make(map[string]json.RawMessage, len(questions))
	for i, q := range questions {
		if given, ok := have[q.Key]; ok {
			mu.Lock()
			answers[q.Key] = given
			mu.Unlock()
			continue
		}
		ask := func() {
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
		}
		if i == len(questions)-1 { // there is nothing else to do meanwhile
			ask()
		} else {
			wg.Go(ask)
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return answers, false, context.Cause(ctx)
	}
	return answers, parked, nil
}
