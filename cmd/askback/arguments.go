package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// pair is an argument of the command line: key=value or, if raw, key:=JSON.
type pair struct {
	key, value string
	raw        bool
}

func has(pairs []pair, key string) bool {
	return slices.ContainsFunc(pairs, func(p pair) bool { return p.key == key })
}

func parsePairs(args []string) ([]pair, error) {
	var pairs []pair
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" || key == ":" {
			return nil, usagef("the argument %q: want key=value, or key:=JSON", arg)
		}
		if !utf8.ValidString(arg) {
			return nil, usagef("the argument %q is not UTF-8", key)
		}
		p := pair{key: key, value: value}
		if trimmed, raw := strings.CutSuffix(key, ":"); raw {
			p.key, p.raw = trimmed, true
			if err := strictjson.Check([]byte(value), maxDepth); err != nil {
				return nil, usagef("the argument %q is not JSON: %w", p.key, err)
			}
		}
		if has(pairs, p.key) {
			return nil, usagef("the argument %q was given twice", p.key)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// inputSchema describes the arguments of a tool or prompt.
type inputSchema struct {
	*jsonschema.Schema
	raw      []byte
	required map[string]bool
	beyond   error // why the schema cannot be used, or nil
}

// parseSchema reads a tool's schema. A schema that cannot be read counts as empty: every argument is then a string, and
// the server judges it.
func parseSchema(schema any) *inputSchema {
	raw, err := json.Marshal(schema)
	if err != nil {
		return &inputSchema{Schema: new(jsonschema.Schema), beyond: err}
	}
	s, err := readSchema(raw)
	if err != nil {
		return &inputSchema{Schema: new(jsonschema.Schema), beyond: err}
	}
	return s
}

func readSchema(raw []byte) (*inputSchema, error) {
	s, err := foreign.ReadSchema(raw)
	if err != nil {
		return nil, err
	}
	return newInputSchema(s.Schema, raw), nil
}

func newInputSchema(s *jsonschema.Schema, raw []byte) *inputSchema {
	required := make(map[string]bool, len(s.Required))
	for _, name := range s.Required {
		required[name] = true
	}
	return &inputSchema{Schema: s, raw: raw, required: required}
}

// promptSchema describes the arguments of a prompt, which are all strings.
func promptSchema(prompt *mcp.Prompt) *inputSchema {
	s := new(jsonschema.Schema)
	s.Properties = make(map[string]*jsonschema.Schema)
	s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}} // false
	for _, a := range prompt.Arguments {
		if a == nil {
			continue
		}
		s.Properties[a.Name] = &jsonschema.Schema{Description: a.Description, Title: a.Title}
		if a.Required {
			s.Required = append(s.Required, a.Name)
		}
	}
	return newInputSchema(s, []byte(compact(s)))
}

// property returns the schema of an argument. It follows references to the definitions of the whole schema.
func (s *inputSchema) property(key string) *jsonschema.Schema {
	const definitions = "#/$defs/"
	p := s.Properties[key]
	for range 8 { // they may form a circle
		if p == nil || !strings.HasPrefix(p.Ref, definitions) {
			break
		}
		p = s.Defs[strings.TrimPrefix(p.Ref, definitions)]
	}
	return cmp.Or(p, &jsonschema.Schema{})
}

