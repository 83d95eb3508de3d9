package conversation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// answers are the answers of --answer and --answers by the key of their question. Each is used once, and the answers to
// one key in their order: a server that rejects an answer must not get it again.
type answers struct {
	mu     sync.Mutex
	byKey  map[string][]answer
	unused []string // the keys of --answer that no question had yet
	asked  []string // the keys of the questions until now
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
			return nil, cli.Usagef("--answer %s: want KEY=JSON, such as --answer who='{\"name\":\"octocat\"}'", flag)
		}
		a.byKey[key] = append(a.byKey[key], answer{text, "--answer"})
		if !slices.Contains(a.unused, key) {
			a.unused = append(a.unused, key)
		}
	}
	if file == nil {
		return a, nil
	}
	if err := cli.CheckObject(file); err != nil {
		return nil, cli.Usagef("--answers: want a JSON object with an answer for each key: %w", err)
	}
	for name, value := range strictjson.Members(file) {
		if _, given := a.byKey[string(name)]; !given {
			a.byKey[string(name)] = []answer{{string(value), "--answers"}}
		}
	}
	return a, nil
}

func (a *answers) has(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byKey[a.given(key)]) > 0
}

// given returns the key under which the answers to a question are stored. Askback's servers add a suffix to the key of
// a question that is asked again.
func (a *answers) given(key string) string {
	if at := strings.LastIndexByte(key, '#'); at > 0 && len(a.byKey[key]) == 0 {
		return key[:at]
	}
	return key
}

func (a *answers) take(key string) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.asked, key) {
		a.asked = append(a.asked, key)
	}
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

// wasAsked returns the keys of the questions until now.
func (a *answers) wasAsked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// misspelt tells which unused answer may be meant for a question without one. It is empty if none is.
func (a *answers) misspelt(key string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var unused []string
	for _, given := range slices.Sorted(maps.Keys(a.byKey)) {
		if len(a.byKey[given]) > 0 && !slices.Contains(a.asked, given) {
			unused = append(unused, given)
		}
	}
	if near := cli.Nearest(a.given(key), unused); near != "" {
		return fmt.Sprintf("%s %s answers no question yet; did you mean %s?", a.byKey[near][0].from,
			cli.HarmlessLine(near, 200), cli.HarmlessLine(key, 200))
	}
	return ""
}

// unfit returns the error of an answer of the flags that does not fit its question.
func (a answer) unfit(q *client.Question, problem error) error {
	form := ""
	if q.URL == "" && q.Schema != nil {
		form = "\n\n" + Describe(q)
	}
	return cli.Usagef("the answer to %q, given with %s, does not fit: %w%s", q.Key, a.from, problem, form)
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
	if err := strictjson.Check(text, cli.MaxDepth); err != nil {
		return nil, fmt.Errorf("want JSON, or one of accept, decline and cancel: %w", err)
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
	schema, err := form.Read(q.Schema)
	if err != nil {
		return nil // the server judges what is no form
	}
	content, err := json.Marshal(res.Content)
	if err != nil {
		return err
	}
	fields := fieldNames(schema)
	for _, name := range slices.Sorted(maps.Keys(res.Content)) {
		if !slices.Contains(fields, name) {
			return fmt.Errorf("the form has no field %q%s", name,
				cmp.Or(cli.DidYouMean(name, fields), "; it has "+cmp.Or(cli.Keys(fields), "none")))
		}
	}
	_, err = schema.Check(content)
	return err
}

func fieldNames(schema *form.Schema) []string {
	var names []string
	for _, p := range schema.Properties() {
		names = append(names, p.Name)
	}
	return names
}

// sample reads the answer to a sampling request: a text, plain or as JSON, or a whole result.
func (a answer) sample(q *client.Question) (*mcp.CreateMessageWithToolsResult, error) {
	res, err := parseSample(a.text, "askback")
	if err != nil {
		err = a.unfit(q, err)
	}
	return res, err
}
