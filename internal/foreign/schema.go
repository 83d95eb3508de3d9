package foreign

import (
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// The bounds of a schema that is read.
const (
	mostBytes     = 512 << 10 // of a value, too
	mostDepth     = 64        // of its JSON
	mostSchemas   = 10_000    // counted are all objects, arrays, booleans and nulls in it
	mostPathBytes = 4 << 20
)

// Schema is a schema of a stranger's, to look at. Its references may form circles. No list or map of schemas in it has
// a nil: null in the place of a schema allows everything.
type Schema struct {
	*jsonschema.Schema
	parts []part // all schemas in it, itself first
}

// part is a schema at a place of another one.
type part struct {
	*jsonschema.Schema
	path string // a JSON Pointer
}

// ReadSchema decodes a schema within bounds. A [*BoundError] says that it is beyond them; other errors say that it is
// no schema.
func ReadSchema(raw []byte) (*Schema, error) {
	if len(raw) > mostBytes {
		return nil, beyond("the schema has more than %d bytes", mostBytes)
	}
	if err := strictjson.Check(raw, mostDepth); err != nil {
		return nil, beyond("the schema cannot be read: %v", err)
	}
	if count(raw) > mostSchemas {
		return nil, beyond("the schema has more than %d parts", mostSchemas)
	}
	s := &Schema{Schema: new(jsonschema.Schema)}
	if err := json.Unmarshal(raw, s.Schema); err != nil {
		return nil, beyond("the schema cannot be read: %.200v", err)
	}
	size := 0
	s.parts = []part{{s.Schema, ""}}
	for i := 0; i < len(s.parts); i++ {
		for path, child := range children(s.parts[i].Schema) {
			if size += len(s.parts[i].path) + len(path); size > mostPathBytes {
				return nil, beyond("the names in the schema are too long for their number")
			}
			s.parts = append(s.parts, part{child, s.parts[i].path + path})
		}
	}
	return s, nil
}

// Refers reports whether the schema has references.
func (s *Schema) Refers() bool {
	return slices.ContainsFunc(s.parts, func(p part) bool { return p.Ref != "" || p.DynamicRef != "" })
}

// count counts in a checked document what can be decoded as a schema, and the lists of them.
func count(raw []byte) (n int) {
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == '{' || c == '[' || c == 't' || c == 'f' || c == 'n'):
			n++
		}
	}
	return n
}

// children are the schemas in the keywords of s, by the pointers that lead to them from s. It replaces each nil in a
// list or a map by an empty schema.
func children(s *jsonschema.Schema) iter.Seq2[string, *jsonschema.Schema] {
	return func(yield func(string, *jsonschema.Schema) bool) {
		keywords := reflect.ValueOf(s).Elem()
		for i := range keywords.NumField() {
			pointer := "/" + keywordOf(keywords.Type().Field(i))
			if of, ok := keywords.Field(i).Interface().(*jsonschema.Schema); ok {
				if of != nil && !yield(pointer, of) {
					return
				}
				continue
			}
			for below, child := range elements(keywords.Field(i).Interface()) {
				if !yield(pointer+"/"+below, child) {
					return
				}
			}
		}
	}
}

// elements are the schemas in a list or a map, by the last parts of their pointers.
func elements(of any) iter.Seq2[string, *jsonschema.Schema] {
	return func(yield func(string, *jsonschema.Schema) bool) {
		switch of := of.(type) {
		case []*jsonschema.Schema:
			for i := range of {
				if of[i] == nil {
					of[i] = new(jsonschema.Schema)
				}
				if !yield(strconv.Itoa(i), of[i]) {
					return
				}
			}
		case map[string]*jsonschema.Schema:
			for name := range of {
				if of[name] == nil {
					of[name] = new(jsonschema.Schema)
				}
				if !yield(escapePointer.Replace(name), of[name]) {
					return
				}
			}
		}
	}
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// keywordOf returns the keyword that a field of a schema has in JSON.
func keywordOf(f reflect.StructField) string {
	switch f.Name {
	case "Items", "ItemsArray":
		return "items"
	case "DependencySchemas":
		return "dependencies"
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// CheckNames returns a [*BoundError] if the paths of all properties in a schema, as it is decoded into an any, are too
// long together: who looks for annotations of properties may write each of them.
func CheckNames(schema any) error {
	if left := mostPathBytes; !namesWithin(schema, 0, &left) {
		return beyond("the names in the schema are too long for their number")
	}
	return nil
}

func namesWithin(schema any, path int, left *int) bool {
	s, _ := schema.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	for name, property := range properties {
		below := path + len(name) + 1
		if *left -= below; *left < 0 || !namesWithin(property, below, left) {
			return false
		}
	}
	return true
}

// place names a part of a schema in an error.
func (p part) place() string {
	if p.path == "" {
		return "its root"
	}
	return fmt.Sprintf("%q", Line(p.path, 100))
}
