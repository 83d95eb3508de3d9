package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/foreign"
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
	after  *round // of which it is the retry

	// What the body says; empty if it is no JSON-RPC message.
	ID     json.RawMessage
	Method string
	Params struct {
		Name           string
		Arguments      json.RawMessage
		TaskID         string
		RequestState   *string
		InputResponses map[string]json.RawMessage
		Meta           struct {
			Version  string                         `json:"io.modelcontextprotocol/protocolVersion"`
			Declared json.RawMessage                `json:"io.modelcontextprotocol/clientCapabilities"`
			Client   struct{ Name, Version string } `json:"io.modelcontextprotocol/clientInfo"`
		} `json:"_meta"`
	}
}

// client is the name of the client, and its version.
func (r *request) client() string {
	c := r.Params.Meta.Client
	return foreign.Line(c.Name+" "+c.Version, 100)
}

// declares reports whether the request declares that the client answers a kind of question: "form", "url", "sampling",
// "roots", or takes "tasks".
func (r *request) declares(kind string) bool {
	var all struct {
		Elicitation     *struct{ Form, URL *json.RawMessage }
		Sampling, Roots *json.RawMessage
		Extensions      map[string]json.RawMessage
	}
	if json.Unmarshal(r.Params.Meta.Declared, &all) != nil {
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
	found := bytes.Contains(r.body, []byte(text)) || strings.Contains(r.path, text)
	for _, values := range r.header {
		found = found || strings.Contains(strings.Join(values, "\n"), text)
	}
	return found
}

// names reports whether the Mcp-Name header is a text (streamable-http, "Value Encoding").
func (r *request) names(text string) bool {
	name := r.header.Get("Mcp-Name")
	return name == text || name == "=?base64?"+base64.StdEncoding.EncodeToString([]byte(text))+"?="
}

// describe names a request.
func (r *request) describe() string {
	if r.Method == "" {
		return r.verb + " request"
	}
	return foreign.Line(r.Method+" "+r.Params.Name, 100)
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
