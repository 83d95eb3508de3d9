package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/judge/bridge/rig"
)

type object = map[string]any

// transcript is what a server answered.
type transcript struct {
	host  *rig.Stdio
	dir   string // that replaces the placeholder in arguments
	steps object // the result or error of each request, by its name
	tools int
}

func (t *transcript) add(name string, value any) {
	step := name
	for again := 1; t.steps[step] != nil; again++ {
		step = fmt.Sprint(name, " again ", again)
	}
	t.steps[step] = value
}

// request sends a request, records what comes back under a name, and returns it.
func (t *transcript) request(ctx context.Context, name, method string, params object) any {
	value := t.ask(ctx, method, params)
	t.add(name, value)
	return value
}

func (t *transcript) ask(ctx context.Context, method string, params object) any {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return outcome(t.host.Open(ctx, method, params))
}

// call calls a tool, and returns its result.
func (t *transcript) call(ctx context.Context, tool string, arguments any) any {
	return t.request(ctx, "tools/call "+tool, "tools/call", object{"name": tool, "arguments": arguments})
}

// outcome is the JSON value of the result or the error that a response has.
func outcome(response *rawclient.Stream, err error) any {
	var result json.RawMessage
	if err == nil {
		defer response.Close()
		err = response.Result(&result)
	}
	if err == nil {
		return object{"result": decode(result)}
	}
	if fault, answered := errors.AsType[*rawclient.Error](err); answered {
		value := object{"code": json.Number(fmt.Sprint(fault.Code)), "message": fault.Message}
		if fault.Data != nil {
			value["data"] = decode(fault.Data)
		}
		return object{"error": value}
	}
	return object{"no answer": err.Error()}
}

// decode keeps numbers as they are written.
func decode(text json.RawMessage) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "no JSON: " + string(text)
	}
	return value
}

// most is how many resources and prompts are read, so that no server takes minutes.
const most = 12

// quiet is how long a server's tools have to stay the same before it has started: some add tools when they have heard
// what the host can do.
const quiet = 700 * time.Millisecond

// settle waits until a server has started.
func (t *transcript) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for before := any(nil); ctx.Err() == nil; time.Sleep(quiet) {
		now := t.ask(ctx, "tools/list", object{})
		if reflect.DeepEqual(before, now) {
			return
		}
		before = now
	}
}

// all sends the requests that every server gets.
func (t *transcript) all(ctx context.Context, s *server) {
	t.settle(ctx)
	tools := t.list(ctx, "tools/list", "tools", "name")
	t.tools = len(tools)
	prompts := t.list(ctx, "prompts/list", "prompts", "name")
	resources := t.list(ctx, "resources/list", "resources", "uri")
	templates := t.list(ctx, "resources/templates/list", "resourceTemplates", "uriTemplate")
	for _, prompt := range prompts[:min(most, len(prompts))] {
		t.prompt(ctx, prompt)
	}
	for _, resource := range resources[:min(most, len(resources))] {
		uri, _ := resource["uri"].(string)
		t.request(ctx, "resources/read "+uri, "resources/read", object{"uri": uri})
	}
	for _, template := range templates[:min(most, len(templates))] {
		t.template(ctx, template)
	}
	for _, tool := range tools {
		schema, _ := tool["inputSchema"].(object)
		if required, _ := schema["required"].([]any); len(required) > 0 {
			t.request(ctx, fmt.Sprint("without arguments ", tool["name"]), "tools/call",
				object{"name": tool["name"], "arguments": object{}})
		}
	}
	for _, c := range s.calls {
		arguments := t.arguments(c.arguments)
		t.call(ctx, c.tool, arguments)
		for name := range arguments {
			arguments[name] = object{"wrong": []any{true}}
		}
		t.request(ctx, "wrong types "+c.tool, "tools/call", object{"name": c.tool, "arguments": arguments})
	}
	t.refused(ctx)
}

// arguments decodes a table's arguments.
func (t *transcript) arguments(text string) object {
	if text == "" {
		return object{}
	}
	arguments, _ := decode(json.RawMessage(strings.ReplaceAll(text, placeholder, t.dir))).(object)
	return arguments
}

// list lists all pages, and returns the items in the order of their keys. What is recorded is the first page without
// its items, and each item by its key, so that a missing one is one difference. The order is not compared: the bridge
// lists by name.
func (t *transcript) list(ctx context.Context, method, member, key string) []object {
	var items []object
	byKey, params := object{}, object{}
	var first any
	for {
		page := t.ask(ctx, method, params)
		result, _ := page.(object)["result"].(object)
		list, _ := result[member].([]any)
		for _, item := range list {
			item, _ := item.(object)
			name, _ := item[key].(string)
			items = append(items, item)
			byKey[name] = item
		}
		cursor, more := result["nextCursor"].(string)
		if first == nil {
			first = page
		}
		if !more || params["cursor"] == cursor {
			break
		}
		params = object{"cursor": cursor}
	}
	if result, ok := first.(object)["result"].(object); ok {
		delete(result, member)
		delete(result, "nextCursor")
	}
	slices.SortFunc(items, func(a, b object) int {
		return strings.Compare(fmt.Sprint(a[key]), fmt.Sprint(b[key]))
	})
	t.add(method, object{"page": first, "items": byKey})
	return items
}

// prompt gets a prompt with all of its arguments and with none, and completes each argument.
func (t *transcript) prompt(ctx context.Context, prompt object) {
	name, _ := prompt["name"].(string)
	arguments := object{}
	listed, _ := prompt["arguments"].([]any)
	for _, argument := range listed {
		argument, _ := argument.(object)
		key, _ := argument["name"].(string)
		arguments[key] = "octocat"
		t.complete(ctx, name, key, object{"type": "ref/prompt", "name": name})
	}
	t.request(ctx, "prompts/get "+name, "prompts/get", object{"name": name, "arguments": arguments})
	t.request(ctx, "prompts/get without arguments "+name, "prompts/get", object{"name": name})
}

// template completes each variable of a template, and reads it with 1 in the place of each.
func (t *transcript) template(ctx context.Context, template object) {
	text, _ := template["uriTemplate"].(string)
	for _, found := range expression.FindAllStringSubmatch(text, -1) {
		for variable := range strings.SplitSeq(found[1], ",") {
			t.complete(ctx, text, variable, object{"type": "ref/resource", "uri": text})
		}
	}
	uri := expression.ReplaceAllString(text, "1")
	t.request(ctx, "resources/read "+uri, "resources/read", object{"uri": uri})
}

// expression is a part of the template of a URI, with its variables.
var expression = regexp.MustCompile(`\{[+#./;?&]*([^}]*)\}`)

// complete completes the empty value of an argument or a variable.
func (t *transcript) complete(ctx context.Context, of, name string, ref object) {
	t.request(ctx, "complete "+of+" "+name, "completion/complete",
		object{"ref": ref, "argument": object{"name": name, "value": ""}})
}

// refused sends what no server has or takes.
func (t *transcript) refused(ctx context.Context) {
	for _, r := range []struct {
		method string
		params object
	}{
		{"tools/call", object{"name": "octocat_none", "arguments": object{}}},
		{"tools/call", object{"arguments": object{}}},
		{"prompts/get", object{"name": "octocat_none"}},
		{"resources/read", object{"uri": "octocat://none"}},
		{"resources/read", object{}},
		{"completion/complete", object{"ref": object{"type": "ref/prompt", "name": "octocat_none"},
			"argument": object{"name": "a", "value": ""}}},
		{"octocat/none", object{}},
		{"ping", object{}},
	} {
		t.request(ctx, r.method+" "+whole(r.params), r.method, r.params)
	}
}
