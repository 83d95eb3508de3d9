package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/excerpt"
)

// modern is the revision that the server speaks.
const modern = "2026-07-28"

const tasksExtension = "io.modelcontextprotocol/tasks"

// A request is what came to one of the servers.
type request struct {
	at     time.Duration
	second bool // it came to the other origin
	canary bool // it came to the address that no client may fetch by itself
	verb   string
	path   string
	header http.Header
	body   []byte

	// What the body says; empty if it is no JSON-RPC message.
	id         string // as JSON
	method     string
	tool       string
	arguments  json.RawMessage
	taskID     string
	state      *string
	answers    map[string]json.RawMessage
	version    string
	declared   json.RawMessage // the capabilities
	clientName string

	after *round // of which it is the retry
}

// decode reads the body, as far as it can be read.
func (r *request) decode() error {
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string                     `json:"name"`
			Arguments json.RawMessage            `json:"arguments"`
			TaskID    string                     `json:"taskId"`
			State     *string                    `json:"requestState"`
			Answers   map[string]json.RawMessage `json:"inputResponses"`
			Meta      struct {
				Version  string          `json:"io.modelcontextprotocol/protocolVersion"`
				Declared json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
				Client   struct {
					Name    string `json:"name"`
					Version string `json:"version"`
				} `json:"io.modelcontextprotocol/clientInfo"`
			} `json:"_meta"`
		} `json:"params"`
	}
	if err := json.Unmarshal(r.body, &message); err != nil {
		return err
	}
	p := message.Params
	r.id, r.method, r.tool, r.arguments = string(message.ID), message.Method, p.Name, p.Arguments
	r.taskID, r.state, r.answers = p.TaskID, p.State, p.Answers
	r.version, r.declared = p.Meta.Version, p.Meta.Declared
	r.clientName = shorten(strings.TrimSpace(p.Meta.Client.Name+" "+p.Meta.Client.Version), 100)
	return nil
}

// declares reports whether the request declares that the client answers a kind of question: "form", "url", "sampling",
// "roots", or takes "tasks".
func (r *request) declares(kind string) bool {
	var all struct {
		Elicitation *struct {
			Form *json.RawMessage `json:"form"`
			URL  *json.RawMessage `json:"url"`
		} `json:"elicitation"`
		Sampling   *json.RawMessage           `json:"sampling"`
		Roots      *json.RawMessage           `json:"roots"`
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	if json.Unmarshal(r.declared, &all) != nil {
		return false
	}
	switch kind {
	case "form":
		return all.Elicitation != nil && (all.Elicitation.Form != nil || all.Elicitation.URL == nil)
	case "url":
		return all.Elicitation != nil && all.Elicitation.URL != nil
	case "sampling":
		return all.Sampling != nil
	case "roots":
		return all.Roots != nil
	}
	return all.Extensions[tasksExtension] != nil
}

// carries reports whether any part of the request has these bytes.
func (r *request) carries(text string) bool {
	if text == "" {
		return false
	}
	if bytes.Contains(r.body, []byte(text)) || strings.Contains(r.path, text) {
		return true
	}
	for _, values := range r.header {
		for _, v := range values {
			if strings.Contains(v, text) {
				return true
			}
		}
	}
	return false
}

// headerName decodes the Mcp-Name header (streamable-http, "Value Encoding").
func (r *request) headerName() string {
	name := r.header.Get("Mcp-Name")
	if inner, ok := strings.CutPrefix(name, "=?base64?"); ok {
		if text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?=")); err == nil {
			return string(text)
		}
	}
	return name
}

// sameJSON compares two values of JSON. A value that is absent equals an empty object.
func sameJSON(a, b json.RawMessage) bool {
	decode := func(text json.RawMessage) (v any) {
		if len(text) == 0 || json.Unmarshal(text, &v) != nil || v == nil {
			return map[string]any{}
		}
		return v
	}
	return reflect.DeepEqual(decode(a), decode(b))
}

func shorten(text string, most int) string {
	if len(text) > most {
		return excerpt.Of(text, most) + "…"
	}
	return text
}
