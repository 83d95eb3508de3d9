package askbacktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/askback-mcp/askback/internal/question"
)

// difference describes the first difference of two replies, or returns "". Their states always differ, because each is
// sealed anew, and are left out.
func difference(first, second *reply) string {
	switch {
	case first.Error != nil && second.Error != nil:
		return compare("error", decode(first.Error), decode(second.Error))
	case first.asks() && second.asks():
		return differentQuestions(first.outcome.Requests, second.outcome.Requests)
	case first.Error != nil, second.Error != nil, first.outcome.Type != second.outcome.Type:
		return first.String() + " → " + second.String()
	}
	return compare("result", first.content(), second.content())
}

// content is the result as a client reads it, without the state and its expiry.
func (r *reply) content() any {
	content := decode(r.Result)
	if result, ok := content.(map[string]any); ok {
		delete(result, "requestState")
		if meta, ok := result["_meta"].(map[string]any); ok {
			delete(meta, "io.github.askback-mcp/expires")
		}
	}
	return content
}

// String says in a few words what the reply is.
func (r *reply) String() string {
	switch {
	case r.Error != nil:
		return fmt.Sprintf("error %d (%q)", r.Error.Code, cut(r.Error.Message))
	case r.inputRequired():
		return questions(r.outcome.Requests, slices.Sorted(maps.Keys(r.outcome.Requests)))
	}
	var tool struct{ Content []struct{ Text string } }
	if json.Unmarshal(r.Result, &tool) == nil && len(tool.Content) > 0 {
		return fmt.Sprintf("result (%q)", cut(tool.Content[0].Text))
	}
	return "result"
}

func differentQuestions(first, second map[string]json.RawMessage) string {
	missing, added := without(first, second), without(second, first)
	if len(missing) > 0 && len(added) > 0 && authorKey(missing[0]) == authorKey(added[0]) {
		return compareQuestions(authorKey(missing[0]), first[missing[0]], second[added[0]])
	}
	if len(missing) > 0 || len(added) > 0 {
		return questions(first, missing) + " → " + questions(second, added)
	}
	for _, key := range slices.Sorted(maps.Keys(first)) {
		if diff := compareQuestions(key, first[key], second[key]); diff != "" {
			return diff
		}
	}
	return ""
}

func compareQuestions(key string, first, second json.RawMessage) string {
	diff := compare("", asked(first), asked(second))
	if diff == "" {
		return ""
	}
	return fmt.Sprintf("question %q: %s", key, strings.TrimPrefix(diff, "params."))
}

// without returns the sorted keys of a that are not in b.
func without(a, b map[string]json.RawMessage) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(key string) bool { _, ok := b[key]; return ok })
}

// questions names the first of the questions under keys.
func questions(requests map[string]json.RawMessage, keys []string) string {
	if len(keys) == 0 {
		return "no question"
	}
	text := fmt.Sprintf("question %q", authorKey(keys[0]))
	if m := message(requests[keys[0]]); m != "" {
		text += fmt.Sprintf(" (%q)", cut(m))
	}
	return text
}

// authorKey returns the key that a handler gave to the question with a wire key: what follows # tells two questions of
// one key apart.
func authorKey(wire string) string {
	if at := strings.LastIndexByte(wire, '#'); at > 0 {
		return wire[:at]
	}
	return wire
}

// message returns the message of an elicitation as its handler gave it, or "".
func message(request json.RawMessage) string {
	var q struct{ Params json.RawMessage }
	_ = json.Unmarshal(request, &q)
	return question.Asked(messageOf(q.Params))
}

// messageOf returns the message of an elicitation with params as it was sent, or "".
func messageOf(params json.RawMessage) string {
	var p struct{ Message string }
	_ = json.Unmarshal(params, &p)
	return p.Message
}

// asked decodes a question as its handler asked it: without the reason why it is asked again.
func asked(request json.RawMessage) any {
	decoded := decode(request)
	if q, ok := decoded.(map[string]any); ok {
		if params, ok := q["params"].(map[string]any); ok && params["message"] != nil {
			params["message"] = message(request)
		}
	}
	return decoded
}

// decode returns v, which encodes to JSON, as maps, slices and plain values.
func decode(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var decoded any
	if err := d.Decode(&decoded); err != nil {
		return err.Error()
	}
	return decoded
}

// compare describes the first difference of two JSON values, or returns "".
func compare(path string, a, b any) string {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return compareMembers(path, x, y)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return compareElements(path, x, y)
		}
	case string:
		if y, ok := b.(string); ok && x != y {
			x, y = apart(x, y)
			return fmt.Sprintf("%s: %q → %q", path, x, y)
		}
	}
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return fmt.Sprintf("%s: %s → %s", path, value(a), value(b))
}

func compareMembers(path string, x, y map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(x)) {
		if diff := compare(join(path, key), x[key], y[key]); diff != "" {
			return diff
		}
	}
	for _, key := range slices.Sorted(maps.Keys(y)) {
		if _, ok := x[key]; !ok {
			return compare(join(path, key), nil, y[key])
		}
	}
	return ""
}

func compareElements(path string, x, y []any) string {
	for i := range min(len(x), len(y)) {
		if diff := compare(path+"["+strconv.Itoa(i)+"]", x[i], y[i]); diff != "" {
			return diff
		}
	}
	if len(x) != len(y) {
		return fmt.Sprintf("%s: %d elements → %d", path, len(x), len(y))
	}
	return ""
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func value(v any) string {
	if v == nil {
		return "nothing"
	}
	data, _ := json.Marshal(v)
	return cut(string(data))
}

// apart shortens two different strings to where they differ first.
func apart(a, b string) (string, string) {
	const before = 10 // characters that both have
	x, y := []rune(a), []rune(b)
	same := 0
	for same < min(len(x), len(y)) && x[same] == y[same] {
		same++
	}
	if skip := same - before; skip > 0 {
		return "…" + cut(string(x[skip:])), "…" + cut(string(y[skip:]))
	}
	return cut(a), cut(b)
}

// cut shortens a text to what fits beside others on a line.
func cut(s string) string {
	const most = 60 // characters
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
