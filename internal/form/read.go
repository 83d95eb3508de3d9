package form

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Read reads a schema that a stranger wrote. It is more lenient than [Parse], because its reader cannot change the
// schema: a question that is refused for a detail is a question that nobody answers. It takes every form that the
// elicitation page allows, and common deviations. Unknown members are kept and ignored, known rules are checked, and a
// property without a fitting field is asked for as JSON. The schema's JSON has the members, order and numbers of the
// given one. It is an error if the schema is no form at all.
func Read(schema []byte) (*Schema, error) {
	if len(bytes.TrimSpace(schema)) == 0 {
		schema = []byte("{}")
	}
	if err := strictjson.Check(schema, strictjson.MaxDepth); err != nil {
		return nil, fmt.Errorf("the form: %w", err)
	}
	if strictjson.TypeOf(schema) == strictjson.TypeNull {
		schema = []byte("{}")
	}
	r := &reader{root: schema}
	top := r.words(schema)
	properties := top["properties"]
	switch {
	case top == nil:
		return nil, errors.New("the form is not an object")
	case top["type"] != nil && !slices.Contains(typesOf(top["type"]), "object"):
		return nil, errors.New("the form is not of the type object")
	case properties != nil && strictjson.TypeOf(properties) != strictjson.TypeObject:
		return nil, errors.New("the form's properties are not an object")
	}
	s := &Schema{json: strictjson.AppendCompact(nil, schema), index: make(map[string]int)}
	for name, definition := range strictjson.Members(properties) {
		if len(s.properties) == mostProperties {
			return nil, fmt.Errorf("the form has more than %d properties", mostProperties)
		}
		s.index[string(name)] = len(s.properties)
		s.properties = append(s.properties, r.property(string(name), definition))
	}
	for name := range strictjson.Elements(array(top["required"])) {
		if name, ok := strictjson.String(name); ok {
			if i, known := s.index[name]; known {
				s.properties[i].required = true
			}
		}
	}
	for i := range s.properties {
		p := &s.properties[i]
		s.room += len(p.key) + max(len(p.fallback), len("null")) + 1
	}
	return s, nil
}

const (
	mostProperties = 1000
	mostHops       = 8 // references, one after the other, so that a circle of them ends
)

// reader reads the properties of one schema.
type reader struct{ root []byte }

// words returns the keywords of a schema, after following references within the same document, or nil if it is not an
// object. No other document is fetched: its address would be a stranger's choice.
func (r *reader) words(schema []byte) words {
	return r.follow(schema, mostHops)
}

func (r *reader) follow(schema []byte, hops int) words {
	if strictjson.TypeOf(schema) != strictjson.TypeObject {
		return nil
	}
	w := words{}
	for name, value := range strictjson.Members(schema) {
		w[string(name)] = value
	}
	if target, ok := strictjson.String(w["$ref"]); ok && hops > 0 {
		for name, value := range r.follow(r.target(target), hops-1) {
			if w[name] == nil {
				w[name] = value
			}
		}
	}
	if all := elements(w["allOf"]); len(all) == 1 && hops > 0 {
		for name, value := range r.follow(all[0], hops-1) {
			if w[name] == nil {
				w[name] = value
			}
		}
	}
	return w
}

// target returns the schema to which a reference such as #/$defs/Color leads, or nil.
func (r *reader) target(reference string) []byte {
	path, ok := strings.CutPrefix(reference, "#/")
	if !ok {
		return nil
	}
	at := r.root
	for part := range strings.SplitSeq(path, "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		if strictjson.TypeOf(at) != strictjson.TypeObject {
			return nil
		}
		at = strictjson.Get(at, part)
	}
	return at
}

// property reads a property.
func (r *reader) property(name string, definition []byte) property {
	w := r.words(definition)
	nullable := r.unwrap(&w)
	known := r.known(w)
	p, err := compile(name, known, float64Low, float64High)
	if string(known["type"]) == `"integer"` {
		p, err = compile(name, known, newBound(strconv.Itoa(math.MinInt64)),
			newBound(strconv.FormatUint(math.MaxUint64, 10)))
	}
	if err != nil && known["default"] != nil { // the default of a stranger may be anything
		delete(known, "default")
		p, err = compile(name, known, p.low, p.high)
	}
	if err != nil {
		p = property{name: name, key: append(encode(name), ':'), kind: kindJSON}
		p.schema = known.only("title", "description").append(nil)
		if fallback := w["default"]; fallback != nil && strictjson.TypeOf(fallback) != strictjson.TypeNull {
			p.fallback = fallback
			p.schema = known.with("default", fallback).only("title", "description", "default").append(nil)
		}
	}
	p.nullable = nullable
	if r.hasRules(w, p.kind) {
		p.rule = r.rule(definition)
	}
	return p
}

