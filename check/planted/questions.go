package planted

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// A question is asked in a round of its own.
type question struct {
	key    string
	method string
	needs  map[string]any // the capabilities of a client that can be asked
	text   string         // with the earlier answers in place of %s
	params map[string]any
	fields map[string]func(any) (string, bool) // of a form: the text of a value that fits
}

func form(key, text string, properties map[string]any, fields map[string]func(any) (string, bool)) question {
	return question{key, "elicitation/create", map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
		text, map[string]any{"mode": "form", "requestedSchema": map[string]any{"type": "object",
			"properties": properties, "required": slices.Sorted(maps.Keys(fields))}}, fields}
}

const maxName = 60

func textThatFits(v any) (string, bool) {
	text, ok := v.(string)
	return text, ok && text != "" && utf8.RuneCountInString(text) <= maxName
}

func (s *questions) name() question {
	text, property := "Who are you?", "name"
	switch s.Fault {
	case "password":
		text, property = "Log in with your password.", "password"
	case "card":
		text, property = "Pay with your card.", "cardNumber"
	case "link":
		text = "Who are you? See https://example.com/help for help."
	}
	q := form("name", text, map[string]any{
		property: map[string]any{"type": "string", "minLength": 1, "maxLength": maxName}},
		map[string]func(any) (string, bool){property: textThatFits})
	if s.has("other-kind") {
		q.method = "tools/call"
	}
	return q
}

func (s *questions) guest() question {
	return form("guest", "Who is the guest?", map[string]any{
		"guest": map[string]any{"type": "string", "minLength": 1, "maxLength": maxName},
		"class": map[string]any{"type": "string", "enum": []string{"first", "second"}}},
		map[string]func(any) (string, bool){"guest": textThatFits, "class": func(v any) (string, bool) {
			class, ok := v.(string)
			return class, ok && (class == "first" || class == "second")
		}})
}

func (s *questions) confirm() question {
	return form("confirm", "Is this right: %s?", map[string]any{
		"confirm": map[string]any{"type": "boolean", "default": true},
		"seats":   map[string]any{"type": "integer", "minimum": 1, "maximum": 8, "default": 1}},
		map[string]func(any) (string, bool){"confirm": func(v any) (string, bool) {
			yes, ok := v.(bool)
			return fmt.Sprint(yes), ok
		}, "seats": func(v any) (string, bool) {
			n, ok := v.(float64)
			return fmt.Sprint(n), ok && n == float64(int(n)) && n >= 1 && n <= 8
		}})
}

func (s *questions) page() question {
	url := "https://connect.example.com/start"
	switch s.Fault {
	case "url-user":
		url = "https://alice:planted-password@connect.example.com/start"
	case "url-plain":
		url = "http://connect.example.com/start"
	}
	return question{"page", "elicitation/create", map[string]any{"elicitation": map[string]any{"url": map[string]any{}}},
		"Connect your account.", map[string]any{"mode": "url", "url": url}, nil}
}

func (s *questions) completion() question {
	return question{"completion", "sampling/createMessage", map[string]any{"sampling": map[string]any{}}, "",
		map[string]any{"maxTokens": 100, "messages": []any{map[string]any{"role": "user",
			"content": map[string]any{"type": "text", "text": "Write a summary."}}}}, nil}
}

// ask returns the question as it is sent, with the answers that came before.
func (q question) ask(answers map[string]string) map[string]any {
	params := maps.Clone(q.params)
	if q.method != "sampling/createMessage" {
		params["message"] = strings.ReplaceAll(q.text, "%s", said(answers))
	}
	return map[string]any{"method": q.method, "params": params}
}

func said(answers map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		parts = append(parts, key+" "+answers[key])
	}
	return strings.Join(parts, ", ")
}

// mayAsk returns an error if the client has not declared that it can be asked this.
func (s *questions) mayAsk(r *request, q question) error {
	declared := true
	mode, _ := q.params["mode"].(string)
	switch {
	case q.method == "sampling/createMessage":
		declared = can(r, "sampling") || s.has("undeclared-kind") && can(r, "elicitation")
	case !can(r, "elicitation", mode):
		declared = s.has("undeclared-mode") && can(r, "elicitation") || s.has("undeclared-kind") && can(r, "sampling")
	}
	capabilities, _ := r.meta["io.modelcontextprotocol/clientCapabilities"].(map[string]any)
	if declared || s.has("undeclared") && !slices.ContainsFunc([]string{"elicitation", "sampling", "roots"},
		func(name string) bool { return capabilities[name] != nil }) {
		return nil
	}
	return lacks(q.needs)
}

// The outcomes of an answer.
type outcome int

const (
	again    outcome = iota // it is missing or does not fit: the question is asked again
	accepted                // its text goes on
	refused                 // the person has declined or cancelled
)

// read returns the outcome of the answer to a question, and its text.
func (s *questions) readAnswer(q question, answers map[string]json.RawMessage) (string, outcome) {
	raw, ok := answers[q.key]
	if s.has("key-ignored") && !ok && len(answers) > 0 {
		raw, ok = answers[slices.Sorted(maps.Keys(answers))[0]], true
	}
	if !ok {
		return "nothing", map[bool]outcome{true: accepted, false: again}[s.has("missing")]
	}
	var answer struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
		Role    string          `json:"role"`
		Model   string          `json:"model"`
	}
	if json.Unmarshal(raw, &answer) != nil {
		return "", again
	}
	if q.method == "sampling/createMessage" {
		var content struct{ Type, Text string }
		if answer.Role != "assistant" || answer.Model == "" || json.Unmarshal(answer.Content, &content) != nil {
			return "", again
		}
		return content.Text, accepted
	}
	if s.has("kind-ignored") && answer.Action == "" && answer.Role != "" {
		var content struct{ Text string }
		return content.Text, map[bool]outcome{true: accepted, false: again}[json.Unmarshal(answer.Content, &content) == nil]
	}
	switch action := answer.Action; {
	case s.has("declined-default") && action == "decline" && q.key == "confirm":
		answer.Content = json.RawMessage(`{"confirm":true,"seats":1}`)
	case s.has("action-ignored"), action == "accept":
	case action == "decline" && !s.has("declined"), action == "cancel" && !s.has("cancelled"):
		return "", refused
	case action != "decline" && action != "cancel" && !s.has("action-unknown"):
		return "", again
	}
	if q.fields == nil {
		return "opened", accepted
	}
	return s.content(q, answer.Content)
}

// content returns the text of a form that fits.
func (s *questions) content(q question, raw json.RawMessage) (string, outcome) {
	var content map[string]any
	if json.Unmarshal(raw, &content) != nil {
		return "", again
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(q.fields)) {
		text, fits := q.fields[name](content[name])
		if !fits && s.has("schema-ignored") && content[name] != nil {
			text, fits = fmt.Sprint(content[name]), true
		}
		if !fits {
			return "", again
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " "), accepted
}
