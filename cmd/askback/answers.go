package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// answers are the answers of --answer and --answers by the key of their question. Each is used once, and those of one
// key in their order: a server that rejects an answer must not get it again.
type answers struct {
	mu     sync.Mutex
	byKey  map[string][]answer
	unused []string // the keys of --answer that no question had yet
}

type answer struct {
	text string
	from string // "--answer" or "--answers"
}

// parseAnswers reads the values of --answer and the object of --answers. Where both have a key, --answer counts.
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
	if err := checkObject(file); err != nil {
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

// given returns the key under which the answers to a question are stored. Askback's servers add a suffix to the key of a
// question that is asked again.
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

// neverAsked returns the keys of --answer that no question had.
func (a *answers) neverAsked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.unused)
}

// unfit returns the error of an answer of the flags that does not fit its question.
func (a answer) unfit(q *client.Question, problem error) error {
	form := ""
	if q.URL == "" && q.Schema != nil {
		form = "\n\n" + describe(q)
	}
	return usagef("the answer to %q, given with %s, does not fit: %w%s", q.Key, a.from, problem, form)
}

// elicit reads the answer to a form or a page: its content, a whole result, or an action alone.
func (a answer) elicit(q *client.Question) (*mcp.ElicitResult, error) {
	res, err := a.parseElicit(q)
	if err == nil && res.Action == "accept" && q.URL == "" {
		err = checkContent(q, res)
	}
	if err != nil {
		return nil, a.unfit(q, err)
	}
	return res, nil
}

func (a answer) parseElicit(q *client.Question) (*mcp.ElicitResult, error) {
	text := []byte(strings.TrimSpace(a.text))
	if action := strings.Trim(string(text), `"`); isAction(action) {
		return &mcp.ElicitResult{Action: action}, nil
	}
	if err := strictjson.Check(text, maxDepth); err != nil {
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
	decoder.UseNumber() // a float64 would lose digits
	if err := decoder.Decode(&res.Content); err != nil {
		return nil, errors.New("the content is not a JSON object")
	}
	return res, nil
}

func isAction(s string) bool { return s == "accept" || s == "decline" || s == "cancel" }

// asksFor reports whether a form has the field. An answer with that member is then the form's content.
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

// checkContent checks an answer against the form. Package client checks it too, but its error does not show the form.
func checkContent(q *client.Question, res *mcp.ElicitResult) error {
	schema, err := form.Parse(q.Schema)
	if err != nil {
		return nil // the server judges a form that the specification does not allow
	}
	content, err := json.Marshal(res.Content)
	if err == nil {
		_, err = schema.Check(content)
	}
	return err
}

// sample reads the answer to a sampling request: a text, plain or as JSON, or a whole result.
func (a answer) sample(q *client.Question) (*mcp.CreateMessageWithToolsResult, error) {
	res, err := parseSample(a.text, "askback")
	if err != nil {
		err = a.unfit(q, err)
	}
	return res, err
}

func parseSample(text, model string) (*mcp.CreateMessageWithToolsResult, error) {
	raw := []byte(strings.TrimSpace(text))
	res := &mcp.CreateMessageWithToolsResult{}
	if strictjson.Check(raw, maxDepth) == nil {
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
	res.Role, res.Model = cmp.Or(res.Role, "assistant"), cmp.Or(res.Model, model)
	return res, nil
}