// unwrap takes a property apart that may be null, and reports whether it is one: {"anyOf": [X, {"type": "null"}]} and
// {"type": ["string", "null"]}. Its own keywords stand before those of X.
func (r *reader) unwrap(w *words) (nullable bool) {
	for _, word := range []string{"anyOf", "oneOf"} {
		var others [][]byte
		for _, one := range elements((*w)[word]) {
			if types := typesOf(strictjson.Get(object(one), "type")); len(types) == 1 && types[0] == "null" {
				nullable = true
				continue
			}
			others = append(others, one)
		}
		if len(others) != 1 || !nullable && r.words(others[0])["const"] != nil {
			continue
		}
		inner := r.words(others[0])
		for name, value := range *w {
			if name != word {
				if inner == nil {
					inner = words{}
				}
				inner[name] = value
			}
		}
		*w = inner
	}
	if types := typesOf((*w)["type"]); len(types) > 1 && slices.Contains(types, "null") {
		nullable = true
		if types = slices.DeleteFunc(types, func(t string) bool { return t == "null" }); len(types) == 1 {
			*w = w.with("type", encode(types[0]))
		}
	}
	return nullable
}

// known are the keywords that a property of a form may have, as far as they say something. What is left may still be no
// property of a form.
func (r *reader) known(w words) words {
	kind := r.typeOf(w)
	known := words{}
	for _, word := range []string{"title", "description"} {
		if strictjson.TypeOf(w[word]) == strictjson.TypeString {
			known[word] = w[word]
		}
	}
	if kind == "" {
		return known
	}
	known["type"] = encode(kind)
	switch kind {
	case "string":
		r.string(w, known)
	case "integer", "number":
		if w["enum"] != nil || w["const"] != nil { // a choice between numbers has no field
			delete(known, "type")
		}
		r.limits(w, known, "minimum", "maximum")
	case "array":
		r.limits(w, known, "minItems", "maxItems")
		if values := r.choices(r.words(w["items"])); values != nil {
			known["items"] = slices.Concat([]byte(`{"anyOf":`), titled(values), []byte("}"))
			if p, err := size(known["minItems"]); err == nil && p > len(values) {
				delete(known, "minItems")
			}
		}
	}
	if fallback := w["default"]; fallback != nil && strictjson.TypeOf(fallback) != strictjson.TypeNull {
		known["default"] = fallback
	}
	return known
}

// string reads the keywords of a text or of a choice.
func (r *reader) string(w, known words) {
	if values := r.choices(w); values != nil {
		known["oneOf"] = titled(values)
		return
	}
	if w["enum"] != nil || w["const"] != nil { // with values that are no texts
		delete(known, "type")
	}
	r.limits(w, known, "minLength", "maxLength")
	if format, ok := strictjson.String(w["format"]); ok && formats[format] != nil {
		known["format"] = w["format"]
	}
}

// limits reads two limits. One that is malformed, or that nothing can keep, says nothing.
func (r *reader) limits(w, known words, low, high string) {
	for _, word := range []string{low, high} {
		if w[word] == nil {
			continue
		}
		if _, err := size(w[word]); err == nil || word == "minimum" || word == "maximum" {
			known[word] = w[word]
		}
	}
	test := words{"type": known["type"]}
	if known["type"] == nil || string(known["type"]) == `"array"` {
		return
	}
	for _, word := range []string{low, high} {
		if known[word] == nil {
			continue
		}
		test[word] = known[word]
		if _, err := compile("", test, float64Low, float64High); err != nil {
			delete(known, word)
			delete(test, word)
		}
	}
}

