package form

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A plain form asks for numbers and multiple choices as text, and says what to write.
func TestPlain(t *testing.T) {
	type note struct {
		Text string `json:"text"`
	}
	type choices struct {
		Tags []string `json:"tags,omitempty" enum:"ui=Interface|net=Network" minItems:"1" maxItems:"2" default:"ui|net"`
	}
	type numbers struct {
		Size  int      `json:"size" minimum:"18" maximum:"99" default:"20" title:"Size" jsonschema:"in centimetres."`
		Price *float64 `json:"price"`
	}
	type others struct {
		Note string   `json:"note" maxLength:"9"`
		Odd  []string `json:"odd" enum:"a,b|c"`
		Kind string   `json:"kind" enum:"a|b"`
		Now  bool     `json:"now"`
	}
	for _, test := range []struct {
		of   reflect.Type
		want string // empty: the form stays as it is
	}{
		{reflect.TypeFor[numbers](), `{"type":"object","properties":{` +
			`"size":{"type":"string","title":"Size","description":"in centimetres. A whole number, at least 18, at most 99.",` +
			`"default":"20"},` +
			`"price":{"type":"string","description":"A number."}},"required":["size"]}`},
		{reflect.TypeFor[choices](), `{"type":"object","properties":{` +
			`"tags":{"type":"string","description":"Any of ui (Interface), net (Network), separated by commas, at least 1 of ` +
			`them, at most 2 of them.","default":"ui, net"}}}`},
		{reflect.TypeFor[others](), ""},
		{reflect.TypeFor[note](), ""},
	} {
		schema := expect.Must(For(test.of))(t)
		if got := string(schema.Plain()); got != test.want {
			t.Errorf("%v becomes\n%s\nwant\n%s", test.of, got, test.want)
		}
	}
}

// Text stands for a number or for choices, or for nothing, which Check refuses with a reason.
func TestFromPlain(t *testing.T) {
	type order struct {
		Size int      `json:"size" minimum:"18"`
		Tags []string `json:"tags,omitempty" enum:"ui|net" minItems:"1"`
		Note string   `json:"note,omitempty"`
	}
	schema := expect.Must(For(reflect.TypeFor[order]()))(t)
	for content, want := range map[string]string{
		`{"size":"20"}`:                              `{"size":20}`,
		`{"size":" +20 ","note":"7"}`:                `{"size":20,"note":"7"}`,
		`{"size":"2e1","tags":"ui"}`:                 `{"size":20,"tags":["ui"]}`,
		`{"size":20,"tags":" net , ui,"}`:            `{"size":20,"tags":["net","ui"]}`,
		`{"size":"17"}`:                              "size: must be at least 18",
		`{"size":"20.5"}`:                            "size: must be a whole number",
		`{"size":"twenty"}`:                          "nothing",
		`{"size":"0x14"}`:                            "nothing",
		`{"size":"20 21"}`:                           "nothing",
		`{"size":"[20]"}`:                            "nothing",
		`{"size":""}`:                                "size: is required",
		`{"size":"20","tags":""}`:                    "tags: must hold at least 1 item",
		`{"size":"20","tags":"ui,other"}`:            "tags: must hold nothing but ui, net",
		`{"size":"20","tags":"\",\"x"}`:              "tags: must hold nothing but ui, net",
		`{"size":20,"note":"7"}`:                     "nothing",
		`{"size":"20","size":"21"}`:                  "nothing",
		`["20"]`:                                     "nothing",
		`{"size":"` + strings.Repeat("9", 5000):      "nothing",
		`{"size":"` + strings.Repeat("9", 30) + `"}`: "size: must be at most 9223372036854775807",
	} {
		converted, found := schema.FromPlain([]byte(content))
		got := "nothing"
		if found {
			clean, err := schema.Check(converted)
			if got = string(clean); err != nil {
				got = err.Error()
			}
		}
		if got != want {
			t.Errorf("%.60s stands for %s, want %s", content, got, want)
		}
	}
}

// The answer to a plain form is the same as that to the form itself.
func TestPlainLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ, draw := drawForm(t, allFields)
		schema, err := infer(typ)
		if err != nil {
			t.Fatal(err)
		}
		sent := schema.Plain()
		if sent == nil {
			return
		}
		plain, err := Parse(sent)
		if err != nil {
			t.Fatalf("%s: %v", sent, err)
		}
		content, err := json.Marshal(draw(t).Interface())
		if err != nil {
			t.Fatal(err)
		}
		want, err := schema.Check(content)
		if err != nil {
			return // an optional choice that is empty
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(content, &members); err != nil {
			t.Fatal(err)
		}
		texts := make(map[string]any)
		for name, value := range members {
			texts[name] = value
			p := plain.Properties()[plain.index[name]]
			if p.Type != "string" || value[0] == '"' || string(value) == "null" {
				continue
			}
			texts[name] = string(value)
			var values []string
			if value[0] == '[' {
				if err := json.Unmarshal(value, &values); err != nil {
					t.Fatal(err)
				}
				texts[name] = strings.Join(values, " , ")
			}
		}
		answer, err := json.Marshal(texts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := plain.Check(answer); err != nil {
			t.Fatalf("%s does not fit %s: %v", answer, sent, err)
		}
		converted, _ := schema.FromPlain(answer)
		got, err := schema.Check(converted)
		if err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		one, other := reflect.New(typ), reflect.New(typ)
		if err := errors.Join(json.Unmarshal(want, one.Interface()), json.Unmarshal(got, other.Interface())); err != nil ||
			!reflect.DeepEqual(one.Interface(), other.Interface()) {
			t.Fatalf("%s is %s (%v), want %s", answer, got, err, want)
		}
	})
}
