package askback

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// The methods of input requests.
const (
	methodElicit        = "elicitation/create"
	methodCreateMessage = "sampling/createMessage"
	methodListRoots     = "roots/list"
)

// Elicit asks the user to fill in a form and returns the answer. The form's schema is
// inferred from T, a struct of strings, booleans, numbers and choices; its tags are
// listed at [AskForm]. An answer that does not fit the schema is asked for again.
// The error is [ErrInputRequired] until the user answers, and a [*DeclinedError] if
// the user would not. Secrets must not be asked for in a form: see [ElicitURL].
// (client/elicitation, "Form Mode Elicitation Requests")
func Elicit[T any](ctx context.Context, call *Call, key, message string) (T, error) {
	var answer T
	err := call.Ask(ctx, AskForm(key, message, &answer))
	return answer, err
}

// ElicitURL asks the user to open a page, and returns nil once the user agreed to.
// Whether the user finished there the server has to find out by itself; until then it
// may wait with [Call.Checkpoint]. The URL must not carry secrets and must be bound
// to the user who opens it. (client/elicitation, "URL Mode Elicitation Requests")
func ElicitURL(ctx context.Context, call *Call, key, message, url string) error {
	return call.Ask(ctx, AskURL(key, message, url))
}

// Sample asks the client's model for a completion. With tools in params the client
// must have declared sampling.tools. (client/sampling)
func Sample(ctx context.Context, call *Call, key string, params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
	var answer *mcp.CreateMessageWithToolsResult
	err := call.Ask(ctx, AskSample(key, params, &answer))
	return answer, err
}

// Roots asks the client for its roots. (client/roots)
func Roots(ctx context.Context, call *Call, key string) ([]*mcp.Root, error) {
	var answer []*mcp.Root
	err := call.Ask(ctx, AskRoots(key, &answer))
	return answer, err
}

// Ask is a question for [Call.Ask], made by [AskForm], [AskFormWith], [AskURL],
// [AskSample] or [AskRoots]. The key names the question within its call: it is what
// the client sees in inputRequests. Answers are remembered by key and question
// together, so that a reworded question is asked again.
type Ask struct {
	key      string
	need     Kind
	digest   journal.Digest
	question *question
	accept   func(raw []byte) ([]byte, error)
	decode   func(value []byte) error
	err      error
}

// question is an input request in both forms that are sent: encoded, and as the SDK's
// type.
type question struct {
	method string
	params []byte
	typed  mcp.InputRequest
}

// AskForm asks the user to fill in a form; into points to a struct that tells the
// form's fields and takes the answer. A field is required unless its json tag says
// omitempty or omitzero, or it is a pointer. These tags refine it:
//
//	json:"name"            the property's name
//	jsonschema:"…"         its description
//	title:"…"              its title
//	enum:"a|b"             a choice; []string with it is a multiple choice
//	enum:"a=Title|b=Other" a choice with titles
//	format:"email"         or uri, date, date-time
//	minLength, maxLength   of a string, in characters
//	minimum, maximum       of a number
//	minItems, maxItems     of a multiple choice
//	default:"…"            what the form starts with
//
// (client/elicitation, "Requested Schema")
func AskForm(key, message string, into any) Ask {
	t := reflect.TypeOf(into)
	if t == nil || t.Kind() != reflect.Pointer {
		return Ask{key: key, err: fmt.Errorf("the form's answer needs a pointer to a struct, not %T", into)}
	}
	schema, err := form.For(t.Elem())
	if err != nil {
		return Ask{key: key, err: err}
	}
	return askForm(key, message, schema, into)
}

// AskFormWith is [AskForm] with a schema that is made while the call runs, in
// params.RequestedSchema: anything that marshals to the restricted JSON Schema of
// form elicitation. Into points to what the answer's content unmarshals into, such as
// a struct or a map[string]any.
func AskFormWith(key string, params *mcp.ElicitParams, into any) Ask {
	if t := reflect.TypeOf(into); t == nil || t.Kind() != reflect.Pointer {
		return Ask{key: key, err: fmt.Errorf("the form's answer needs a pointer, not %T", into)}
	}
	data, err := json.Marshal(params.RequestedSchema)
	if err != nil {
		return Ask{key: key, err: fmt.Errorf("the requested schema: %w", err)}
	}
	schema, err := form.Parse(data)
	if err != nil {
		return Ask{key: key, err: err}
	}
	a := askForm(key, params.Message, schema, into)
	fits := a.accept
	a.accept = func(raw []byte) ([]byte, error) {
		record, err := fits(raw)
		if content := strictjson.Get(record, "content"); err == nil && content != nil {
			// A number that the schema allows may still be too large for the Go type.
			err = json.Unmarshal(content, reflect.New(reflect.TypeOf(into).Elem()).Interface())
		}
		return record, err
	}
	return a
}

