package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// answers are those that were given with the command. Each is used once, those of one key in their order: a server that
// does not take an answer must not get it again and again.
type answers struct {
	mu     sync.Mutex
	byKey  map[string][]answer
	unused []string // keys of --answer
}

type answer struct {
	text string
	from string // "--answer" or "--answers"
}

// parseAnswers reads --answer KEY=JSON and the object of --answers, of which the former take precedence.
func parseAnswers(flags []string, file []byte) (*answers, error) {
	a := &answers{byKey: make(map[string][]answer)}
	for _, flag := range flags {
		key, text, ok := strings.Cut(flag, "=")
		if !ok || key == "" {
			return nil, usagef("--answer %s: want KEY=JSON, such as --answer who='{\"name\":\"octocat\"}'", flag)
		}
		a.byKey[key] = append(a.byKey[key], answer{text, "--answer"})
		if !slices.Contains(a.unused, key) {
			a.unused = append(a.unused, key)
		}
	}
	if file == nil {
		return a, nil
	}
	err := strictjson.Check(file, 64)
	if err == nil && strictjson.TypeOf(file) != strictjson.TypeObject {
		err = errors.New("it is no object")
	}
	if err != nil {
		return nil, usagef("--answers: want a JSON object with an answer for each key: %w", err)
	}
	return a, strictjson.Members(file, func(name, value []byte) error {
		if _, given := a.byKey[string(name)]; !given {
			a.byKey[string(name)] = []answer{{string(value), "--answers"}}
		}
		return nil
	})
}

func (a *answers) has(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byKey[a.given(key)]) > 0
}

// given is the key whose answers are for a question: where an author asks again under a key, Askback's servers may
// send the key with a suffix.
func (a *answers) given(key string) string {
	if at := strings.LastIndexByte(key, '#'); at > 0 && len(a.byKey[key]) == 0 {
		return key[:at]
	}
	return key
}

func (a *answers) take(key string) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key = a.given(key)
	left := a.byKey[key]
	if len(left) == 0 {
		return answer{}, false
	}
	a.byKey[key] = left[1:]
	a.unused = slices.DeleteFunc(a.unused, func(k string) bool { return k == key })
	return left[0], true
}

// neverAsked are the keys of --answer that no question had.
func (a *answers) neverAsked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.unused)
}

// unfitError says that an answer that was given does not answer its question.
type unfitError struct {
	question *client.Question
	from     string
	problem  error
}

func (e *unfitError) Error() string {
	text := fmt.Sprintf("the answer to %q, given with %s, does not fit: %v", e.question.Key, e.from, e.problem)
	if e.question.URL != "" || e.question.Schema == nil {
		return text
	}
	return text + "\n\n" + describe(e.question)
}

func (e *unfitError) Unwrap() error { return e.problem }

// elicit reads the answer to a form or a page: its content, a whole result, or only an action.
func (a answer) elicit(q *client.Question) (*mcp.ElicitResult, error) {
	res, err := a.parseElicit(q)
	if err == nil && res.Action == "accept" && q.URL == "" {
		err = fits(q, res)
	}
	if err != nil {
		return nil, &unfitError{q, a.from, err}
	}
	return res, nil
}

