package askback

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	casejson "github.com/segmentio/encoding/json"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// ToolHandler handles a call of a tool. Its arguments are validated and decoded as
// the SDK's mcp.AddTool does it. It runs from the top in every round.
//
// A nil result with a nil error is a result made from out. An error that is a
// *jsonrpc.Error is sent as such; [ErrInputRequired] suspends the call; a
// [*CapabilityError] or [*LimitError] becomes the protocol's error for it; any other
// error becomes a tool error that the client's model can read (server/tools, "Error
// Handling").
type ToolHandler[In, Out any] func(ctx context.Context, call *Call, in In) (result *mcp.CallToolResult, out Out, err error)

// AddTool adds a tool, or replaces the one of the same name. Schemas that t does not
// set are inferred from In and Out like the SDK's mcp.AddTool does it; t must not be
// modified afterwards. AddTool panics if a schema cannot be inferred or is invalid.
func AddTool[In, Out any](s *Server, t *mcp.Tool, h ToolHandler[In, Out]) {
	addTool(s, t, nil, h)
}

func addTool[In, Out any](s *Server, t *mcp.Tool, support *TaskSupport, h ToolHandler[In, Out]) {
	tool := *t
	input, err := inputSchema[In](&tool)
	if err != nil {
		panic(fmt.Sprintf("askback.AddTool %q: input schema: %v", t.Name, err))
	}
	output, err := outputSchema[Out](&tool)
	if err != nil {
		panic(fmt.Sprintf("askback.AddTool %q: output schema: %v", t.Name, err))
	}
	headers, err := wire.ParamHeaders(tool.InputSchema)
	if err != nil {
		panic(fmt.Sprintf("askback.AddTool %q: input schema: %v", t.Name, err))
	}
	hd := &handler{
		method:  wire.CallTool,
		headers: headers,
		tasks:   support,
		invoke: func(ctx context.Context, call *Call, params *wire.Params) (any, error) {
			var in In
			if err := input.decode(params.Arguments, &in); err != nil {
				return toolError(fmt.Errorf("invalid arguments: %w", err)), nil
			}
			res, out, err := h(ctx, call, in)
			if err != nil {
				return nil, err
			}
			final := new(mcp.CallToolResult)
			if res != nil {
				*final = *res // the author may return the same result to many
			}
			if call.run.Suspended() || final.InputRequests != nil || final.RequestState != "" {
				return final, nil
			}
			if err := output.structure(final, out); err != nil {
				return nil, err
			}
			if final.Content == nil {
				final.Content = []mcp.Content{}
			}
			return final, nil
		},
		fail: func(err error) any { return toolError(err) },
	}
	s.mcp.AddTool(&tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r, err := s.serveSDK(ctx, hd, req)
		if err != nil {
			return nil, err
		}
		switch {
		case r.task != nil:
			return new(mcp.CallToolResult), nil // the middleware sends the task
		case !r.inputRequired():
			return r.result.(*mcp.CallToolResult), nil
		}
		return &mcp.CallToolResult{Meta: r.meta(), InputRequests: r.typed(), RequestState: r.state}, nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools[tool.Name] = hd
}

// RemoveTools removes the tools with these names.
func (s *Server) RemoveTools(names ...string) {
	s.mu.Lock()
	for _, name := range names {
		delete(s.tools, name)
	}
	s.mu.Unlock()
	s.mcp.RemoveTools(names...)
}

func toolError(err error) *mcp.CallToolResult {
	res := new(mcp.CallToolResult)
	res.SetError(err)
	return res
}

// argumentSchema validates and decodes a tool's arguments.
type argumentSchema struct {
	resolved *jsonschema.Resolved
	defaults bool
}

func inputSchema[In any](t *mcp.Tool) (*argumentSchema, error) {
	if t.InputSchema == nil && reflect.TypeFor[In]() == reflect.TypeFor[any]() {
		t.InputSchema = &jsonschema.Schema{Type: "object"}
	}
	schema, err := schemaFor[In](&t.InputSchema)
	if err != nil {
		return nil, err
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, err
	}
	return &argumentSchema{resolved, hasDefaults(schema)}, nil
}

// schemaFor returns the schema that field holds, after inferring it from T if it
// holds none.
func schemaFor[T any](field *any) (*jsonschema.Schema, error) {
	if *field == nil {
		t := reflect.TypeFor[T]()
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
		*field = schema
		return schema, err
	}
	if schema, ok := (*field).(*jsonschema.Schema); ok {
		return schema, nil
	}
	data, err := json.Marshal(*field)
	if err != nil {
		return nil, err
	}
	schema := new(jsonschema.Schema)
	return schema, json.Unmarshal(data, schema)
}

func hasDefaults(s *jsonschema.Schema) bool {
	for _, p := range s.Properties {
		if p.Default != nil || hasDefaults(p) {
			return true
		}
	}
	return false
}

func (a *argumentSchema) decode(arguments []byte, into any) error {
	if arguments == nil {
		arguments = []byte("{}")
	}
	instance := make(map[string]any)
	if err := json.Unmarshal(arguments, &instance); err != nil {
		return err
	}
	if a.defaults {
		if err := a.resolved.ApplyDefaults(&instance); err != nil {
			return err
		}
	}
	if err := a.resolved.Validate(instance); err != nil {
		return err
	}
	if a.defaults {
		var err error
		if arguments, err = withDefaults(arguments, instance); err != nil {
			return err
		}
	}
	// Names are matched exactly: encoding/json would let "Name" reach a field whose
	// schema was only applied to "name".
	_, err := casejson.Parse(arguments, into, casejson.DontMatchCaseInsensitiveStructFields)
	return err
}

// withDefaults adds to the arguments the members that only the instance has. What the
// client sent stays as it was spelled, so that no number loses digits.
func withDefaults(arguments []byte, instance map[string]any) ([]byte, error) {
	merged := make(map[string]json.RawMessage, len(instance))
	_ = strictjson.Members(arguments, func(name, value []byte) error {
		merged[string(name)] = value
		return nil
	})
	for name, value := range instance {
		var err error
		if sent, ok := merged[name]; !ok {
			merged[name], err = json.Marshal(value)
		} else if nested, ok := value.(map[string]any); ok {
			merged[name], err = withDefaults(sent, nested)
		}
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(merged)
}

// resultSchema makes structured content. A nil one leaves results alone.
type resultSchema struct {
	resolved *jsonschema.Resolved
	defaults bool
	zero     any // in place of a nil pointer
}

func outputSchema[Out any](t *mcp.Tool) (*resultSchema, error) {
	out := reflect.TypeFor[Out]()
	if t.OutputSchema == nil && out == reflect.TypeFor[any]() {
		return new(resultSchema), nil
	}
	r := new(resultSchema)
	if t.OutputSchema == nil && out.Kind() == reflect.Pointer {
		r.zero = reflect.Zero(out.Elem()).Interface()
	}
	schema, err := schemaFor[Out](&t.OutputSchema)
	if err != nil {
		return nil, err
	}
	r.defaults = hasDefaults(schema)
	r.resolved, err = schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	return r, err
}

// structure puts out into the result's structured content, and its JSON into a text
// block for clients that know no other (server/tools, "Structured Content").
func (r *resultSchema) structure(res *mcp.CallToolResult, out any) error {
	if r.zero != nil && reflect.ValueOf(out).IsNil() {
		out = r.zero
	}
	if out == nil {
		return nil
	}
	data, err := json.Marshal(out)
	if err != nil {
		return wire.Errorf(jsonrpc.CodeInternalError, "the tool's output cannot be encoded: %v", err)
	}
	if r.resolved != nil {
		var instance any
		if err := json.Unmarshal(data, &instance); err != nil {
			return err
		}
		if instance == nil && r.resolved.Schema().Type == "object" {
			instance, data = make(map[string]any), []byte("{}") // of a nil map
		}
		if object, ok := instance.(map[string]any); ok && r.defaults {
			if err := r.resolved.ApplyDefaults(&instance); err != nil {
				return err
			}
			if data, err = withDefaults(data, object); err != nil {
				return err
			}
		}
		if err := r.resolved.Validate(instance); err != nil {
			return wire.Errorf(jsonrpc.CodeInternalError, "the tool's output does not fit its schema: %v", err)
		}
	}
	res.StructuredContent = json.RawMessage(data)
	if res.Content == nil || strictjson.TypeOf(data) != strictjson.TypeObject {
		res.Content = append(res.Content, &mcp.TextContent{Text: string(data)})
	}
	return nil
}