// typesOf returns the types that a value may have, or nil if it may have any.
func typesOf(s *jsonschema.Schema) []string {
	switch {
	case s.Type != "":
		return []string{s.Type}
	case len(s.Types) > 0:
		return s.Types
	}
	var types []string
	for _, value := range s.Enum {
		types = append(types, typeOf(value))
	}
	for _, one := range slices.Concat(s.AnyOf, s.OneOf) {
		of := typesOf(one)
		if one.Const != nil && of == nil {
			of = []string{typeOf(*one.Const)}
		}
		if of == nil {
			return nil
		}
		types = append(types, of...)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

func typeOf(value any) string {
	return map[strictjson.Type]string{
		strictjson.TypeObject: "object", strictjson.TypeArray: "array", strictjson.TypeString: "string",
		strictjson.TypeNumber: "number", strictjson.TypeBool: "boolean", strictjson.TypeNull: "null",
	}[strictjson.TypeOf([]byte(compact(value)))]
}

// wrongArguments returns the error of a mistake in the arguments of a tool or prompt. It lists those that it takes.
func (s *inputSchema) wrongArguments(target string, problem error) error {
	target = harmlessLine(target, 200)
	return usagef("%s: %w\n\n%[1]s takes\n%[3]s", target, problem, s.list())
}

// arguments makes the arguments of a tool or prompt: the members of whole, which may be nil, replaced and completed by
// the pairs. If they cannot be checked against the schema, unchecked says why, and the server is the only judge.
func (s *inputSchema) arguments(ctx context.Context, target string, pairs []pair,
	whole []byte) (object json.RawMessage, unchecked, err error) {
	object, err = s.object(pairs, whole)
	if err == nil && (whole == nil || len(pairs) > 0) {
		err = s.check(ctx, object)
	}
	if _, unable := errors.AsType[*foreign.BoundError](err); unable {
		return object, err, nil
	}
	if err != nil {
		return nil, nil, s.wrongArguments(target, err)
	}
	return object, nil, nil
}

func (s *inputSchema) object(pairs []pair, whole []byte) (json.RawMessage, error) {
	var members []string
	for name, value := range strictjson.Members(whole) {
		if !has(pairs, string(name)) {
			members = append(members, compact(string(name))+":"+string(value))
		}
	}
	for _, p := range pairs {
		value, err := s.value(p)
		if err != nil {
			return nil, err
		}
		members = append(members, compact(p.key)+":"+value)
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}"), nil
}

// value returns the JSON of one pair.
func (s *inputSchema) value(p pair) (string, error) {
	if _, known := s.Properties[p.key]; !known && len(s.Properties) > 0 && !s.open() {
		names := slices.Sorted(maps.Keys(s.Properties))
		return "", fmt.Errorf("there is no argument %q%s", p.key, didYouMean(p.key, names))
	}
	if p.raw {
		return p.value, nil
	}
	schema := s.property(p.key)
	types := typesOf(schema)
	if len(types) == 0 || slices.Contains(types, "string") {
		return compact(p.value), nil
	}
	if err := strictjson.Check([]byte(p.value), maxDepth); err != nil {
		return "", fmt.Errorf("%s=%s: want %s", p.key, p.value, kindOf(schema))
	}
	return p.value, nil
}

// open reports whether the schema allows arguments that it does not name.
func (s *inputSchema) open() bool {
	// {"not": {}} is false
	return s.PatternProperties != nil || s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil
}

// check finds mistakes before the server does. A [*foreign.BoundError] says that the schema cannot be applied.
func (s *inputSchema) check(ctx context.Context, object json.RawMessage) error {
	if s.beyond != nil {
		return s.beyond
	}
	var value map[string]any
	if err := json.Unmarshal(object, &value); err != nil {
		return err
	}
	var missing []string
	for _, name := range s.Required {
		if _, given := value[name]; !given {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing: %s", cut(strings.Join(missing, ", ")))
	}
	schema, err := foreign.Compile(ctx, s.raw)
	if err != nil {
		return err
	}
	err = schema.Fits(ctx, object)
	if _, unable := errors.AsType[*foreign.BoundError](err); err == nil || unable || ctx.Err() != nil {
		return err
	}
	return errors.New(cmp.Or(mistake("", s.Schema, value), s.misfit(ctx, value)))
}

// misfit names the argument that its schema does not allow, for a reason that [mistake] does not know.
func (s *inputSchema) misfit(ctx context.Context, object map[string]any) string {
	alone := &jsonschema.Schema{Schema: s.Schema.Schema, Defs: s.Defs, Definitions: s.Definitions,
		Properties: s.Properties}
	if each, err := foreign.Compile(ctx, []byte(compact(alone))); err == nil {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			err := each.Fits(ctx, []byte(compact(map[string]any{name: object[name]})))
			if _, unable := errors.AsType[*foreign.BoundError](err); err != nil && !unable {
				return fmt.Sprintf("%s=%s: want a value that this schema allows: %s", name, brief(object[name]),
					cut(compact(s.property(name))))
			}
		}
	}
	rest := *s.Schema
	rest.Properties, rest.PropertyOrder = nil, nil
	return "the arguments do not go together; the tool's schema says: " + cut(compact(&rest))
}

// cut shortens what an error repeats of a schema.
func cut(text string) string { return harmlessLine(text, 1000) }

// mistake describes the first value that its schema does not allow, by its place, such as size, box.size or tags[0],
// and by what is wanted there. It is empty if a keyword is to blame that needs more explanation than that.
func mistake(place string, s *jsonschema.Schema, value any) string {
	if s == nil {
		return ""
	}
	if want := wanted(s, value); want != "" {
		return fmt.Sprintf("%s=%s: want %s", place, brief(value), cut(want))
	}
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			if found := mistake(fmt.Sprintf("%s[%d]", place, i), s.Items, item); found != "" {
				return found
			}
		}
	case map[string]any:
		within := func(name string) string { return strings.TrimPrefix(place+"."+name, ".") }
		for _, name := range s.Required {
			if _, given := value[name]; !given {
				return within(name) + " is missing"
			}
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			p, known := s.Properties[name]
			if !known && s.PatternProperties == nil && s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil {
				names := slices.Sorted(maps.Keys(s.Properties))
				return fmt.Sprintf("there is no argument %q%s", within(name), didYouMean(name, names))
			}
			if found := mistake(within(name), p, value[name]); found != "" {
				return found
			}
		}
	}
	return ""
}
