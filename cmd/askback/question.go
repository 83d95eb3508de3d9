package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/client"
)

// The methods of input requests.
const sampling, elicitation = "sampling/createMessage", "elicitation/create"

func questions(list []*client.Question) string {
	var texts []string
	for _, q := range list {
		kind := map[string]string{sampling: "sampling", "roots/list": "roots", elicitation: "form"}[q.Method]
		if q.URL != "" {
			kind = "page"
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", harmlessLine(q.Key, 60), kind))
	}
	return strings.Join(texts, ", ")
}

func keys(list []string) string {
	var texts []string
	for _, key := range list {
		texts = append(texts, harmlessLine(key, 60))
	}
	return strings.Join(texts, ", ")
}

// describe shows a question and how to answer it.
func describe(q *client.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s\n", harmlessLine(q.Key, 200))
	example := "'the text'"
	switch {
	case q.URL != "":
		b.WriteString(wrap(harmless(q.Message), "    "))
		fmt.Fprintf(&b, "    The page: %s\n", harmlessLine(q.URL, 2000))
		example = "accept"
	case q.Schema != nil:
		b.WriteString(wrap(harmless(q.Message), "    "))
		b.WriteString("\n" + indented(q.Schema, "    ") + "\n")
		example = shellQuote(sampleContent(q.Schema))
	default:
		fmt.Fprintf(&b, "    The server asks for a model's completion of:\n\n%s\n", indented(q.Params, "    "))
	}
	fmt.Fprintf(&b, "\n    --answer %s=%s\n", harmless(foreignQuote(q.Key)), harmless(example))
	return b.String()
}

// indented formats a server's JSON for people.
func indented(raw json.RawMessage, indent string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, indent, "  "); err != nil {
		return indent + harmlessLine(string(raw), 2000)
	}
	return indent + inert(b.Bytes())
}

// sampleContent makes an example of a form's content.
func sampleContent(schema json.RawMessage) string {
	var top jsonschema.Schema
	if json.Unmarshal(schema, &top) != nil {
		return "{…}"
	}
	first := func(s *jsonschema.Schema) any {
		if len(s.Enum) > 0 {
			return s.Enum[0]
		}
		for _, option := range slices.Concat(s.OneOf, s.AnyOf) {
			if option != nil && option.Const != nil {
				return *option.Const
			}
		}
		return "…"
	}
	names := top.Required
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(top.Properties))
	}
	var members []string
	for _, name := range names {
		p := cmp.Or(top.Properties[name], &jsonschema.Schema{})
		var value any
		switch {
		case p.Default != nil:
			value = p.Default
		case p.Type == "integer" || p.Type == "number":
			value = 1
		case p.Type == "boolean":
			value = true
		case p.Type == "array":
			value = []any{first(cmp.Or(p.Items, &jsonschema.Schema{}))}
		default:
			value = first(p)
		}
		members = append(members, compact(name)+":"+compact(value))
	}
	return "{" + strings.Join(members, ",") + "}"
}
