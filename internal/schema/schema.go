// Package schema validates and decodes the arguments of tools, and makes the structured content of their results, as
// the SDK's mcp.AddTool does it.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/exactjson"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tags"
	"github.com/askback-mcp/askback/internal/wire"
)

// schema is a tool's schema, as it is applied.
type schema struct {
	resolved *jsonschema.Resolved // without the enums
	enums    *enums
	defaults bool
	shape    *shape // nil if there are defaults, which it cannot fill in
}

// resolve resolves the schema that field holds, after inferring it from t if it holds none.
func resolve(field *any, t reflect.Type) (s schema, err error) {
	own, err := infer(field, t)
	if err != nil {
		return s, err
	}
	if s.resolved, err = own.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true}); err != nil {
		return s, err
	}
	enums, rest := takeEnums(own)
	if enums != nil {
		if s.resolved, err = rest.Resolve(nil); err != nil {
			return s, err
		}
		s.enums = enums
	}
	if s.defaults = hasDefaults(own); !s.defaults {
		s.shape = compile(own)
	}
	return s, nil
}

// check validates a decoded value. The error cuts what it quotes of the value, because a caller chose its size.
func (s *schema) check(instance any) error {
	err := s.resolved.Validate(instance)
	if err == nil {
		err = s.enums.check(instance, "root")
	}
	const most = 1 << 10
	if err != nil && len(err.Error()) > most {
		err = errors.New(wire.Cut(err.Error(), most))
	}
	return err
}

// infer returns the schema that field holds, after inferring it from t if it holds none.
func infer(field *any, t reflect.Type) (*jsonschema.Schema, error) {
	if *field == nil {
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

// Arguments validates and decodes a tool's arguments.
type Arguments struct{ schema }

// checkTags returns an error for a tag in the arguments of type in that promises more than the schema that is inferred
// has. Structs of other packages, which the author may not be able to change, are left alone.
func checkTags(in, t reflect.Type, checked map[reflect.Type]bool) error {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return checkTags(in, t.Elem(), checked)
	case reflect.Struct:
	default:
		return nil
	}
	if checked[t] || t.Name() != "" && t.PkgPath() != in.PkgPath() {
		return nil
	}
	checked[t] = true
	for f := range t.Fields() {
		if !f.IsExported() {
			continue
		}
		if err := tags.Check(f.Tag, []string{"json", "jsonschema"}, ofForms); err != nil {
			return fmt.Errorf("field %v.%s: %w, for its description; set the tool's InputSchema for more", t, f.Name, err)
		}
		if err := checkTags(in, f.Type, checked); err != nil {
			return err
		}
	}
	return nil
}

// ofForms lists the tags that forms have and arguments do not: an author would expect them to have an effect.
var ofForms = []string{"enum", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "pattern"}

// ForArguments returns the decoder of a tool's arguments into the type in. It sets the tool's InputSchema if there is
// none.
func ForArguments(t *mcp.Tool, in reflect.Type) (*Arguments, error) {
	if t.InputSchema == nil && in == reflect.TypeFor[any]() {
		t.InputSchema = &jsonschema.Schema{Type: "object"}
	}
	if t.InputSchema == nil {
		if err := checkTags(in, in, make(map[reflect.Type]bool)); err != nil {
			return nil, err
		}
	}
	s, err := resolve(&t.InputSchema, in)
	return &Arguments{s}, err
}

// Decode validates arguments, a checked object or nil, and decodes them. With floats each of their numbers is certainly
// a float64.
func (a *Arguments) Decode(arguments []byte, floats bool, into any) (err error) {
	if arguments == nil {
		arguments = []byte("{}")
	}
	if !a.shape.accepts(arguments, floats) {
		if arguments, err = a.validate(arguments); err != nil {
			return err
		}
	}
	// encoding/json also takes a name in another case: "ID" beside "id" would replace the value that the schema allowed.
	return exactjson.Unmarshal(arguments, into)
}

// validate validates arguments in full, and returns them with defaults.
func (a *Arguments) validate(arguments []byte) ([]byte, error) {
	instance := make(map[string]any)
	if err := json.Unmarshal(arguments, &instance); err != nil {
		return nil, err
	}
	if a.defaults {
		if err := a.resolved.ApplyDefaults(&instance); err != nil {
			return nil, err
		}
	}
	if err := a.check(instance); err != nil {
		return nil, err
	}
	if !a.defaults {
		return arguments, nil
	}
	return withDefaults(arguments, instance)
}

// withDefaults adds to the arguments the members that only the instance has. The client's members keep their spelling,
// so that no number loses digits.
func withDefaults(arguments []byte, instance map[string]any) ([]byte, error) {
	merged := make(map[string]json.RawMessage, len(instance))
	for name, value := range strictjson.Members(arguments) {
		merged[string(name)] = value
	}
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

// Result makes structured content. The zero value knows no schema.
type Result struct {
	schema
	zero any // in place of a nil pointer, for which the schema of a struct has no value
}

// ForResult returns the encoder of values of type out as structured content. It sets the tool's OutputSchema if there
// is none, unless out is any.
func ForResult(t *mcp.Tool, out reflect.Type) (*Result, error) {
	r := new(Result)
	if t.OutputSchema == nil && out == reflect.TypeFor[any]() {
		return r, nil
	}
	if t.OutputSchema == nil && out.Kind() == reflect.Pointer {
		r.zero = reflect.Zero(out.Elem()).Interface()
	}
	var err error
	r.schema, err = resolve(&t.OutputSchema, out)
	return r, err
}

// Structure puts out into the result's structured content, and its JSON into a text block for clients that know no
// other (server/tools, "Structured Content"). The content of a whole result stays as it is.
func (r *Result) Structure(res *mcp.CallToolResult, out any, whole bool) error {
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
	if r.resolved != nil && !r.shape.accepts(data, false) {
		if data, err = r.validate(data); err != nil {
			return err
		}
	}
	res.StructuredContent = json.RawMessage(data)
	if res.Content == nil || !whole && strictjson.TypeOf(data) != strictjson.TypeObject {
		res.Content = append(res.Content, &mcp.TextContent{Text: string(data)})
	}
	return nil
}

// validate validates structured content in full, and returns it with defaults.
func (r *Result) validate(data []byte) ([]byte, error) {
	var instance any
	if err := json.Unmarshal(data, &instance); err != nil {
		return nil, err
	}
	if instance == nil && r.resolved.Schema().Type == "object" {
		instance, data = make(map[string]any), []byte("{}") // a nil map, which encoding/json writes as null
	}
	if object, ok := instance.(map[string]any); ok && r.defaults {
		if err := r.resolved.ApplyDefaults(&instance); err != nil {
			return nil, err
		}
		var err error
		if data, err = withDefaults(data, object); err != nil {
			return nil, err
		}
	}
	if err := r.check(instance); err != nil {
		return nil, wire.Errorf(jsonrpc.CodeInternalError, "the tool's output does not fit its schema: %v", err)
	}
	return data, nil
}
