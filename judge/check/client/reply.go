package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
)

// A question is one input request.
type question struct {
	Method string         `json:"method"`
	Params map[string]any `json:"params,omitempty"`

	kind   string // "form", "url", "sampling", "roots" or "unknown"
	schema string // of a form, as JSON
}

// nonce is a text that is nowhere else.
func nonce() string { return rand.Text() }

const yesOrNo = `{"type":"object","properties":{"confirmed":{"type":"boolean","description":"Confirm?"}}}`

func form(schema string) question {
	return question{Method: "elicitation/create", kind: "form", schema: schema, Params: map[string]any{
		"message": "Please confirm to continue", "requestedSchema": json.RawMessage(schema)}}
}

// ask makes one question of a kind.
func (s *scene) ask(kind string) question {
	switch kind {
	case "form":
		return form(yesOrNo)
	case "url":
		return question{Method: "elicitation/create", kind: kind, Params: map[string]any{
			"mode": "url", "message": "Please open this page", "url": s.canary, "elicitationId": nonce()}}
	case "sampling":
		said := map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": "Say one word."}}
		return question{Method: "sampling/createMessage", kind: kind,
			Params: map[string]any{"maxTokens": 16, "messages": []any{said}}}
	case "roots":
		return question{Method: "roots/list", kind: kind, Params: map[string]any{}}
	}
	return question{Method: "example/unknown", kind: "unknown", Params: map[string]any{"message": "Please answer"}}
}

var kinds = []string{"form", "sampling", "roots"}

// questions makes the questions that a reply names, if the client declares that it answers them.
func (s *scene) questions(word string, r *request) map[string]question {
	one := func(q question) map[string]question { return map[string]question{"confirm": q} }
	all := map[string]question{}
	switch word {
	case "any", "each":
		for _, kind := range kinds {
			if !r.declares(kind) {
				continue
			}
			if word == "any" {
				return one(s.ask(kind))
			}
			all[kind] = s.ask(kind)
		}
		if word == "each" {
			return all
		}
	case "undeclared":
		for _, kind := range append([]string{"url"}, kinds...) {
			if !r.declares(kind) {
				return one(s.ask(kind))
			}
		}
	case "unknown":
		return one(s.ask("unknown"))
	case "url":
		if r.declares("url") {
			return one(s.ask("url"))
		}
	}
	if !r.declares("form") {
		return nil
	}
	switch word {
	case "keys", "proto":
		keys := []string{"confirm", "a.b/c d", "Schlüssel 🔑", "0"}
		if word == "proto" {
			keys = []string{"confirm", "__proto__"}
		}
		for _, key := range keys {
			all[key] = s.ask("form")
		}
		return all
	case "schema":
		return one(form(`{"type":"object","required":["confirmed","count"],` +
			`"properties":{"confirmed":{"type":"string","enum":["yes","no"]},` +
			`"count":{"type":"integer","minimum":2,"maximum":3}}}`))
	case "remote-schema":
		return one(form(`{"type":"object","properties":{"confirmed":{"$ref":` + marshal(s.canary) + `}}}`))
	}
	return nil
}

// state makes a requestState of a kind. Each has the nonce, unless it is empty.
func stateOf(word, nonce string) string {
	switch word {
	case "json":
		return "{ \"b\" : 1.0, \"a\":\t[ 1e2, \"\\u0041/\\/\" ],\n \"a\":null, \"n\" : \"" + nonce + "\" }"
	case "unicode":
		return nonce + " Å e\u0301 ﬁ 漢字 🔑 \u2028\u200b\ufeff <&> \\u0041 %41 + \" \x00\x7f"
	case "spaces":
		return " \t\r\n" + nonce + "==\n "
	case "long":
		return nonce + strings.Repeat("0123456789abcde/", 64<<10/16)
	case "empty":
		return ""
	}
	return "state." + nonce
}

// round makes the response to a request, which is the one with this index of what the server does.
func (s *scene) round(index int, r *request) *round {
	index = min(index, len(s.serve)-1)
	n := &round{at: time.Since(s.began), index: index, reply: s.serve[index], request: r}
	if r.after != nil && len(r.after.retries) > 1 && n.reply.Fault != "close" {
		n.reply = corpus.Reply{} // a repeated retry ends the call, so that no second line of rounds begins
	}
	n.asked = s.questions(n.reply.Ask, r)
	if n.reply.State == "" {
		return n
	}
	if n.reply.State != "empty" {
		n.nonce = nonce()
	}
	state := stateOf(n.reply.State, n.nonce)
	n.state = &state
	return n
}

// result is the result of a round, as JSON.
func (n *round) result() string {
	if n.reply.Fault == "no-questions" {
		return `{"resultType":"input_required"}`
	}
	if n.asked == nil && n.state == nil {
		return complete("echo-state-ok")
	}
	result := map[string]any{"resultType": "input_required"}
	switch n.reply.Fault {
	case "unknown-type":
		result["resultType"], result["content"] = "example.com/later", []any{}
	case "no-type":
		result = map[string]any{"content": []any{}}
	}
	if len(n.asked) > 0 {
		result["inputRequests"] = n.asked
	}
	if n.state != nil {
		result["requestState"] = *n.state
	}
	text := marshal(result)
	if n.reply.Fault == "invalid-utf8" {
		text = strings.Replace(text, n.nonce, n.nonce+"\xff\xfe", 1)
	}
	return text
}

// complete is the final result of a tool.
func complete(text string) string {
	return `{"resultType":"complete","content":[{"type":"text","text":` + marshal(text) + `}]}`
}

// status is the result of a tasks/get, or of the call that creates the task.
func (n *round) status(id string) string {
	const created = "2026-07-28T00:00:00Z"
	task := map[string]any{
		"resultType": "complete", "taskId": id, "status": "working", "createdAt": created, "lastUpdatedAt": created,
		"ttlMs": 600_000, "pollIntervalMs": n.reply.PollMillis,
	}
	switch n.reply.Task {
	case "created":
		task["resultType"] = "task"
	case "input_required":
		task["status"], task["inputRequests"] = n.reply.Task, n.asked
	case "completed":
		task["status"], task["result"] = n.reply.Task, json.RawMessage(complete("echo-state-ok"))
	}
	return marshal(task)
}

// marshal encodes what the server itself has made, which cannot fail.
func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("scenarios: %v", err))
	}
	return string(text)
}
