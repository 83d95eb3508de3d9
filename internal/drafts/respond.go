package drafts

import (
	"encoding/json"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// response puts a ratified response into the draft's form. Errors and notifications have the same form in every
// draft, and stay as they are.
func (f Form) response(method string, ratified []byte) []byte {
	m := parse(ratified)
	if m["result"] == nil {
		return ratified
	}
	r := parseResult(m["result"])
	if r.kind != "input_required" {
		return response(m["id"], f.complete(method, r))
	}
	switch {
	case (f == State1 || f == State2) && method != wire.TaskResult:
		return f.dependentRequests(m["id"], r)
	case f == Tasks1 && method == wire.TaskResult && len(r.requests) > 0:
		return requestItself(m["id"], r)
	case f == Tasks2 && method == wire.TaskResult:
		return response(m["id"], requestsAsContent(r, len(r.requests) > 1))
	case f == Tasks2 && method == wire.CallTool && len(r.requests) > 0:
		return response(m["id"], requestsAsContent(r, true)) // the client answers by key
	}
	var incomplete object
	incomplete.add("inputRequests", r.encoded)
	incomplete.add("requestState", r.state)
	incomplete.add("_meta", r.meta)
	return response(m["id"], incomplete.bytes())
}

func response(id, result []byte) []byte {
	return wire.AppendResult(nil, id, func(dst []byte) []byte { return append(dst, result...) })
}

// complete returns the draft's form of a result that asks nothing.
func (f Form) complete(method string, r *result) []byte {
	r.members.add("_meta", r.meta)
	encoded := r.members.bytes()
	if f == MRTR2 || f == State1 || f == State2 {
		return encoded
	}
	switch method {
	case wire.GetTask, wire.CancelTask:
		return capitaliseStatus(encoded)
	case wire.CallTool:
		if task := strictjson.Get(encoded, "task"); task != nil {
			return replaceMember(encoded, "task", capitaliseStatus(task))
		}
	case wire.ListTasks:
		tasks := elements(strictjson.Get(encoded, "tasks"))
		for i := range tasks {
			tasks[i] = capitaliseStatus(tasks[i])
		}
		if all, err := json.Marshal(tasks); err == nil && tasks != nil {
			return replaceMember(encoded, "tasks", all)
		}
	}
	return encoded
}

// capitaliseStatus returns a task with its status in the spelling of the first drafts.
func capitaliseStatus(task []byte) []byte {
	status, _ := strictjson.String(strictjson.Get(task, "status"))
	first := map[string]string{"working": "Working", "completed": "Completed", "failed": "Failed",
		"cancelled": "Cancelled"}
	if first[status] == "" {
		return task
	}
	return replaceMember(task, "status", quote(first[status]))
}

// replaceMember returns a checked object with another value for one of its members.
func replaceMember(obj []byte, name string, value []byte) []byte {
	var all object
	for n, v := range strictjson.Members(obj) {
		if string(n) == name {
			v = value
		}
		all.add(string(n), v)
	}
	return all.bytes()
}

// requestItself returns the answer to tasks/result in Option One: the first open question, as a request.
func requestItself(id []byte, r *result) []byte {
	q := r.requests[0]
	var m object
	m.add("jsonrpc", quote("2.0"))
	m.add("id", id)
	m.add("method", quote(q.Method))
	m.add("params", q.Params)
	m.add("_meta", r.meta)
	return m.bytes()
}

// requestsAsContent returns the result in Option Two, where each question is an item of content. With keyed, each
// item has its question's key in its _meta.
func requestsAsContent(r *result, keyed bool) []byte {
	types := map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling",
		"roots/list": "roots"}
	content := []byte{'['}
	for i, q := range r.requests {
		var item, meta object
		item.add("type", quote(types[q.Method]))
		item.addAll(q.Params, "_meta")
		meta.addAll(strictjson.Get(q.Params, "_meta"), wire.MetaKey)
		if keyed {
			meta.add(wire.MetaKey, quote(q.Key))
		}
		if !meta.empty() {
			item.add("_meta", meta.bytes())
		}
		if i > 0 {
			content = append(content, ',')
		}
		content = append(content, item.bytes()...)
	}
	var res object
	res.add("content", append(content, ']'))
	res.add("isError", []byte("false"))
	res.add("requestState", r.state)
	res.add("_meta", r.meta)
	return res.bytes()
}
