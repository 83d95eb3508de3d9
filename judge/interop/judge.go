package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// rpc is what the judge reads of a message.
type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
		State     *string                    `json:"requestState"`
		Responses map[string]json.RawMessage `json:"inputResponses"`
	} `json:"params"`
	Result *result `json:"result"`
}

type result struct {
	Type     string  `json:"resultType"`
	Version  string  `json:"protocolVersion"` // of initialize
	State    *string `json:"requestState"`
	Requests map[string]struct {
		Method string `json:"method"`
	} `json:"inputRequests"`
	IsError bool `json:"isError"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
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
	var calls []rpc
	responses := make(map[string]*rpc) // of the server, by id
	var asked []string                 // requests of the server
	version := ""
	for _, m := range messages {
		var r rpc
		if json.Unmarshal(m.Data, &r) != nil {
			continue // an HTTP error in plain text
		}
		switch {
		case m.From == "client" && r.Method == "tools/call":
			calls = append(calls, r)
		case m.From == "server" && r.Method == "" && r.ID != nil:
			responses[string(r.ID)] = &r
			if r.Result != nil && r.Result.Version != "" {
				version = r.Result.Version
			}
		case m.From == "server" && r.ID != nil:
			asked = append(asked, r.Method)
		}
	}
	if transport == "legacy" {
		return judgeLegacy(s, version, calls, asked)
	}
	if len(asked) > 0 {
		return "the server sent requests of its own: " + strings.Join(asked, ", ")
	}
	return judgeModern(s, calls, responses)
}

func judgeLegacy(s scenario, version string, calls []rpc, asked []string) string {
	switch {
	case version != "2025-11-25":
		return fmt.Sprintf("the session was of revision %q", version)
	case len(calls) != 1:
		return fmt.Sprintf("%d requests tools/call instead of 1", len(calls))
	}
	want := slices.Sorted(slices.Values(slices.Concat(s.asks...)))
	if got := slices.Sorted(slices.Values(asked)); !slices.Equal(got, want) {
		return fmt.Sprintf("the server asked %q instead of %q", got, want)
	}
	return ""
}

// judgeModern checks the rounds against basic/patterns/mrtr.
func judgeModern(s scenario, calls []rpc, responses map[string]*rpc) string {
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

func judgeRetry(res *result, retry rpc) string {
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
