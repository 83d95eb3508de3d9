package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// The limits of a schema that the command uses. Arguments for a larger schema are checked by the server alone.
const (
	maxSchemaBytes = 1 << 20
	maxSubschemas  = 20_000
)

// readSchema decodes a schema of a server, within limits. Null in the place of a schema becomes a schema that allows
// everything, so that no list or map of schemas in the result holds a nil. It reports whether the schema has
// references, because these may form a circle.
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

// appendSubschemas appends the schemas in the keywords of s, and replaces each nil by an empty schema.
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
