package form

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tags"
)

// Tags are those that refine a field of a form.
var Tags = []string{
	"json", "jsonschema", "title", "enum", "format", "minLength", "maxLength", "minimum", "maximum", "minItems",
	"maxItems", "default",
}

// notTags are words for which a form has no tag, although other packages or JSON Schema have.
var notTags = []string{
	"pattern", "min", "max", "len", "minLen", "maxLen", "description", "required", "const", "multipleOf",
	"exclusiveMinimum", "exclusiveMaximum",
	"uniqueItems", "oneOf", "anyOf", "examples", "type",
}

// For returns the form of a struct type, or of a pointer to one. It infers the form once per type and caches it. An
// error names the field and the tag, and the tag to write in its place.
//
// Every exported field is a property under the name that encoding/json gives it. It is required, unless it is a
// pointer or its json tag says omitempty or omitzero. Field types:
//
//	string                 string
//	string, enum tag       single-select enum
//	[]string, enum tag     multi-select enum
//	bool                   boolean
//	int…, uint…            integer, bounded to what the type holds
//	float…, json.Number    number, bounded to what the type holds (json.Number: to what a float64 holds)
//	time.Time              string with format date-time
//
// and types defined from the basic ones, unless they unmarshal themselves. Tags:
//
//	jsonschema:"…"                      description
//	title:"…"                           title
//	enum:"a|b" or enum:"a=An A|b=A B"   values of an enum, all with a title or none
//	format:"…"                          email, uri, date or date-time
//	minLength:"…" maxLength:"…"         of a string, in Unicode code points
//	minimum:"…" maximum:"…"             of a number
//	minItems:"…" maxItems:"…"           of a multi-select enum
//	default:"…"                         for a multi-select enum: "a|b"
//
// Embedded structs are refused, because a form is flat; so is a tag that is probably one of these, misspelt. Other tags
// belong to other packages.
func For(t reflect.Type) (*Schema, error) {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("form: %v is not a struct; use a struct with a field for each property, or set "+
			"Question.Schema", t)
	}
	if known, ok := inferred.Load(t); ok {
		return known.(inference).schema, known.(inference).err
	}
	schema, err := infer(t)
	inferred.Store(t, inference{schema, err})
	return schema, err
}

var inferred sync.Map // reflect.Type → inference

type inference struct {
	schema *Schema
	err    error
}

func infer(t reflect.Type) (*Schema, error) {
	if decodesItself(t) {
		return nil, fmt.Errorf("form: %v decodes itself, so its fields do not say what its JSON has; use a plain struct "+
			"and convert, or write the schema by hand", t)
	}
	var properties []property
	var fields []string // the Go names of properties
	index := make(map[string]int)
	for f := range t.Fields() {
		p, skip, err := inferField(f)
		if err != nil {
			return nil, fmt.Errorf("form: field %v.%s: %w", t, f.Name, err)
		}
		if skip {
			continue
		}
		if i, taken := index[p.name]; taken {
			return nil, fmt.Errorf("form: field %v.%s: field %s has the JSON name %q already; rename one", t, f.Name,
				fields[i], p.name)
		}
		index[p.name] = len(properties)
		properties, fields = append(properties, p), append(fields, f.Name)
	}
	if len(properties) == 0 && t.NumField() > 0 {
		return nil, fmt.Errorf("form: %v has no field that a form can show: export one, or use struct{} for a question "+
			"that is accepted or declined", t)
	}
	return newSchema(nil, properties, index), nil
}

