package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// taskRPC is what the judge of tasks reads of a message.
type taskRPC struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta taskMeta        `json:"_meta"`
		ID   string          `json:"taskId"`
		Task json.RawMessage `json:"task"`
	} `json:"params"`
	Result *struct {
		taskRow
		Meta         taskMeta        `json:"_meta"`
		Version      string          `json:"protocolVersion"`
		Task         *taskRow        `json:"task"`
		Tasks        []taskRow       `json:"tasks"`
		Content      json.RawMessage `json:"content"`
		Capabilities struct {
			Tasks struct {
				List, Cancel json.RawMessage
				Requests     struct {
					Tools struct{ Call json.RawMessage }
				}
			}
		} `json:"capabilities"`
	} `json:"result"`
}

type taskMeta struct {
	Related *struct {
		ID string `json:"taskId"`
	} `json:"io.modelcontextprotocol/related-task"`
}

type taskRow struct {
	ID      string          `json:"taskId"`
	Status  string          `json:"status"`
	Created string          `json:"createdAt"`
	Updated string          `json:"lastUpdatedAt"`
	TTL     json.RawMessage `json:"ttl"`
}

// judgeTasks says what is wrong with the messages of a cell about tasks, or nothing. The
// rules are those of basic/utilities/tasks of 2025-11-25, by the names of its sections.
func judgeTasks(s scenario, _ string, messages []message) string {
	requests := make(map[string]*taskRPC) // of the client, by id
	created := make(map[string]bool)      // tasks, by id
	var asked []string
	for _, m := range messages {
		r := new(taskRPC)
		if json.Unmarshal(m.Data, r) != nil {
			continue // an HTTP error in plain text
		}
		fault := ""
		switch {
		case m.From == "client" && r.Method != "" && r.ID != nil:
			requests[string(r.ID)] = r
			// "Tool-Level Negotiation", 1 and 2: all tools of the other scenarios are called as tasks.
			if r.Method == "tools/call" && r.Params.Task == nil && s.tool != "k_refused" {
				fault = "the client called a tool without a task"
			}
		case m.From == "server" && r.Method != "" && r.ID != nil:
			asked = append(asked, r.Method)
			// "Input Required Status", 2.
			if r.Params.Meta.Related == nil || !created[r.Params.Meta.Related.ID] {
				fault = fmt.Sprintf("the server's %s is related to no task", r.Method)
			}
		case m.From == "server" && r.Result != nil && requests[string(r.ID)] != nil:
			fault = judgeTaskResult(requests[string(r.ID)], r, created)
		}
		if fault != "" {
			return fault
		}
	}
	if want := slices.Concat(s.asks...); !slices.Equal(asked, want) {
		return fmt.Sprintf("the server asked %q instead of %q", asked, want)
	}
	return ""
}

func judgeTaskResult(request, r *taskRPC, created map[string]bool) string {
	res := r.Result
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
		if res.ID != request.Params.ID {
			return fmt.Sprintf("%s answers about another task", request.Method)
		}
		if request.Method == "tasks/cancel" && res.Status != "cancelled" { // "Task Cancellation", 2
			return fmt.Sprintf("tasks/cancel leaves the task %q", res.Status)
		}
		rows = append(rows, res.taskRow)
	case "tasks/result": // "Related Task Metadata"
		if res.Meta.Related == nil || res.Meta.Related.ID != request.Params.ID {
			return "a result of tasks/result is related to no task"
		}
	}
	if strings.HasPrefix(request.Method, "tasks/") && request.Method != "tasks/result" && res.Meta.Related != nil {
		return fmt.Sprintf("the result of %s has metadata of a related task", request.Method)
	}
	for _, row := range rows { // "TTL and Resource Management"
		if row.ID == "" || row.Status == "" || row.Created == "" || row.Updated == "" || row.TTL == nil {
			return fmt.Sprintf("a task in the result of %s is incomplete", request.Method)
		}
	}
	return ""
}
