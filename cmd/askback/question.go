package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	type option struct {
		Const string `json:"const"`
	}
	type property struct {
		Type    string          `json:"type"`
		Enum    []string        `json:"enum"`
		OneOf   []option        `json:"oneOf"`
		Default json.RawMessage `json:"default"`
		Items   struct {
			Enum  []string `json:"enum"`
			AnyOf []option `json:"anyOf"`
		} `json:"items"`
	}
	var top struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if json.Unmarshal(schema, &top) != nil {
		return "{…}"
	}
	first := func(enum []string, options []option) string {
		if len(enum) > 0 {
			return enum[0]
		}
		if len(options) > 0 {
			return options[0].Const
		}
		return "…"
	}
	names := top.Required
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(top.Properties))
	}
	var members []string
	for _, name := range names {
		p := top.Properties[name]
		var value any
		switch {
		case p.Default != nil:
			value = p.Default
		case p.Type == "integer" || p.Type == "number":
			value = 1
		case p.Type == "boolean":
			value = true
		case p.Type == "array":
			value = []string{first(p.Items.Enum, p.Items.AnyOf)}
		default:
			value = first(p.Enum, p.OneOf)
		}
		members = append(members, compact(name)+":"+compact(value))
	}
	return "{" + strings.Join(members, ",") + "}"
}
