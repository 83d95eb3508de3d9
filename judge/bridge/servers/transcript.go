package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/judge/bridge/rig"
)

type object = map[string]any

// transcript is what a server answered, request by request.
type transcript struct {
	host  *rig.Stdio
	dir   string // that replaces the placeholder in arguments
	steps []step
	tools int
}

// step is one request, and its result or error as decoded JSON.
type step struct {
	name  string
	value any
}

func (t *transcript) add(name string, value any) {
	same := 0
	for _, s := range t.steps {
		if s.name == name || strings.HasPrefix(s.name, name+" again ") {
			same++
		}
	}
	if same > 0 {
		name = fmt.Sprint(name, " again ", same)
	}
	t.steps = append(t.steps, step{name, value})
}

// request sends a request, records what comes back under a name, and returns it.
func (t *transcript) request(ctx context.Context, name, method string, params any) any {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	value := outcome(t.host.Request(ctx, method, params))
	t.add(name, value)
	return value
}

// call calls a tool, and returns its result.
func (t *transcript) call(ctx context.Context, tool string, arguments any) any {
	return t.request(ctx, "tools/call "+tool, "tools/call", object{"name": tool, "arguments": arguments})
}

// outcome is the JSON value of a result or an error.
func outcome(result json.RawMessage, err error) any {
	fault, answered := errors.AsType[*rawclient.Error](err)
	switch {
	case err == nil:
		return object{"result": decode(result)}
	case answered:
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
	var before any
	for ctx.Err() == nil {
		now := outcome(t.host.Request(ctx, "tools/list", object{}))
		if reflect.DeepEqual(before, now) {
			return
		}
		before = now
		select {
		case <-time.After(quiet):
		case <-ctx.Done():
		}
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
		ctx, cancel := context.WithTimeout(ctx, patience)
		page := outcome(t.host.Request(ctx, method, params))
		cancel()
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
		t.request(ctx, "complete "+name+" "+key, "completion/complete", object{
			"ref": object{"type": "ref/prompt", "name": name}, "argument": object{"name": key, "value": ""}})
	}
	t.request(ctx, "prompts/get "+name, "prompts/get", object{"name": name, "arguments": arguments})
	t.request(ctx, "prompts/get without arguments "+name, "prompts/get", object{"name": name})
}

// template completes each variable of a template, and reads it with 1 in the place of each.
func (t *transcript) template(ctx context.Context, template object) {
	text, _ := template["uriTemplate"].(string)
	uri := text
	for {
		before, rest, found := strings.Cut(uri, "{")
		expression, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			break
		}
		for variable := range strings.SplitSeq(strings.TrimLeft(expression, "+#./;?&"), ",") {
			t.request(ctx, "complete "+text+" "+variable, "completion/complete", object{
				"ref": object{"type": "ref/resource", "uri": text}, "argument": object{"name": variable, "value": ""}})
		}
		uri = before + "1" + after
	}
	t.request(ctx, "resources/read "+uri, "resources/read", object{"uri": uri})
}

// refused sends what no server has or takes.
func (t *transcript) refused(ctx context.Context) {
	for _, r := range []struct {
		method string
		params any
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
		params, _ := json.Marshal(r.params)
		t.request(ctx, r.method+" "+string(params), r.method, r.params)
	}
}

// value returns what a step has at a path, or the absent value.
func (t *transcript) value(name string, at pointer) any {
	i := slices.IndexFunc(t.steps, func(s step) bool { return s.name == name })
	if i < 0 {
		return absent
	}
	return at.in(t.steps[i].value)
}

// differences compares the steps of two runs.
func (t *transcript) differences(other *transcript) []difference {
	var found []difference
	for _, s := range t.steps {
		found = compare(found, s.name, nil, s.value, other.value(s.name, nil))
	}
	for _, s := range other.steps {
		if t.value(s.name, nil) == absent {
			found = append(found, difference{step: s.name, without: absent, with: s.value})
		}
	}
	return found
}

// keys returns the keys of both objects, in their order.
func keys(a, b object) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