func (a answer) parseElicit(q *client.Question) (*mcp.ElicitResult, error) {
	text := []byte(strings.TrimSpace(a.text))
	if action := strings.Trim(string(text), `"`); isAction(action) {
		return &mcp.ElicitResult{Action: action}, nil
	}
	if err := strictjson.Check(text, 64); err != nil {
		return nil, fmt.Errorf("it is neither JSON nor one of accept, decline and cancel: %w", err)
	}
	if strictjson.TypeOf(text) != strictjson.TypeObject {
		return nil, errors.New("want a JSON object, or one of accept, decline and cancel")
	}
	content := text
	res := &mcp.ElicitResult{Action: "accept"}
	if action, _ := strictjson.String(strictjson.Get(text, "action")); isAction(action) && !asksFor(q, "action") {
		res.Action, content = action, strictjson.Get(text, "content")
	} else if q.URL != "" {
		return nil, errors.New("a page is answered with one of accept, decline and cancel")
	}
	if content == nil || res.Action != "accept" {
		return res, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber() // so that no number loses digits
	if err := decoder.Decode(&res.Content); err != nil {
		return nil, errors.New("the content is not a JSON object")
	}
	return res, nil
}

func isAction(s string) bool { return s == "accept" || s == "decline" || s == "cancel" }

// asksFor reports whether a form has this field: then an answer with it is the form's content.
func asksFor(q *client.Question, field string) bool {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(q.Schema, &schema) != nil {
		return false
	}
	_, ok := schema.Properties[field]
	return ok
}

// fits checks an answer before package client does, which has no schema in its error.
func fits(q *client.Question, res *mcp.ElicitResult) error {
	schema, err := form.Parse(q.Schema)
	if err != nil {
		return nil // a form beyond the specification is left to the server
	}
	content, err := json.Marshal(res.Content)
	if err == nil {
		_, err = schema.Check(content)
	}
	return err
}

// sample reads the answer to sampling: a text, as it is or as JSON, or a whole result.
func (a answer) sample(q *client.Question) (*mcp.CreateMessageWithToolsResult, error) {
	res, err := parseSample(a.text, "askback")
	if err != nil {
		return nil, &unfitError{q, a.from, err}
	}
	return res, nil
}

func parseSample(text, model string) (*mcp.CreateMessageWithToolsResult, error) {
	raw := []byte(strings.TrimSpace(text))
	res := &mcp.CreateMessageWithToolsResult{}
	if strictjson.Check(raw, 64) == nil {
		if said, ok := strictjson.String(raw); ok {
			text = said
		} else if strictjson.Get(raw, "content") != nil {
			if err := json.Unmarshal(raw, res); err != nil {
				return nil, fmt.Errorf("it is not a sampling result: %w", err)
			}
		}
	}
	if res.Content == nil {
		res.Content, res.StopReason = []mcp.Content{&mcp.TextContent{Text: text}}, "endTurn"
	}
	if res.Role == "" {
		res.Role = "assistant"
	}
	if res.Model == "" {
		res.Model = model
	}
	return res, nil
}

// missingError says which answers were not given. It exits with exitWaits.
type missingError struct {
	target    string // the tool, prompt or resource
	questions []*client.Question
	session   string // the protocol's revision, if questions of a session are missing
}

func (e *missingError) Error() string {
	var b strings.Builder
	if len(e.questions) == 1 {
		fmt.Fprintf(&b, "%s asks, and no answer was given:\n", e.target)
	} else {
		fmt.Fprintf(&b, "%s asks, and %d answers were not given:\n", e.target, len(e.questions))
	}
	for _, q := range e.questions {
		fmt.Fprintf(&b, "\n%s", describe(q))
	}
	if e.session != "" {
		fmt.Fprintf(&b, "\nIn sessions of revision %s calls cannot be parked. A question whose server gives\nit no key has its method for one: answer such in the order of asking.", e.session)
		return b.String()
	}
	b.WriteString("\nGive --answer as above, or --park FILE to go on later with 'askback resume FILE'.")
	return b.String()
}

// describe shows a question, and how it is answered.
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
		fmt.Fprintf(&b, "    The text of a model is asked for, to go on from:\n\n%s\n", indented(q.Params, "    "))
	}
	fmt.Fprintf(&b, "\n    --answer %s=%s\n", harmless(foreignQuote(q.Key)), harmless(example))
	return b.String()
}

// indented is JSON of a server that can be shown.
func indented(raw json.RawMessage, indent string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, indent, "  "); err != nil {
		return indent + harmlessLine(string(raw), 2000)
	}
	return indent + inert(b.Bytes())
}

// sampleContent is a content of the form that shows what one looks like.
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

// compact is JSON in one line, with every character as itself.
func compact(v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(v) != nil {
		return "…"
	}
	return strings.TrimSpace(b.String())
}