func inferField(f reflect.StructField) (p property, skip bool, err error) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if f.Tag.Get("json") == "-" {
		return p, true, nil
	}
	t, required := f.Type, true
	if t.Kind() == reflect.Pointer {
		t, required = t.Elem(), false
	}
	if f.Anonymous && t.Kind() == reflect.Struct {
		return p, false, errors.New(`a form cannot have an embedded struct: name its fields here, or leave it out with ` +
			`json:"-"`)
	}
	if !f.IsExported() {
		if key := firstOf(f.Tag, Tags); key != "" {
			return p, false, fmt.Errorf("has the tag %s, but nothing fills an unexported field: export it", key)
		}
		return p, true, nil
	}
	if err := tags.Check(f.Tag, Tags, notTags); err != nil {
		return p, false, err
	}
	switch {
	case name == "":
		name = f.Name
	case !validName(name):
		return p, false, fmt.Errorf("json: encoding/json ignores the name %q because of its punctuation; choose another",
			name)
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			required = false
		case "string":
			return p, false, errors.New("json: a form has no numbers in strings; leave out the option string")
		}
	}
	w, low, high, err := typeWords(t, f.Tag)
	if values, isEnum := f.Tag.Lookup("enum"); isEnum && err == nil {
		err = enumWords(w, t, values)
	}
	if err == nil {
		err = tagWords(w, f.Tag)
	}
	if err != nil {
		return p, false, err
	}
	if p, err = compile(name, w, low, high); err == nil && p.kind <= kindNumber &&
		AsksForSecret(name, f.Tag.Get("title"), f.Tag.Get("format")) {
		err = errors.New("a form must not ask for a secret, which its client and model may see: ask for it on a page, " +
			"with askback.ElicitURL, or give another field another name")
	}
	p.required = required
	return p, false, err
}

// firstOf returns the first of these keys that a tag has, or "".
func firstOf(tag reflect.StructTag, keys []string) string {
	for _, key := range keys {
		if _, has := tag.Lookup(key); has {
			return key
		}
	}
	return ""
}

// validName mirrors encoding/json, which ignores any other name in a tag and uses the field's name.
func validName(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return true
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	numberType = reflect.TypeFor[json.Number]()
)

func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// typeWords returns the keywords that follow from the Go type (type and format), and the bounds of a number.
func typeWords(t reflect.Type, tag reflect.StructTag) (w words, low, high bound, err error) {
	low, high = float64Low, float64High
	typ := ""
	switch {
	case t == timeType:
		for _, name := range []string{"format", "minLength", "maxLength"} {
			if value, ok := tag.Lookup(name); ok && value != "date-time" {
				err = fmt.Errorf("%s: a time.Time is always a date-time; make the field a string for %[1]s %q", name, value)
				return nil, low, high, err
			}
		}
		return words{"type": encode("string"), "format": encode("date-time")}, low, high, nil
	case t == numberType:
		typ = "number"
	case decodesItself(t):
		err = fmt.Errorf("type %v decodes itself, so a form cannot know what it accepts; use a plain type and convert", t)
	case t.Kind() == reflect.String:
		typ = "string"
	case t.Kind() == reflect.Bool:
		typ = "boolean"
	case reflect.Int <= t.Kind() && t.Kind() <= reflect.Int64:
		typ = "integer"
		low = newBound(strconv.FormatInt(-1<<(t.Bits()-1), 10))
		high = newBound(strconv.FormatInt(1<<(t.Bits()-1)-1, 10))
	case reflect.Uint <= t.Kind() && t.Kind() <= reflect.Uint64:
		typ = "integer"
		low = newBound("0")
		high = newBound(strconv.FormatUint(math.MaxUint64>>(64-t.Bits()), 10))
	case t.Kind() == reflect.Float64:
		typ = "number"
	case t.Kind() == reflect.Float32:
		typ = "number"
		high = newBound(strconv.FormatFloat(math.MaxFloat32, 'g', -1, 32))
		low = newBound("-" + high.text)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String && t.Elem() != numberType &&
		!decodesItself(t.Elem()):
		typ = "array"
		if _, isEnum := tag.Lookup("enum"); !isEnum {
			err = errors.New(`a list in a form is a multiple choice: name its values with enum:"a|b|c", or use a string ` +
				`and split it`)
		}
	default:
		err = fmt.Errorf("a form is flat and has no place for type %v: use string, bool, an integer or float type, "+
			"json.Number, time.Time or, with an enum tag, []string; ask for the rest in a second form", t)
	}
	return words{"type": encode(typ)}, low, high, err
}

