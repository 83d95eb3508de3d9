package form

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// sameJSON reports how two documents differ as JSON values, numbers compared by their spelling.
func sameJSON(t *testing.T, want, got string) string {
	t.Helper()
	var values [2]any
	for i, doc := range []string{want, got} {
		d := json.NewDecoder(strings.NewReader(doc))
		d.UseNumber()
		if err := d.Decode(&values[i]); err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
	}
	return cmp.Diff(values[0], values[1])
}

// The table for authors has every tag.
func TestTagsInTheDocument(t *testing.T) {
	page := expect.Must(os.ReadFile("../../docs/tools.md"))(t)
	_, forms, _ := strings.Cut(string(page), "\n## Forms\n")
	for _, tag := range Tags {
		if !strings.Contains(forms, "| `"+tag) && !strings.Contains(forms, ", `"+tag) {
			t.Errorf("docs/tools.md has no tag %s in its table", tag)
		}
	}
}

func mustFor[T any](t testing.TB) *Schema {
	t.Helper()
	s := expect.Must(For(reflect.TypeFor[T]()))(t)
	return s
}

// The shapes of the elicitation page, word for word.
const (
	specString = `{"type":"string","title":"Display Name","description":"Description text","minLength":3,` +
		`"maxLength":50,"format":"email","default":"user@example.com"}`
	specNumber = `{"type":"number","title":"Display Name","description":"Description text","minimum":0,` +
		`"maximum":100,"default":50}`
	specBoolean = `{"type":"boolean","title":"Display Name","description":"Description text","default":false}`
	specChoice  = `{"type":"string","title":"Color Selection","description":"Choose your favorite color",` +
		`"enum":["Red","Green","Blue"],"default":"Red"}`
	specTitledChoice = `{"type":"string","title":"Color Selection","description":"Choose your favorite color",` +
		`"oneOf":[{"const":"#FF0000","title":"Red"},{"const":"#00FF00","title":"Green"},{"const":"#0000FF",` +
		`"title":"Blue"}],"default":"#FF0000"}`
	specChoices = `{"type":"array","title":"Color Selection","description":"Choose your favorite colors",` +
		`"minItems":1,"maxItems":2,"items":{"type":"string","enum":["Red","Green","Blue"]},"default":["Red","Green"]}`
	specTitledChoices = `{"type":"array","title":"Color Selection","description":"Choose your favorite colors",` +
		`"minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"#FF0000","title":"Red"},{"const":"#00FF00","title":"Green"},` +
		`{"const":"#0000FF","title":"Blue"}]},"default":["#FF0000","#00FF00"]}`
)

type specForm struct {
	String        string   `json:"string" title:"Display Name" jsonschema:"Description text" minLength:"3" maxLength:"50" format:"email" default:"user@example.com"`
	Number        float64  `json:"number" title:"Display Name" jsonschema:"Description text" minimum:"0" maximum:"100" default:"50"`
	Boolean       bool     `json:"boolean" title:"Display Name" jsonschema:"Description text" default:"false"`
	Choice        string   `json:"choice" title:"Color Selection" jsonschema:"Choose your favorite color" enum:"Red|Green|Blue" default:"Red"`
	TitledChoice  string   `json:"titledChoice" title:"Color Selection" jsonschema:"Choose your favorite color" enum:"#FF0000=Red|#00FF00=Green|#0000FF=Blue" default:"#FF0000"`
	Choices       []string `json:"choices" title:"Color Selection" jsonschema:"Choose your favorite colors" minItems:"1" maxItems:"2" enum:"Red|Green|Blue" default:"Red|Green"`
	TitledChoices []string `json:"titledChoices" title:"Color Selection" jsonschema:"Choose your favorite colors" minItems:"1" maxItems:"2" enum:"#FF0000=Red|#00FF00=Green|#0000FF=Blue" default:"#FF0000|#00FF00"`
}

