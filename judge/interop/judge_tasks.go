package main

import (
	"cmp"
	"fmt"
	"strings"
)

// judgeTasks says what is wrong with the messages of a cell about tasks, or nothing. The rules are the rules of
// basic/utilities/tasks of 2025-11-25, by the names of its sections.
func judgeTasks(s scenario, _ string, messages []message) string {
	created := make(map[string]bool) // tasks, by id
	var questions []string
	fault := exchanges(messages, func(r *rpc) string {
		// "Tool-Level Negotiation", 1 and 2: all tools of the other scenarios are called as tasks.
		if r.Method == "tools/call" && r.Params.Task == nil && s.tool != "k_refused" {
			return "the client called a tool without a task"
		}
		return ""
	}, func(r *rpc) string {
		questions = append(questions, r.Method)
		// "Input Required Status", 2.
		if r.Params.Meta.Related == nil || !created[r.Params.Meta.Related.ID] {
			return fmt.Sprintf("the server's %s is related to no task", r.Method)
		}
		return ""
	}, func(request, r *rpc) string { return judgeTaskResult(request, r.Result, created) })
	if fault != "" {
		return fault
	}
	return asked(s, "the server", questions)
}

func judgeTaskResult(request *rpc, res *result, created map[string]bool) string {
	rows := res.Tasks
	switch request.Method {
	case "initialize": // "Server Capabilities"
		tasks := res.Capabilities.Tasks
		if res.Version != "2025-11-25" {
			return fmt.Sprintf("the session was of revision %q", res.Version)
		}
		if tasks.List == nil || tasks.Cancel == nil || tasks.Requests.Tools.Call == nil {
			return "the server does not declare tasks"
		}
	case "tools/call": // "Result Retrieval", 1, and "Task Status Lifecycle", 1
		if request.Params.Task == nil {
			return ""
		}
		if res.Task == nil || res.Content != nil {
			return "a call as a task has no CreateTaskResult"
		}
		if res.Task.Status != "working" {
			return fmt.Sprintf("a task begins as %q", res.Task.Status)
		}
		created[res.Task.ID] = true
		rows = append(rows, *res.Task)
	case "tasks/get", "tasks/cancel":
		if res.ID != request.Params.TaskID {
			return fmt.Sprintf("%s answers about another task", request.Method)
		}
		if request.Method == "tasks/cancel" && res.Status != "cancelled" { // "Task Cancellation", 2
			return fmt.Sprintf("tasks/cancel leaves the task %q", res.Status)
		}
		rows = append(rows, res.taskRow)
	case "tasks/result": // "Related Task Metadata"
		if res.Meta.Related == nil || res.Meta.Related.ID != request.Params.TaskID {
			return "a result of tasks/result is related to no task"
		}
	}
	if strings.HasPrefix(request.Method, "tasks/") && request.Method != "tasks/result" && res.Meta.Related != nil {
		return fmt.Sprintf("the result of %s has metadata of a related task", request.Method)
	}
	for _, row := range rows { // "TTL and Resource Management"
		if !row.complete() {
			return fmt.Sprintf("a task in the result of %s is incomplete", request.Method)
		}
	}
	return ""
}

// judgeExtension says what is wrong with the messages of a cell about the tasks extension, or nothing. The rules come
// from SEP-2663 and are quoted with the names of its sections.
func judgeExtension(s scenario, _ string, messages []message) string {
	known := make(map[string]string) // questions of tasks, by key
	var questions []string
	note := func(requests inputRequests) (fault string) {
		for key, q := range requests {
			if before, ok := known[key]; !ok {
				known[key] = q.Method + string(q.Params)
				questions = append(questions, q.Method)
			} else if before != q.Method+string(q.Params) { // "Task Update Requests"
				fault = fmt.Sprintf("the key %q is used for two questions", key)
			}
		}
		return fault
	}
	for _, r := range decode(messages) { // a client that is told of a question need not ask for it
		if r.from == "server" && r.Method == "notifications/tasks" {
			if fault := note(r.Params.Requests); fault != "" {
				return fault
			}
		}
	}
	fault := exchanges(messages, func(r *rpc) string {
		if r.Params.Meta.Version != "2026-07-28" {
			return fmt.Sprintf("the client's %s is of revision %q", r.Method, r.Params.Meta.Version)
		}
		return ""
	}, func(r *rpc) string {
		return "the server sent a request of its own: " + r.Method
	}, func(request, r *rpc) string {
		return cmp.Or(judgeExtensionResult(request, r.Result), note(r.Result.Requests))
	})
	if fault != "" {
		return fault
	}
	return asked(s, "the tasks", questions)
}

func judgeExtensionResult(request *rpc, res *result) string {
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
	case request.Method == "tasks/get" && res.ID != request.Params.TaskID:
		return "tasks/get answers about another task"
	case request.Method != "tasks/get" && want != "task":
		return ""
	case !res.complete(): // "Tasks"
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
