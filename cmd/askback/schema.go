package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// The limits of a schema that the command uses. The server is the only judge of arguments for a larger one.
const (
	maxSchemaBytes = 1 << 20
	maxSubschemas  = 20_000
)

// readSchema decodes a schema of a server, within limits. In the result no list or map of schemas holds a nil: null in
// the place of a schema is one that allows everything. It reports whether the schema has references, which may form a
// circle.
func readSchema(raw []byte) (s *jsonschema.Schema, refers bool, err error) {
	if len(raw) > maxSchemaBytes {
		return nil, false, fmt.Errorf("the schema has more than %d bytes", maxSchemaBytes)
	}
	if err := strictjson.Check(raw, maxDepth); err != nil {
		return nil, false, err
	}
	s = new(jsonschema.Schema)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, false, err
	}
	for left, n := []*jsonschema.Schema{s}, 0; len(left) > 0; n++ {
		if n == maxSubschemas {
			return nil, false, fmt.Errorf("the schema has more than %d schemas in it", maxSubschemas)
		}
		next := left[len(left)-1]
		refers = refers || next.Ref != "" || next.DynamicRef != ""
		left = appendSubschemas(left[:len(left)-1], next)
	}
	return s, refers, nil
}

// appendSubschemas appends the schemas in the keywords of s, and puts an empty one where a nil is.
func appendSubschemas(to []*jsonschema.Schema, s *jsonschema.Schema) []*jsonschema.Schema {
	keywords := reflect.ValueOf(s).Elem()
	for i := range keywords.NumField() {
		switch of := keywords.Field(i).Interface().(type) {
		case *jsonschema.Schema:
			if of != nil {
				to = append(to, of)
			}
		case []*jsonschema.Schema:
			for i := range of {
				if of[i] == nil {
					of[i] = new(jsonschema.Schema)
				}
				to = append(to, of[i])
			}
		case map[string]*jsonschema.Schema:
			for name := range of {
				if of[name] == nil {
					of[name] = new(jsonschema.Schema)
				}
				to = append(to, of[name])
			}
		}
	}
	return to
}
