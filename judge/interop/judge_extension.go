package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// extensionRPC is what the judge of the tasks extension reads of a message.
type extensionRPC struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ID   string `json:"taskId"`
		Meta struct {
			Version      string `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities struct {
				Extensions map[string]json.RawMessage `json:"extensions"`
			} `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	} `json:"params"`
	Result *struct {
		Type     string          `json:"resultType"`
		ID       string          `json:"taskId"`
		Status   string          `json:"status"`
		Created  string          `json:"createdAt"`
		Updated  string          `json:"lastUpdatedAt"`
		TTL      json.RawMessage `json:"ttlMs"`
		Requests map[string]struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		} `json:"inputRequests"`
		Result *struct {
			Type    string            `json:"resultType"`
			Content []json.RawMessage `json:"content"`
		} `json:"result"`
		Error *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	} `json:"result"`
}

// judgeExtension says what is wrong with the messages of a cell about the tasks extension, or nothing. The rules come
// from SEP-2663 and are quoted with the names of its sections.
func judgeExtension(s scenario, _ string, messages []message) string {
	requests := make(map[string]*extensionRPC) // of the client, by id
	questions := make(map[string]string)       // of tasks, by key
	var asked []string
	for _, m := range messages {
		r := new(extensionRPC)
		if json.Unmarshal(m.Data, r) != nil {
			continue // an HTTP error in plain text
		}
		fault := ""
		switch {
		case m.From == "client" && r.Method != "" && r.ID != nil:
			requests[string(r.ID)] = r
			if r.Params.Meta.Version != "2026-07-28" {
				fault = fmt.Sprintf("the client's %s is of revision %q", r.Method, r.Params.Meta.Version)
			}
		case m.From == "server" && r.Method != "" && r.ID != nil:
			fault = "the server sent a request of its own: " + r.Method
		case m.From == "server" && r.Result != nil && requests[string(r.ID)] != nil:
			fault = judgeExtensionResult(requests[string(r.ID)], r)
			for _, key := range slices.Sorted(maps.Keys(r.Result.Requests)) {
				q := r.Result.Requests[key]
				switch known, was := questions[key]; {
				case !was:
					questions[key] = q.Method + string(q.Params)
					asked = append(asked, q.Method)
				case known != q.Method+string(q.Params): // "Task Update Requests"
					fault = fmt.Sprintf("the key %q is used for two questions", key)
				}
			}
		}
		if fault != "" {
			return fault
		}
	}
	want := slices.Concat(s.asks...)
	if !slices.Equal(slices.Sorted(slices.Values(asked)), slices.Sorted(slices.Values(want))) {
		return fmt.Sprintf("the tasks asked %q instead of %q", asked, want)
	}
	return ""
}

func judgeExtensionResult(request, r *extensionRPC) string {
	res := r.Result
	want := "complete" // "Polymorphic Results", "Task Polling", "Task Update Requests", "Task Cancellation"
	if request.Method == "tools/call" && res.ID != "" {
		want = "task"
	}
	if res.Type != want {
		return fmt.Sprintf("the result of %s has the resultType %q instead of %q", request.Method, res.Type, want)
	}
	switch _, declared := request.Params.Meta.Capabilities.Extensions["io.modelcontextprotocol/tasks"]; {
	case want == "task" && !declared: // "Capability Negotiation"
		return "a task was made for a client that did not declare the extension"
	case request.Method == "tasks/get" && res.ID != request.Params.ID:
		return "tasks/get answers about another task"
	case request.Method != "tasks/get" && want != "task":
		return ""
	case res.ID == "" || res.Created == "" || res.Updated == "" || res.TTL == nil: // "Tasks"
		return fmt.Sprintf("a task in the result of %s is incomplete", request.Method)
	}
	switch is := res.Status; { // "Task Status"
	case want == "task":
	case (is == "completed") != (res.Result != nil):
		return fmt.Sprintf("a task that is %q has a result: %v", is, res.Result != nil)
	case (is == "failed") != (res.Error != nil):
		return fmt.Sprintf("a task that is %q has an error: %v", is, res.Error != nil)
	case (is == "input_required") != (len(res.Requests) > 0):
		return fmt.Sprintf("a task that is %q has %d questions", is, len(res.Requests))
	case is == "completed" && (res.Result.Type != "complete" || res.Result.Content == nil):
		// "exactly what the underlying request would have returned"
		return fmt.Sprintf("the result in a task has the resultType %q, and content: %v",
			res.Result.Type, res.Result.Content != nil)
	case is == "failed" && (res.Error.Code == 0 || res.Error.Message == ""):
		return "the error in a task lacks its code or message"
	}
	return ""
}