// typeOf returns the type of a property, as it declares it or as its keywords imply it, or empty.
func (r *reader) typeOf(w words) string {
	if w["type"] != nil {
		if types := typesOf(w["type"]); len(types) == 1 {
			return types[0]
		}
		return ""
	}
	has := func(all ...string) bool {
		return slices.ContainsFunc(all, func(word string) bool { return w[word] != nil })
	}
	switch {
	case r.choices(w) != nil, has("minLength", "maxLength", "pattern", "format"):
		return "string"
	case has("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
		return "number"
	}
	return ""
}

// choices are the values of an enum of texts, with their titles, or nil.
func (r *reader) choices(w words) []Option {
	var all []Option
	names := elements(w["enumNames"])
	for i, value := range elements(w["enum"]) {
		text, ok := strictjson.String(value)
		if !ok {
			return nil
		}
		title := ""
		if i < len(names) {
			title, _ = strictjson.String(names[i])
		}
		all = append(all, Option{text, title})
	}
	for _, one := range slices.Concat(elements(w["oneOf"]), elements(w["anyOf"])) {
		o := r.words(one)
		text, ok := strictjson.String(o["const"])
		if !ok {
			return nil
		}
		title, _ := strictjson.String(o["title"])
		all = append(all, Option{text, title})
	}
	if text, ok := strictjson.String(w["const"]); ok && all == nil {
		all = append(all, Option{text, ""})
	}
	seen := make(map[string]bool)
	return slices.DeleteFunc(all, func(o Option) bool {
		had := seen[o.Value]
		seen[o.Value] = true
		return had
	})
}

// titled are choices as the keyword oneOf has them.
func titled(all []Option) []byte {
	for i := range all {
		all[i].Title = cmp.Or(all[i].Title, all[i].Value)
	}
	data, _ := json.Marshal(all) // strings always marshal
	return data
}

// hasRules reports whether a property has rules that its kind does not check.
func (r *reader) hasRules(w words, k kind) bool {
	if k == kindJSON {
		return true
	}
	for _, word := range []string{"pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "not",
		"if", "allOf", "anyOf", "oneOf", "const"} {
		if w[word] != nil {
			return true
		}
	}
	return false
}

// rule returns a property's schema for [foreign.Compile], with the definitions that its references need.
func (r *reader) rule(definition []byte) []byte {
	w := words{}
	if strictjson.TypeOf(definition) != strictjson.TypeObject {
		return nil
	}
	for name, value := range strictjson.Members(definition) {
		w[string(name)] = value
	}
	for _, word := range []string{"$schema", "$defs", "definitions"} {
		if value := strictjson.Get(r.root, word); value != nil {
			w[word] = value
		}
	}
	return w.all()
}

// breaks returns the fault of a value by a property's rule, or "". A rule that cannot be applied within the bounds
// finds none: the server that wrote it checks the answer, too.
func (p *property) breaks(value []byte) string {
	if p.rule == nil {
		return ""
	}
	compiled, err := foreign.Compile(context.Background(), p.rule)
	if err == nil {
		err = compiled.Fits(context.Background(), value)
	}
	if _, unable := errors.AsType[*foreign.BoundError](err); err == nil || unable || compiled == nil {
		return ""
	}
	return "does not fit the rules of its schema" + p.ruleHint()
}

// ruleHint names the rules by which people can correct their answer.
func (p *property) ruleHint() string {
	var said []string
	for _, word := range []string{"pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} {
		if value := strictjson.Get(p.rule, word); value != nil {
			said = append(said, word+" "+foreign.Line(string(value), 100))
		}
	}
	if said == nil {
		return ""
	}
	return ": " + strings.Join(said, ", ")
}

// with is a copy with one more keyword.
func (w words) with(word string, value []byte) words {
	other := maps.Clone(w)
	other[word] = value
	return other
}

// only is a copy with the named keywords.
func (w words) only(named ...string) words {
	other := words{}
	for _, word := range named {
		if w[word] != nil {
			other[word] = w[word]
		}
	}
	return other
}

// all returns an object with all keywords, sorted, so that equal rules have equal bytes.
func (w words) all() []byte {
	object := []byte{'{'}
	for _, word := range slices.Sorted(maps.Keys(w)) {
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(append(strictjson.AppendString(object, word), ':'), w[word]...)
	}
	return append(object, '}')
}

// typesOf are the names in the keyword type.
func typesOf(value []byte) (names []string) {
	if name, ok := strictjson.String(value); ok {
		return []string{name}
	}
	for _, one := range elements(value) {
		if name, ok := strictjson.String(one); ok {
			names = append(names, name)
		}
	}
	return names
}

// elements returns the elements of an array. Anything else has none.
func elements(value []byte) (all [][]byte) {
	for one := range strictjson.Elements(array(value)) {
		all = append(all, one)
	}
	return all
}

func array(value []byte) []byte {
	if value == nil || strictjson.TypeOf(value) != strictjson.TypeArray {
		return []byte("[]")
	}
	return value
}

func object(value []byte) []byte {
	if value == nil || strictjson.TypeOf(value) != strictjson.TypeObject {
		return []byte("{}")
	}
	return value
}