// Keywords come in the order of the specification's examples, so the comparison is of bytes.
func TestForEmitsTheSpecificationsShapes(t *testing.T) {
	want := `{"type":"object","properties":{"string":` + specString + `,"number":` + specNumber + `,"boolean":` +
		specBoolean +
		`,"choice":` + specChoice + `,"titledChoice":` + specTitledChoice + `,"choices":` + specChoices +
		`,"titledChoices":` + specTitledChoices +
		`},"required":["string","number","boolean","choice","titledChoice","choices","titledChoices"]}`
	expect.Diff(t, "the value", want, string(mustFor[specForm](t).JSON()))
}

// The two requestedSchemas of the elicitation page.
func TestForEmitsTheSpecificationsExamples(t *testing.T) {
	type simple struct {
		Name string `json:"name"`
	}
	type structured struct {
		Name  string  `json:"name" jsonschema:"Your full name"`
		Email string  `json:"email" format:"email" jsonschema:"Your email address"`
		Age   float64 `json:"age,omitempty" minimum:"18" jsonschema:"Your age"`
	}
	for _, test := range []struct{ got, want string }{
		{string(mustFor[simple](t).JSON()), `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`},
		{string(mustFor[structured](t).JSON()), `{
			"type": "object",
			"properties": {
				"name": {"type": "string", "description": "Your full name"},
				"email": {"type": "string", "format": "email", "description": "Your email address"},
				"age": {"type": "number", "minimum": 18, "description": "Your age"}
			},
			"required": ["name", "email"]
		}`},
	} {
		expect.Equal(t, "sameJSON(t, test.want, test.got)", sameJSON(t, test.want, test.got), "")
	}
}

type (
	severity string
	colors   []severity
	// Loud decodes itself.
	loud string
)

func (*loud) UnmarshalText([]byte) error { return nil }

type selfMade struct{ A string }

func (*selfMade) UnmarshalJSON([]byte) error { return nil }

func TestForInfersTypeAndPresence(t *testing.T) {
	type Label string
	type form struct {
		Untagged string
		Named    severity    `json:"named"`
		Label                // embedded, but not a struct: a field like any other
		Out      func()      `json:"-"`
		_        func()      // not exported, so not there
		I8       int8        `json:"i8"`
		U64      uint64      `json:"u64,omitzero" minimum:"18446744073709551615"`
		F32      float32     `json:"f32,omitempty"`
		Num      json.Number `json:"num" minimum:"-1.5e3" default:"0.10"`
		When     *time.Time  `json:"when" default:"2026-07-28T12:00:00Z"`
		Format   time.Time   `json:"format" format:"date-time"`
		Some     *colors     `json:"some" enum:"a|b" default:""`
		Text     *string     `json:"t<x>" title:"<b> & \"c\"" default:""`
	}
	want := `{"type":"object","properties":{` +
		`"Untagged":{"type":"string"},` +
		`"named":{"type":"string"},` +
		`"Label":{"type":"string"},` +
		`"i8":{"type":"integer"},` +
		`"u64":{"type":"integer","minimum":18446744073709551615},` +
		`"f32":{"type":"number"},` +
		`"num":{"type":"number","minimum":-1.5e3,"default":0.10},` +
		`"when":{"type":"string","format":"date-time","default":"2026-07-28T12:00:00Z"},` +
		`"format":{"type":"string","format":"date-time"},` +
		`"some":{"type":"array","items":{"type":"string","enum":["a","b"]},"default":[]},` +
		`"t<x>":{"type":"string","title":"<b> & \"c\"","default":""}` +
		`},"required":["Untagged","named","Label","i8","num","format"]}`
	expect.Diff(t, "the value", want, string(mustFor[form](t).JSON()))
	dash := reflect.StructOf([]reflect.StructField{{Name: "F", Type: reflect.TypeFor[bool](), Tag: `json:"-,"`}})
	if s, err := For(dash); err != nil || string(s.JSON()) != `{"type":"object","properties":{"-":{"type":"boolean"}},`+
		`"required":["-"]}` {
		t.Errorf("a property named -: %v", err)
	}
	expect.Equal(t, "empty form", string(mustFor[struct{}](t).JSON()), `{"type":"object","properties":{}}`)
}

