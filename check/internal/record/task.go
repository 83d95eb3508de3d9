package record

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/internal/strictjson"
)

const maxShownDepth = 100 // of a result in a transcript

// ofTask reports whether a step is about a task, or makes one.
func ofTask(s talk.Exchange) bool {
	return strings.HasPrefix(s.Request.Method, "tasks/") || s.Request.Method == "subscriptions/listen" ||
		s.Reply.TaskID != ""
}

// within is how long a task is polled in a transcript, until it is as it was.
func within(s talk.Exchange) string {
	if s.Request.Method == "tasks/get" && s.Request.As == "" && s.Reply.Class != talk.Refused {
		return " within 3s"
	}
	return ""
}

// lasts reports whether a text can stand in a transcript: it is the same each time, and means nothing there.
func lasts(text string) bool {
	return !talk.Changing.MatchString(text) && !strings.Contains(text, "{{") && !strings.Contains(text, "...")
}

// lasting returns a JSON value for a transcript, or nil.
func lasting(value json.RawMessage) json.RawMessage {
	if strictjson.Check(value, maxShownDepth) != nil {
		return nil
	}
	if value = strictjson.AppendCanonical(nil, value); !lasts(string(value)) {
		return nil
	}
	return value
}

// andMore is the object of a transcript that may have more members than those.
func andMore(members map[string]any) map[string]any {
	members["..."] = "..."
	return members
}

// expectedOfTask returns the response about a task, for a comparison. The last one has the effect of the attack.
func expectedOfTask(s talk.Exchange, names map[string]string, last bool) string {
	p, want := s.Reply, map[string]any{}
	switch method := s.Request.Method; {
	case p.Class == talk.Refused && last && p.Code != 0:
		want["error"] = andMore(map[string]any{"code": p.Code})
	case p.Class == talk.Refused:
		want["error"] = "{{_}}"
	case method == "tools/call":
		want["result"] = andMore(map[string]any{"resultType": "task", "taskId": "{{" + names[p.TaskID] + "}}"})
	case method == "tasks/get":
		want["result"] = expectedTask(p, names, last)
	case method == "tasks/list":
		want["result"] = expectedList(p.Result, names)
	case method == "subscriptions/listen":
		want["params"] = expectedParams(p.Result, names)
	default:
		want["result"] = andMore(map[string]any{})
	}
	b, _ := json.Marshal(andMore(want)) // the parts are JSON
	for _, event := range s.Events {
		params, _ := json.Marshal(andMore(map[string]any{"params": expectedParams(event, names)}))
		b = append(append(b, "\n<-- event\n"...), params...)
	}
	return string(b)
}

// expectedTask is a task as it was seen. The last time its questions and its result are compared, or that it has none.
func expectedTask(p *talk.Reply, names map[string]string, last bool) map[string]any {
	want := map[string]any{}
	if p.Status != "" && lasts(p.Status) {
		want["status"] = p.Status
	}
	if name := names[p.TaskID]; name != "" {
		want["taskId"] = "{{" + name + "}}"
	}
	if !last {
		return andMore(want)
	}
	if p.Class == talk.Advanced {
		requests := map[string]any{}
		for _, q := range p.Questions {
			params := map[string]any{}
			if q.Message != "" && lasts(q.Message) {
				params["message"] = q.Message
			}
			if !lasts(q.Key) {
				continue
			}
			requests[q.Key] = andMore(map[string]any{"method": q.Method, "params": andMore(params)})
		}
		want["inputRequests"] = andMore(requests)
	}
	var whole map[string]json.RawMessage
	_ = json.Unmarshal(p.Result, &whole) // it was read before
	switch result, ok := whole["result"]; {
	case ok:
		if value := lasting(result); value != nil {
			want["result"] = value
		}
	case !ok && p.Status == "completed":
		for member := range whole { // and no others
			if want[member] == nil && lasts(member) {
				want[member] = "{{_}}"
			}
		}
		return want
	}
	return andMore(want)
}

// expectedList is a list that has the task, among others.
func expectedList(list json.RawMessage, names map[string]string) map[string]any {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(list, &members) // it was read before
	want := map[string]any{}
	for member, value := range members {
		if !lasts(member) {
			continue
		}
		for id, name := range names {
			var all []json.RawMessage
			if json.Unmarshal(value, &all) == nil && slices.ContainsFunc(all, func(e json.RawMessage) bool {
				return talk.TaskStatus(e, id) != ""
			}) {
				want[member] = []any{"...", andMore(map[string]any{"taskId": "{{" + name + "}}"})}
			}
		}
	}
	return andMore(want)
}

// expectedParams are the params of a notification that shows a task, or says which tasks are subscribed to.
func expectedParams(params json.RawMessage, names map[string]string) map[string]any {
	var of struct {
		TaskID, Status string
		Notifications  struct{ TaskIDs []string }
	}
	_ = json.Unmarshal(params, &of) // it was read before
	want := map[string]any{}
	if name := names[of.TaskID]; name != "" && of.Status != "" && lasts(of.Status) {
		want["taskId"], want["status"] = "{{"+name+"}}", of.Status
	}
	for _, id := range of.Notifications.TaskIDs {
		if name := names[id]; name != "" {
			want["notifications"] = andMore(map[string]any{"taskIds": []any{"{{" + name + "}}"}})
		}
	}
	return andMore(want)
}

// renameTask puts placeholders in place of the IDs of tasks.
func renameTask(s talk.Exchange, params map[string]any, names map[string]string) {
	if id, ok := params["taskId"].(string); ok {
		switch {
		case names[id] != "":
			params["taskId"] = "{{" + names[id] + "}}"
		case s.From != nil && s.Variant != "" && names[*s.From] != "":
			params["taskId"] = "{{" + names[*s.From] + ":" + s.Variant + "}}"
		}
	}
	wish, _ := params["notifications"].(map[string]any)
	if ids, ok := wish["taskIds"].([]any); ok {
		var named []any
		for _, id := range ids {
			text, _ := id.(string)
			if name := names[text]; name != "" {
				text = "{{" + name + "}}"
			}
			named = append(named, text)
		}
		params["notifications"] = map[string]any{"taskIds": named}
	}
}
