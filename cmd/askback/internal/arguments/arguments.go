// Package arguments makes the arguments of a tool or prompt from a command line, and describes in words what a
// schema wants.
package arguments

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

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Pair is an argument of the command line: key=value or, if raw, key:=JSON.
type Pair struct {
	Key, Value string
	Raw        bool
}

func has(pairs []Pair, key string) bool {
	return slices.ContainsFunc(pairs, func(p Pair) bool { return p.Key == key })
}

// ParsePairs reads the arguments of a command line.
func ParsePairs(args []string) ([]Pair, error) {
	var pairs []Pair
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" || key == ":" {
			return nil, cli.Usagef("the argument %q: want key=value, or key:=JSON", arg)
		}
		if !utf8.ValidString(arg) {
			return nil, cli.Usagef("the argument %q is not UTF-8", key)
		}
		p := Pair{Key: key, Value: value}
		if trimmed, raw := strings.CutSuffix(key, ":"); raw {
			p.Key, p.Raw = trimmed, true
			if err := strictjson.Check([]byte(value), cli.MaxDepth); err != nil {
				return nil, cli.Usagef("the argument %q is not JSON: %w", p.Key, err)
			}
		}
		if has(pairs, p.Key) {
			return nil, cli.Usagef("the argument %q was given twice", p.Key)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// Schema describes the arguments of a tool or prompt.
type Schema struct {
	*jsonschema.Schema
	raw      []byte
	required map[string]bool
	beyond   error // why the schema cannot be used, or nil
}

// ParseSchema reads a tool's schema. A schema that cannot be read counts as empty: every argument is then a string, and
// the server judges it.
func ParseSchema(schema any) *Schema {
	raw, err := json.Marshal(schema)
	if err != nil {
		return &Schema{Schema: new(jsonschema.Schema), beyond: err}
	}
	s, err := readSchema(raw)
	if err != nil {
		return &Schema{Schema: new(jsonschema.Schema), beyond: err}
	}
	return s
}

func readSchema(raw []byte) (*Schema, error) {
	s, err := foreign.ReadSchema(raw)
	if err != nil {
		return nil, err
	}
	return newInputSchema(s.Schema, raw), nil
}

func newInputSchema(s *jsonschema.Schema, raw []byte) *Schema {
	required := make(map[string]bool, len(s.Required))
	for _, name := range s.Required {
		required[name] = true
	}
	return &Schema{Schema: s, raw: raw, required: required}
}

// PromptSchema describes the arguments of a prompt, which are all strings.
func PromptSchema(prompt *mcp.Prompt) *Schema {
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
	return newInputSchema(s, []byte(cli.Compact(s)))
}

// property returns the schema of an argument. It follows references to the definitions of the whole schema.
func (s *Schema) property(key string) *jsonschema.Schema {
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
	}[strictjson.TypeOf([]byte(cli.Compact(value)))]
}

// WrongArguments returns the error of a mistake in the arguments of a tool or prompt. It lists those that it takes.
func (s *Schema) WrongArguments(target string, problem error) error {
	target = cli.HarmlessLine(target, 200)
	return cli.Usagef("%s: %w\n\n%[1]s takes\n%[3]s", target, problem, s.List())
}

// Arguments makes the arguments of a tool or prompt: the members of whole, which may be nil, replaced and completed by
// the pairs. If they cannot be checked against the schema, unchecked says why, and the server is the only judge.
func (s *Schema) Arguments(ctx context.Context, target string, pairs []Pair,
	whole []byte) (object json.RawMessage, unchecked, err error) {
	object, err = s.object(pairs, whole)
	if err == nil && (whole == nil || len(pairs) > 0) {
		err = s.check(ctx, object)
	}
	if _, unable := errors.AsType[*foreign.BoundError](err); unable {
		return object, err, nil
	}
	if err != nil {
		return nil, nil, s.WrongArguments(target, err)
	}
	return object, nil, nil
}

func (s *Schema) object(pairs []Pair, whole []byte) (json.RawMessage, error) {
	var members []string
	for name, value := range strictjson.Members(whole) {
		if !has(pairs, string(name)) {
			members = append(members, cli.Compact(string(name))+":"+string(value))
		}
	}
	for _, p := range pairs {
		value, err := s.value(p)
		if err != nil {
			return nil, err
		}
		members = append(members, cli.Compact(p.Key)+":"+value)
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}"), nil
}

// value returns the JSON of one pair.
func (s *Schema) value(p Pair) (string, error) {
	if _, known := s.Properties[p.Key]; !known && len(s.Properties) > 0 && !s.open() {
		names := slices.Sorted(maps.Keys(s.Properties))
		return "", fmt.Errorf("there is no argument %q%s", p.Key, cli.DidYouMean(p.Key, names))
	}
	if p.Raw {
		return p.Value, nil
	}
	schema := s.property(p.Key)
	types := typesOf(schema)
	if len(types) == 0 || slices.Contains(types, "string") {
		return cli.Compact(p.Value), nil
	}
	if err := strictjson.Check([]byte(p.Value), cli.MaxDepth); err != nil {
		return "", fmt.Errorf("%s=%s: want %s", p.Key, p.Value, kindOf(schema))
	}
	return p.Value, nil
}

// open reports whether the schema allows arguments that it does not name.
func (s *Schema) open() bool {
	// {"not": {}} is false
	return s.PatternProperties != nil || s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil
}

// check finds mistakes before the server does. A [*foreign.BoundError] says that the schema cannot be applied.
func (s *Schema) check(ctx context.Context, object json.RawMessage) error {
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
func (s *Schema) misfit(ctx context.Context, object map[string]any) string {
	alone := &jsonschema.Schema{Schema: s.Schema.Schema, Defs: s.Defs, Definitions: s.Definitions,
		Properties: s.Properties}
	if each, err := foreign.Compile(ctx, []byte(cli.Compact(alone))); err == nil {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			err := each.Fits(ctx, []byte(cli.Compact(map[string]any{name: object[name]})))
			if _, unable := errors.AsType[*foreign.BoundError](err); err != nil && !unable {
				return fmt.Sprintf("%s=%s: want a value that this schema allows: %s", name, brief(object[name]),
					cut(cli.Compact(s.property(name))))
			}
		}
	}
	rest := *s.Schema
	rest.Properties, rest.PropertyOrder = nil, nil
	return "the arguments do not go together; the tool's schema says: " + cut(cli.Compact(&rest))
}

// cut shortens what an error repeats of a schema.
func cut(text string) string { return cli.HarmlessLine(text, 1000) }

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
				return fmt.Sprintf("there is no argument %q%s", within(name), cli.DidYouMean(name, names))
			}
			if found := mistake(within(name), p, value[name]); found != "" {
				return found
			}
		}
	}
	return ""
}
