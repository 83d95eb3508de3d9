package form_test

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/askback-mcp/askback/internal/form"
)

type resolution struct {
	Kind  string   `json:"kind" enum:"fixed=Fixed|dup=Duplicate|wontfix=Won't fix" jsonschema:"How the bug was resolved"`
	Ref   int      `json:"ref,omitempty" minimum:"1" title:"Duplicate of"`
	Teams []string `json:"teams,omitempty" enum:"web|core|ops" default:"core"`
}

func ExampleFor() {
	schema, err := form.For(reflect.TypeFor[resolution]())
	if err != nil {
		panic(err) // a mistake in the tags
	}
	indented, _ := json.MarshalIndent(json.RawMessage(schema.JSON()), "", "  ")
	fmt.Println(string(indented))
	// Output:
	// {
	//   "type": "object",
	//   "properties": {
	//     "kind": {
	//       "type": "string",
	//       "description": "How the bug was resolved",
	//       "oneOf": [
	//         {
	//           "const": "fixed",
	//           "title": "Fixed"
	//         },
	//         {
	//           "const": "dup",
	//           "title": "Duplicate"
	//         },
	//         {
	//           "const": "wontfix",
	//           "title": "Won't fix"
	//         }
	//       ]
	//     },
	//     "ref": {
	//       "type": "integer",
	//       "title": "Duplicate of",
	//       "minimum": 1
	//     },
	//     "teams": {
	//       "type": "array",
	//       "items": {
	//         "type": "string",
	//         "enum": [
	//           "web",
	//           "core",
	//           "ops"
	//         ]
	//       },
	//       "default": [
	//         "core"
	//       ]
	//     }
	//   },
	//   "required": [
	//     "kind"
	//   ]
	// }
}

func ExampleSchema_Check() {
	schema, err := form.For(reflect.TypeFor[resolution]())
	if err != nil {
		panic(err)
	}
	clean, err := schema.Check([]byte(`{"kind": "dup", "KIND": "fixed", "ref": 1.7e1, "admin": true}`))
	fmt.Println(string(clean), err)

	_, err = schema.Check([]byte(`{"ref": 0, "teams": ["sales"]}`))
	fmt.Println(err)
	// Output:
	// {"kind":"dup","ref":17,"teams":["core"]} <nil>
	// kind: is required; ref: must be at least 1; teams: must hold nothing but web, core, ops
}

func ExampleParse() {
	_, err := form.Parse([]byte(`{"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}}}`))
	fmt.Println(err)
	// Output:
	// form: requestedSchema: property "zip": pattern: not allowed on a string, which may have title, description, default, minLength, maxLength, format
}

func ExampleSchema_Properties() {
	schema, err := form.Parse([]byte(`{"type":"object","properties":{
		"colour":{"type":"string","title":"Colour","oneOf":[{"const":"r","title":"Red"},{"const":"b","title":"Blue"}],
			"default":"b"},
		"size":{"type":"string","enum":["s","l"],"enumNames":["Small","Large"]},
		"tags":{"type":"array","maxItems":1,"items":{"type":"string","enum":["a","b"]}},
		"age":{"type":"integer","minimum":18}},"required":["age"]}`))
	if err != nil {
		panic(err)
	}
	for _, p := range schema.Properties() {
		fmt.Printf("%s %s %q %v %q %q required=%v default=%s\n", p.Name, p.Type, p.Title, p.Options, p.Low, p.High,
			p.Required, p.Default)
	}
	clean, problem := schema.Properties()[3].Check([]byte(`4.2e1`))
	fmt.Println(string(clean) + problem)
	_, problem = schema.Properties()[3].Check([]byte(`17`))
	fmt.Println(problem)
	// Output:
	// colour string "Colour" [{r Red} {b Blue}] "" "" required=false default="b"
	// size string "" [{s Small} {l Large}] "" "" required=false default=
	// tags array "" [{a a} {b b}] "" "1" required=false default=
	// age integer "" [] "18" "" required=true default=
	// 42
	// must be at least 18
}