// enumWords adds the keywords of an enum tag (enum, oneOf or items) to the keywords of a field of type t.
func enumWords(w words, t reflect.Type, tag string) error {
	isList := string(w["type"]) == `"array"`
	if !isList && (t.Kind() != reflect.String || t == numberType) {
		return fmt.Errorf("enum: the values of an enum are strings, and %v is not a string; use a string and convert", t)
	}
	values, titled, err := enumValues(tag)
	switch {
	case err != nil:
		return fmt.Errorf("enum: %w", err)
	case isList && titled != nil:
		w["items"] = encode(map[string]any{"anyOf": titled})
	case isList:
		w["items"] = encode(struct {
			Type string   `json:"type"`
			Enum []string `json:"enum"`
		}{"string", values})
	case titled != nil:
		w["oneOf"] = encode(titled)
	default:
		w["enum"] = encode(values)
	}
	return nil
}

// enumValues reads an enum tag. Without titles, titled is nil.
func enumValues(tag string) (values []string, titled []Option, err error) {
	for i, option := range strings.Split(tag, "|") {
		value, title, hasTitle := strings.Cut(option, "=")
		switch {
		case value == "" || hasTitle && title == "" || value != strings.TrimSpace(value) || title != strings.TrimSpace(title):
			return nil, nil, fmt.Errorf("%q is empty or has space around it; write a|b|c or a=An A|b=A B", option)
		case i > 0 && hasTitle != (titled != nil):
			return nil, nil, fmt.Errorf("%q: give all values a title or none; = separates a value from its title",
				option)
		case slices.Contains(values, value):
			return nil, nil, fmt.Errorf("has the value %q twice; keep one", value)
		case hasTitle:
			titled = append(titled, Option{value, title})
		}
		values = append(values, value)
	}
	list := func(r rune) bool { return r == ',' || r == ';' }
	if len(values) == 1 && titled == nil && len(strings.FieldsFunc(tag, list)) > 1 {
		return nil, nil, fmt.Errorf("%q is a single value; write a|b|c, or give it a title, as in a=An A", tag)
	}
	return values, titled, nil
}

// notDescription matches jsonschema tags that are no description, but in another package's syntax.
// github.com/google/jsonschema-go refuses them as well.
var notDescription = regexp.MustCompile(`^(\S*=|required$|omitempty$)`)

// tagWords adds the keywords of the remaining tags to the keywords of a field.
func tagWords(w words, tag reflect.StructTag) error {
	for _, name := range []string{
		"jsonschema", "title", "format", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "default",
	} {
		value, ok := tag.Lookup(name)
		if !ok {
			continue
		}
		word, raw := name, []byte(value)
		var err error
		switch name {
		case "jsonschema":
			word, raw = "description", encode(value)
			if notDescription.MatchString(value) {
				err = errors.New("is the description, a plain text that must not begin with WORD=; constraints have tags of " +
					"their own")
			}
		case "title", "format":
			raw = encode(value)
		case "default":
			raw, err = defaultWord(string(w["type"]), value)
		default:
			if strictjson.TypeOf(raw) != strictjson.TypeNumber || !isBare(raw) {
				err = fmt.Errorf("%q is not a number as JSON writes it", value)
			}
		}
		if value == "" && name != "default" {
			err = errors.New("is empty; leave it out")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		w[word] = raw
	}
	return nil
}

func defaultWord(typ, value string) ([]byte, error) {
	switch typ {
	case `"string"`:
		return encode(value), nil
	case `"array"`:
		if value == "" {
			return []byte("[]"), nil
		}
		return encode(strings.Split(value, "|")), nil
	}
	if !isBare([]byte(value)) {
		return nil, fmt.Errorf("%q does not fit the type %s", value, typ)
	}
	return []byte(value), nil
}

// isBare reports whether b is a JSON value without white space around it.
func isBare(b []byte) bool {
	return strictjson.Check(b, strictjson.MaxDepth) == nil && len(bytes.TrimSpace(b)) == len(b)
}

// encode returns the JSON of strings, in which <, > and & stay readable.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // strings always encode
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