func askForm(key, message string, schema *form.Schema, into any) Ask {
	text, err := json.Marshal(message)
	if err != nil {
		return Ask{key: key, err: err}
	}
	params := make([]byte, 0, 64+len(text)+len(schema.JSON()))
	params = append(params, `{"mode":"form","message":`...)
	params = append(params, text...)
	params = append(params, `,"requestedSchema":`...)
	params = append(params, schema.JSON()...)
	params = append(params, '}')
	return Ask{
		key:    key,
		need:   KindForm,
		digest: digest(params),
		question: &question{methodElicit, params, &mcp.ElicitParams{
			Mode: "form", Message: message, RequestedSchema: json.RawMessage(schema.JSON()),
		}},
		accept: acceptForm(schema),
		decode: func(value []byte) error {
			if err := declined(key, value); err != nil {
				return err
			}
			return json.Unmarshal(strictjson.Get(value, "content"), into)
		},
	}
}

// AskURL asks the user to open a page: see [ElicitURL].
func AskURL(key, message, page string) Ask {
	u, err := url.Parse(page)
	if err != nil {
		return Ask{key: key, err: err}
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return Ask{key: key, err: errors.New("the URL must be absolute, https or http")}
	}
	typed := &mcp.ElicitParams{Mode: "url", Message: message, URL: page}
	params, err := json.Marshal(typed)
	if err != nil {
		return Ask{key: key, err: err}
	}
	return Ask{
		key:      key,
		need:     KindURL,
		digest:   digest(params),
		question: &question{methodElicit, params, typed},
		accept:   acceptURL,
		decode:   func(value []byte) error { return declined(key, value) },
	}
}

// AskSample asks the client's model for a completion: see [Sample].
func AskSample(key string, params *mcp.CreateMessageWithToolsParams, into **mcp.CreateMessageWithToolsResult) Ask {
	if params == nil {
		params = new(mcp.CreateMessageWithToolsParams) // which is refused
	}
	a := askSample(key, params, len(params.Messages), params.MaxTokens, len(params.Tools) > 0 || params.ToolChoice != nil)
	a.decode = func(value []byte) error { return json.Unmarshal(value, into) }
	return a
}

// askSample is a question of either of the SDK's types for sampling, without its decode.
func askSample(key string, params mcp.InputRequest, messages int, maxTokens int64, tools bool) Ask {
	if messages == 0 {
		return Ask{key: key, err: errors.New("sampling needs at least one message")}
	}
	if maxTokens <= 0 {
		return Ask{key: key, err: errors.New("sampling needs MaxTokens")}
	}
	data, err := json.Marshal(params)
	if err != nil {
		return Ask{key: key, err: err}
	}
	need := KindSampling
	if tools {
		need |= KindSamplingTools
	}
	return Ask{
		key:      key,
		need:     need,
		digest:   digest(data),
		question: &question{methodCreateMessage, data, params},
		accept:   acceptSample(tools),
	}
}

// AskRoots asks the client for its roots: see [Roots].
func AskRoots(key string, into *[]*mcp.Root) Ask {
	// The specification lets params be absent, the Go SDK's client does not.
	params := []byte("{}")
	return Ask{
		key:      key,
		need:     KindRoots,
		digest:   digest(params),
		question: &question{methodListRoots, params, &mcp.ListRootsParams{}},
		accept:   acceptRoots,
		decode: func(value []byte) error {
			var res mcp.ListRootsResult
			err := json.Unmarshal(value, &res)
			*into = res.Roots
			return err
		},
	}
}

// digest identifies a question by all that the client sees of it. Parameters of
// different methods are never equal.
func digest(params []byte) journal.Digest {
	// Not strictjson.Digest: hashing its pooled buffer, just written, measures several
	// times slower here than hashing a fresh one (BenchmarkInteraction).
	sum := sha256.Sum256(strictjson.AppendCanonical(make([]byte, 0, 512), params))
	return journal.Digest(sum[:16])
}

func declined(key string, value []byte) error {
	// Accept has recorded the action, so that it is one of the three.
	if action, _ := actionOf(value); action != "accept" {
		return &DeclinedError{Key: key, Action: action}
	}
	return nil
}