func TestForIsCachedAndConcurrent(t *testing.T) {
	type form struct{ A string }
	var all [8]*Schema
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i], _ = For(reflect.TypeFor[*form]()) })
	}
	wg.Wait()
	first, _ := For(reflect.TypeFor[form]())
	again, _ := For(reflect.TypeFor[*form]())
	expect.Equal(t, "a pointer to a struct has a schema of its own", first, again)
	for _, s := range all {
		if string(s.JSON()) != string(first.JSON()) {
			t.Errorf("%s, want %s", s.JSON(), first.JSON())
		}
	}
}

func TestForRefuses(t *testing.T) {
	type Inner struct{ A string }
	for _, test := range []struct {
		form any
		want []string // all in the error
	}{
		// What is no form at all.
		{0, []string{"int is not a struct"}},
		{new(*Inner), []string{"is not a struct"}},
		{selfMade{}, []string{"form.selfMade decodes itself"}},

		// Tags that would be passed over in silence.
		{struct {
			F string `maxLenght:"3"`
		}{}, []string{".F: no tag is called maxLenght; did you mean maxLength?"}},
		{struct {
			F string `json:"f" pattern:"^a"`
		}{}, []string{".F: no tag is called pattern; there are json, jsonschema, title"}},
		{reflect.Zero(
			reflect.StructOf(
				// Vet refuses this tag.
				[]reflect.StructField{{Name: "F", Type: reflect.TypeFor[int](), Tag: `json:"f"minimum:"1"`}})).Interface(),
			[]string{".F: the tag", "needs a space after json"}},

		// Types.
		{struct{ F Inner }{}, []string{".F: a form is flat and has no place for type form.Inner", "flat"}},
		{struct{ Inner }{}, []string{".Inner: a form cannot have an embedded struct", "name its fields here"}},
		{struct{ *Inner }{}, []string{".Inner: a form cannot have an embedded struct"}},
		{struct{ F map[string]string }{}, []string{".F: a form is flat and has no place for type map[string]string"}},
		{struct{ F any }{}, []string{".F: a form is flat and has no place for type interface {}"}},
		{struct{ F []int }{}, []string{".F: a form is flat and has no place for type []int"}},
		{struct{ F []byte }{}, []string{".F: a form is flat and has no place for type []uint8"}},
		{struct{ F [2]string }{}, []string{".F: a form is flat and has no place for type [2]string"}},
		{struct{ F **string }{}, []string{".F: a form is flat and has no place for type *string"}},
		{struct{ F complex64 }{}, []string{".F: a form is flat and has no place for type complex64"}},
		{struct{ F uintptr }{}, []string{".F: a form is flat and has no place for type uintptr"}},
		{struct{ F chan int }{}, []string{".F: a form is flat and has no place for type chan int"}},
		{struct{ F loud }{}, []string{".F: type form.loud decodes itself", "plain type"}},
		{struct {
			F []loud `enum:"a"`
		}{}, []string{".F: a form is flat and has no place for type []form.loud"}},
		{struct {
			F []json.Number `enum:"1"`
		}{}, []string{".F: a form is flat and has no place for type []json.Number"}},
		{struct{ F []string }{}, []string{".F: a list", `enum:"a|b|c"`}},

		// json tags.
		{struct {
			F string `json:"G"`
			G string
		}{}, []string{`.G: field F has the JSON name "G" already`}},
		{struct {
			F int `json:"a,string"`
		}{}, []string{".F: json: a form has no numbers in strings"}},
		{reflect.StructOf([]reflect.StructField{{Name: "F", Type: reflect.TypeFor[int](), Tag: `json:"a'b"`}}),
			[]string{`.F: json: encoding/json ignores the name "a'b"`}},

		// Tags that do not fit the type.
		{struct {
			F bool `minLength:"1"`
		}{}, []string{".F: minLength: not allowed on a boolean, which may have title, description, default"}},
		{struct {
			F string `minimum:"1"`
		}{}, []string{".F: minimum: not allowed on a string"}},
		{struct {
			F string `minItems:"1"`
		}{}, []string{".F: minItems: not allowed on a string"}},
		{struct {
			F int `maxLength:"1"`
		}{}, []string{
			".F: maxLength: not allowed on an integer, which may have title, description, default, minimum, maximum"}},
		{struct {
			F float64 `format:"email"`
		}{}, []string{".F: format: not allowed on a number"}},
		{struct {
			F string `enum:"a" maxLength:"1"`
		}{}, []string{".F: maxLength: not allowed on a single-select enum"}},
		{struct {
			F string `enum:"a=A" format:"uri"`
		}{}, []string{".F: format: not allowed on a single-select enum with titles"}},
		{struct {
			F []string `enum:"a" format:"uri"`
		}{}, []string{".F: format: not allowed on a multi-select enum"}},
		{struct {
			F int `enum:"1|2"`
		}{}, []string{".F: enum: the values of an enum are strings, and int is not a string", "use a string"}},
		{struct {
			F json.Number `enum:"1|2"`
		}{}, []string{".F: enum:"}},
		{struct {
			F time.Time `enum:"1|2"`
		}{}, []string{".F: enum:"}},
		{struct {
			F time.Time `format:"date"`
		}{}, []string{".F: format: a time.Time is always a date-time", "make the field a string"}},
		{struct {
			F time.Time `maxLength:"3"`
		}{}, []string{".F: maxLength: a time.Time is always a date-time"}},

		// Tags that say nothing or nonsense.
		{struct {
			F string `jsonschema:""`
		}{}, []string{".F: jsonschema: is empty"}},
		{struct {
			F string `jsonschema:"enum=a"`
		}{}, []string{".F: jsonschema: is the description"}},
		{struct {
			F string `title:""`
		}{}, []string{".F: title: is empty"}},
		{struct {
			F string `format:"ipv4"`
		}{}, []string{`.F: format: "ipv4" is not one of date, date-time, email, uri`}},
		{struct {
			F string `minLength:"three"`
		}{}, []string{`.F: minLength: "three" is not a number`}},
		{struct {
			F string `minLength:""`
		}{}, []string{`.F: minLength: is empty`}},
		{struct {
			F string `minLength:"-1"`
		}{}, []string{".F: minLength: must be a whole number, 0 or more"}},
		{struct {
			F string `maxLength:"1.5"`
		}{}, []string{".F: maxLength: must be a whole number"}},
		{struct {
			F string `maxLength:"1e999999999"`
		}{}, []string{".F: maxLength: must be a whole number"}},
		{struct {
			F string `minLength:"5" maxLength:"4"`
		}{}, []string{".F: maxLength: 4 is less than the minimum of 5"}},
		{struct {
			F []string `enum:"a|b" minItems:"2" maxItems:"1"`
		}{}, []string{".F: maxItems: 1 is less than the minimum of 2"}},
		{struct {
			F []string `enum:"a|b" minItems:"3"`
		}{}, []string{".F: minItems: 3 is more than the 2 values"}},
		{struct {
			F int `minimum:"05"`
		}{}, []string{`.F: minimum: "05" is not a number`}},
		{struct {
			F int `minimum:" 5"`
		}{}, []string{`.F: minimum: " 5" is not a number`}},
		{struct {
			F int `minimum:"5 "`
		}{}, []string{`.F: minimum: "5 " is not a number`}},
		{struct {
			F int `default:"5 "`
		}{}, []string{`.F: default: "5 " does not fit the type "integer"`}},
		{struct {
			F float64 `maximum:"NaN"`
		}{}, []string{`.F: maximum: "NaN" is not a number`}},
		{struct {
			F float64 `maximum:"1e309"`
		}{}, []string{".F: maximum: 1e309 is outside -1.7976931348623157e+308…1.7976931348623157e+308"}},
		{struct {
			F float64 `minimum:"2" maximum:"1"`
		}{}, []string{".F: maximum: 1 is outside 2…"}},
		{struct {
			F uint8 `maximum:"256"`
		}{}, []string{".F: maximum: 256 is outside 0…255"}},
		{struct {
			F uint `minimum:"-1"`
		}{}, []string{".F: minimum: -1 is outside 0…"}},

		// Forms that would be empty, or ask for what nobody is to see.
		{struct{ name string }{}, []string{"struct { name string } has no field that a form can show: export one"}},
		{struct {
			F string `json:"-"`
		}{}, []string{"has no field that a form can show"}},
		{struct {
			F string
			g string `title:"G"`
		}{}, []string{".g: has the tag title, but nothing fills an unexported field: export it"}},
		{struct{ Password string }{}, []string{".Password: a form must not ask for a secret"}},
		{struct {
			F string `title:"Your API key"`
		}{}, []string{".F: a form must not ask for a secret", "askback.ElicitURL"}},
		{struct {
			F string `json:"access_token,omitempty"`
		}{}, []string{".F: a form must not ask for a secret"}},
		{struct{ CVV int }{}, []string{".CVV: a form must not ask for a secret"}},

		// Enums.
		{struct {
			F string `enum:"a,b,c"`
		}{}, []string{`.F: enum: "a,b,c" is a single value; write a|b|c`}},
		{struct {
			F []string `enum:"a;b"`
		}{}, []string{`.F: enum: "a;b" is a single value`}},
		{struct {
			F string `jsonschema:"required"`
		}{}, []string{".F: jsonschema: is the description"}},
		{struct {
			F string `enum:""`
		}{}, []string{".F: enum:"}},
		{struct {
			F string `enum:"a||b"`
		}{}, []string{`.F: enum: "" is empty`}},
		{struct {
			F string `enum:"a | b"`
		}{}, []string{`.F: enum: "a " is empty or has space around it; write a|b|c`}},
		{struct {
			F string `enum:"a="`
		}{}, []string{`.F: enum: "a=" is empty`}},
		{struct {
			F string `enum:"a=A|b"`
		}{}, []string{`.F: enum: "b": give all values a title or none`}},
		{struct {
			F []string `enum:"a|b=B"`
		}{}, []string{`.F: enum: "b=B": give all values a title or none`}},
		{struct {
			F string `enum:"a|a"`
		}{}, []string{`.F: enum: has the value "a" twice`}},
		{struct {
			F []string `enum:"a=A|a=B"`
		}{}, []string{`.F: enum: has the value "a" twice`}},

		// Defaults.
		{struct {
			F string `enum:"a|b" default:"c"`
		}{}, []string{".F: default: must be one of a, b"}},
		{struct {
			F []string `enum:"a|b" default:"a|c"`
		}{}, []string{".F: default: must hold nothing but a, b"}},
		{struct {
			F []string `enum:"a|b" minItems:"1" default:""`
		}{}, []string{".F: default: must hold at least 1 item"}},
		{struct {
			F bool `default:"yes"`
		}{}, []string{`.F: default: "yes" does not fit the type "boolean"`}},
		{struct {
			F bool `default:"null"`
		}{}, []string{".F: default: must be true or false"}},
		{struct {
			F int `default:"1.5"`
		}{}, []string{".F: default: must be a whole number"}},
		{struct {
			F int `default:"true"`
		}{}, []string{".F: default: must be a whole number"}},
		{struct {
			F int `default:""`
		}{}, []string{".F: default:"}},
		{struct {
			F int8 `default:"128"`
		}{}, []string{".F: default: must be at most 127"}},
		{struct {
			F float32 `default:"1e39"`
		}{}, []string{".F: default: must be at most 3.4028235e+38"}},
		{struct {
			F string `minLength:"2" default:"a"`
		}{}, []string{".F: default: must be at least 2 characters long"}},
		{struct {
			F string `format:"email" default:"a"`
		}{}, []string{".F: default: must be an email address"}},
		{struct {
			F time.Time `default:"today"`
		}{}, []string{".F: default: must be a date and time"}},
	} {
		typ, ok := test.form.(reflect.Type)
		if !ok {
			typ = reflect.TypeOf(test.form)
		}
		_, err := For(typ)
		if err == nil {
			t.Errorf("%v: no error, want %q", typ, test.want)
			continue
		}
		for _, part := range test.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v:\n got %v\nwant %s", typ, err, part)
			}
		}
	}
	if _, err := For(nil); err == nil {
		t.Error("For(nil): no error")
	}
}
