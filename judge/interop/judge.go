package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// rpc is what the judges read of a message.
type rpc struct {
	from   string          // "client" or "server"
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta struct {
			Version      string `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities struct {
				Extensions map[string]json.RawMessage `json:"extensions"`
			} `json:"io.modelcontextprotocol/clientCapabilities"`
			related
		} `json:"_meta"`
		State     *string                    `json:"requestState"`
		Responses map[string]json.RawMessage `json:"inputResponses"`
		TaskID    string                     `json:"taskId"`
		Task      json.RawMessage            `json:"task"`
		Requests  inputRequests              `json:"inputRequests"` // of a notification about a task
	} `json:"params"`
	Result *result `json:"result"`
}

type inputRequests map[string]struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type result struct {
	Type     string                  `json:"resultType"`
	Version  string                  `json:"protocolVersion"` // of initialize
	State    *string                 `json:"requestState"`
	Requests inputRequests           `json:"inputRequests"`
	IsError  bool                    `json:"isError"`
	Content  []struct{ Text string } `json:"content"`
	Meta     related                 `json:"_meta"`

	taskRow
	Task         *taskRow  `json:"task"`
	Tasks        []taskRow `json:"tasks"`
	Capabilities struct {
		Tasks struct {
			List, Cancel json.RawMessage
			Requests     struct {
				Tools struct{ Call json.RawMessage }
			}
		} `json:"tasks"`
	} `json:"capabilities"`
	Result *result `json:"result"` // of a task
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"` // of a task
}

// related is the metadata of what belongs to a task.
type related struct {
	Related *struct {
		ID string `json:"taskId"`
	} `json:"io.modelcontextprotocol/related-task"`
}

// taskRow is a task in a result. The extension has another name for the time to live.
type taskRow struct {
	ID      string          `json:"taskId"`
	Status  string          `json:"status"`
	Created string          `json:"createdAt"`
	Updated string          `json:"lastUpdatedAt"`
	TTL     json.RawMessage `json:"ttl"`
	TTLMs   json.RawMessage `json:"ttlMs"`
}

func (t taskRow) complete() bool {
	return t.ID != "" && t.Status != "" && t.Created != "" && t.Updated != "" && (t.TTL != nil || t.TTLMs != nil)
}

// decode reads the messages of a cell, and leaves out everything else, such as an HTTP error in plain text.
func decode(messages []message) (all []*rpc) {
	for _, m := range messages {
		r := &rpc{from: m.From}
		if json.Unmarshal(m.Data, r) == nil {
			all = append(all, r)
		}
	}
	return all
}

// exchanges judges the messages of a cell one after the other, until one of the functions says what is wrong: a
// request of the client, a request of the server, or a result with the client's request that it answers.
func exchanges(messages []message, call, ask func(r *rpc) string, answer func(request, r *rpc) string) string {
	requests := make(map[string]*rpc) // of the client, by id
	for _, r := range decode(messages) {
		id, fault := string(r.ID), ""
		switch {
		case r.from == "client" && r.Method != "" && r.ID != nil:
			requests[id] = r
			fault = call(r)
		case r.from == "server" && r.Method != "" && r.ID != nil:
			fault = ask(r)
		case r.from == "server" && r.Result != nil && requests[id] != nil:
			fault = answer(requests[id], r)
		}
		if fault != "" {
			return fault
		}
	}
	return ""
}

// asked says that something was asked that does not belong to a scenario, or was not, or nothing.
func asked(s scenario, who string, got []string) string {
	want := slices.Sorted(slices.Values(slices.Concat(s.asks...)))
	if got = slices.Sorted(slices.Values(got)); !slices.Equal(got, want) {
		return fmt.Sprintf("%s asked %q instead of %q", who, got, want)
	}
	return ""
}

func (r *result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// judgeResult says what is wrong with the result that a client printed, or nothing.
func judgeResult(s scenario, stdout []byte) string {
	var res result
	if err := json.Unmarshal(stdout, &res); err != nil {
		return fmt.Sprintf("the client printed no result: %.200q", stdout)
	}
	switch {
	case res.IsError:
		return "tool error: " + res.text()
	case res.Type == "input_required":
		return "the client returned input_required as the result"
	case res.text() != s.text:
		return fmt.Sprintf("the result says %q instead of %q", res.text(), s.text)
	}
	return ""
}

// judgeWire says what is wrong with the messages of a cell, or nothing.
func judgeWire(s scenario, transport string, messages []message) string {
	var calls []*rpc
	responses := make(map[string]*rpc) // of the server, by id
	var requests []string              // of the server
	version := ""
	for _, r := range decode(messages) {
		switch {
		case r.from == "client" && r.Method == "tools/call":
			calls = append(calls, r)
		case r.from == "server" && r.Method == "" && r.ID != nil:
			responses[string(r.ID)] = r
			if r.Result != nil && r.Result.Version != "" {
				version = r.Result.Version
			}
		case r.from == "server" && r.ID != nil:
			requests = append(requests, r.Method)
		}
	}
	if transport == "legacy" {
		switch {
		case version != "2025-11-25":
			return fmt.Sprintf("the session was of revision %q", version)
		case len(calls) != 1:
			return fmt.Sprintf("%d requests tools/call instead of 1", len(calls))
		}
		return asked(s, "the server", requests)
	}
	if len(requests) > 0 {
		return "the server sent requests of its own: " + strings.Join(requests, ", ")
	}
	return judgeModern(s, calls, responses)
}

// judgeModern checks the rounds against basic/patterns/mrtr.
func judgeModern(s scenario, calls []*rpc, responses map[string]*rpc) string {
	if len(calls) != len(s.asks)+1 {
		return fmt.Sprintf("%d requests tools/call instead of %d", len(calls), len(s.asks)+1)
	}
	ids := make(map[string]bool)
	for i, call := range calls {
		if call.Params.Meta.Version != "2026-07-28" {
			return fmt.Sprintf("request %d is of revision %q", i+1, call.Params.Meta.Version)
		}
		if ids[string(call.ID)] {
			return "a retry has the id of the request before it"
		}
		ids[string(call.ID)] = true
		response := responses[string(call.ID)]
		if response == nil || response.Result == nil {
			return fmt.Sprintf("request %d has no result", i+1)
		}
		res := response.Result
		if i == len(s.asks) {
			if res.Type != "complete" {
				return fmt.Sprintf("the final result has the resultType %q", res.Type)
			}
			break
		}
		if res.Type != "input_required" {
			return fmt.Sprintf("result %d has the resultType %q", i+1, res.Type)
		}
		if res.Requests == nil && res.State == nil {
			return fmt.Sprintf("result %d has neither inputRequests nor requestState", i+1)
		}
		var methods []string
		for _, request := range res.Requests {
			methods = append(methods, request.Method)
		}
		if !slices.Equal(slices.Sorted(slices.Values(methods)), slices.Sorted(slices.Values(s.asks[i]))) {
			return fmt.Sprintf("result %d asks %q instead of %q", i+1, methods, s.asks[i])
		}
		if fault := judgeRetry(res, calls[i+1]); fault != "" {
			return fmt.Sprintf("request %d %s", i+2, fault)
		}
	}
	return ""
}

func judgeRetry(res *result, retry *rpc) string {
	switch state := retry.Params.State; {
	case res.State == nil && state != nil:
		return "has a requestState that nobody gave it"
	case res.State != nil && state == nil:
		return "lacks the requestState"
	case res.State != nil && *state != *res.State:
		return "has another requestState"
	}
	keys := slices.Sorted(maps.Keys(retry.Params.Responses))
	if !slices.Equal(keys, slices.Sorted(maps.Keys(res.Requests))) {
		return fmt.Sprintf("answers %q", keys)
	}
	for key, answer := range retry.Params.Responses {
		if bytes.Equal(bytes.TrimSpace(answer), []byte("null")) {
			return fmt.Sprintf("answers %q with null", key)
		}
	}
	return ""
}
