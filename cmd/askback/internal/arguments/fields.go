package arguments

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// wanted describes what a schema wants of a value: its type, or the limit that the value does not keep. It is empty if
// the value has the type and keeps the limits.
func wanted(s *jsonschema.Schema, value any) string {
	text := ""
	if len(s.Enum) > 0 || s.Const != nil {
		text = cli.Compact(value)
	}
	is := func(other any) bool { return cli.Compact(other) == text }
	number, isNumber := value.(float64)
	types := typesOf(s)
	fits := types == nil || slices.Contains(types, typeOf(value)) ||
		isNumber && number == math.Trunc(number) && slices.Contains(types, "integer")
	switch {
	case !fits, len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, is):
		return kindOf(s)
	case s.Const != nil && !is(*s.Const):
		return cli.Compact(*s.Const)
	}
	for _, l := range limitsOf(s, value) {
		if l.broken {
			return l.text
		}
	}
	return ""
}

// limit is a limit that a schema sets.
type limit struct {
	text   string // such as "at least 18"
	broken bool   // a value does not keep it
}

// limitsOf returns the limits of a schema, and whether a value of its type keeps them.
func limitsOf(s *jsonschema.Schema, value any) []limit {
	var all []limit
	number, isNumber := value.(float64)
	bound := func(b *float64, words string, broken func(b float64) bool) {
		if b != nil {
			all = append(all, limit{words + " " + strconv.FormatFloat(*b, 'f', -1, 64), isNumber && broken(*b)})
		}
	}
	bound(s.Minimum, "at least", func(b float64) bool { return number < b })
	bound(s.Maximum, "at most", func(b float64) bool { return number > b })
	bound(s.ExclusiveMinimum, "more than", func(b float64) bool { return number <= b })
	bound(s.ExclusiveMaximum, "less than", func(b float64) bool { return number >= b })
	bound(s.MultipleOf, "a multiple of", func(b float64) bool { return math.Mod(number, b) != 0 })

	size := func(low, high *int, thing string, n int, has bool) {
		if low != nil {
			all = append(all, limit{"at least " + counted(*low, thing), has && n < *low})
		}
		if high != nil {
			all = append(all, limit{"at most " + counted(*high, thing), has && n > *high})
		}
	}
	text, isText := value.(string)
	size(s.MinLength, s.MaxLength, "character", utf8.RuneCountInString(text), isText)
	list, isList := value.([]any)
	size(s.MinItems, s.MaxItems, "item", len(list), isList)
	return all
}

func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// brief shows a value on one line.
func brief(value any) string { return cli.HarmlessLine(cli.Compact(value), 60) }

// kindOf describes the type of a value to people.
func kindOf(s *jsonschema.Schema) string {
	if choices := choicesOf(s); choices != nil {
		return "one of " + strings.Join(choices, ", ")
	}
	var kinds []string
	names := map[string]string{
		"string": cmp.Or(stringFormats[s.Format], "a string"), "integer": "an integer", "number": "a number",
		"boolean": "true or false", "object": "a JSON object", "array": "a JSON array", "null": "null",
	}
	for _, t := range typesOf(s) {
		kinds = append(kinds, cmp.Or(names[t], t))
	}
	if s.Items != nil && len(kinds) == 1 {
		if choices := choicesOf(s.Items); choices != nil {
			kinds[0] = "a JSON array with any of " + strings.Join(choices, ", ")
		} else if of := typesOf(s.Items); len(of) == 1 {
			kinds[0] = "a JSON array of " + of[0] + "s"
		}
	}
	return strings.Join(kinds, " or ")
}

var stringFormats = map[string]string{
	"email":     "an email address",
	"uri":       "a URI",
	"date":      "a date such as 2026-01-31",
	"date-time": "a date and time such as 2026-01-31T14:30:00Z",
}

// choicesOf returns the values that a schema allows, with their titles, or nil if it does not list them.
func choicesOf(s *jsonschema.Schema) []string {
	var choices []string
	for _, value := range s.Enum {
		choices = append(choices, cli.Compact(value))
	}
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		if one.Const == nil {
			return nil
		}
		text := cli.Compact(*one.Const)
		if one.Title != "" && *one.Const != any(one.Title) {
			text += " (" + one.Title + ")"
		}
		choices = append(choices, text)
	}
	return choices
}

// List describes the arguments, the required ones first.
func (s *Schema) List() string {
	switch {
	case len(s.Properties) == 0 && s.open():
		return "    any arguments\n"
	case len(s.Properties) == 0:
		return "    no arguments\n"
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	order := make(map[string]int)
	for i, name := range s.Required {
		order[name] = i - len(s.Required)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(order[a], order[b]) })
	return s.rows(names)
}

// FormRows describes each field of a form on a line, in the form's order. A schema that is no form is shown as it is.
func FormRows(raw json.RawMessage) string {
	form, err := foreign.ReadSchema(raw)
	if err != nil {
		return "    " + cli.IndentedRaw(raw) + "\n"
	}
	s := newInputSchema(form.Schema, raw)
	var names []string
	for name := range strictjson.Members(strictjson.Get(raw, "properties")) {
		names = append(names, string(name))
	}
	switch {
	case form.Refers(), slices.ContainsFunc(names, func(name string) bool { return !isField(s.property(name)) }):
		return "    " + cli.IndentedRaw(raw) + "\n"
	case names == nil:
		return "    no fields\n"
	}
	return s.rows(names)
}

// isField reports whether a schema allows values that a form may ask for.
func isField(s *jsonschema.Schema) bool {
	types := typesOf(s)
	return len(types) == 1 && types[0] != "object" && types[0] != "null" && (types[0] != "array" || s.Items != nil)
}

// rows describes each of the named properties on a line.
func (s *Schema) rows(names []string) string {
	width := 0
	for _, name := range names {
		width = max(width, min(utf8.RuneCountInString(cli.HarmlessLine(name, 200)), 24))
	}
	var b strings.Builder
	for _, name := range names {
		p := s.property(name)
		terms := []string{kindOf(p)}
		for _, l := range limitsOf(p, nil) {
			terms = append(terms, l.text)
		}
		if p.Default != nil {
			terms = append(terms, "default "+string(p.Default))
		}
		if s.required[name] {
			terms = append(terms, "required")
		}
		text := strings.Join(terms, ", ")
		if about := cmp.Or(cmp.Or(s.Properties[name], p).Description, p.Description, p.Title); about != "" {
			text += ": " + about
		}
		text = strings.TrimPrefix(strings.TrimPrefix(text, ", "), ": ") // of an argument of any kind
		indent := strings.Repeat(" ", 4+width+2)
		fmt.Fprintf(&b, "    %-*s  %s\n", width, cli.HarmlessLine(name, 200),
			strings.TrimSpace(cli.Wrap(cli.HarmlessLine(text, 2000), indent)))
	}
	return b.String()
}
