// Package input has the records of a call's questions: one [Question], in the same form for the client that is asked,
// for the operator who looks at what waits, and for people who answer in place of the client. It imports nothing of
// Askback's other packages that are public, so that all of them can use it.
package input

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// The methods of questions.
const (
	MethodElicit        = "elicitation/create"
	MethodCreateMessage = "sampling/createMessage"
	MethodListRoots     = "roots/list"
)

// Question is an input request of a server (mrtr, "InputRequest"). Everything in it is the server's word. A Question
// may be read by several goroutines as long as none of them calls Parse.
type Question struct {
	// Key names the question within its call. To a client of a session before 2026-07-28 it is the method, unless the
	// server is one of Askback's.
	Key string `json:"key"`
	// Server names the server that asks, or is nil if that is not known. It is not encoded.
	Server *mcp.Implementation `json:"-"`
	// Method is MethodElicit, MethodCreateMessage or MethodListRoots.
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`

	// The fields below are of an elicitation. Parse reads them from Params.

	// Mode is "form" or "url". Any other mode is one that this release does not know.
	Mode string `json:"-"`
	// Message is the text for the user. It is encoded for readers who do not look into Params; Parse replaces it.
	Message string `json:"message,omitempty"`
	// Schema is the form's schema, or nil for a page. Its properties are in the server's
	// order; to a client of a session before 2026-07-28 they are sorted.
	Schema json.RawMessage `json:"-"`
	// URL is the page to open, http or https, or empty for a form.
	URL string `json:"-"`
}

// Parse sets the fields that are read from Params, which must be sound JSON or empty. If the elicitation is malformed
// the error says in what, and the fields are empty.
func (q *Question) Parse() error {
	q.Mode, q.Message, q.Schema, q.URL = "", "", nil, ""
	if q.Method != MethodElicit {
		return nil
	}
	if kind := strictjson.TypeOf(q.Params); kind != strictjson.TypeObject && kind != strictjson.TypeNull {
		return fmt.Errorf("the question %q has no parameters", q.Key)
	}
	var (
		mode, message, page string
		schema              json.RawMessage
	)
	for name, value := range strictjson.Members(q.Params) {
		text, isString := strictjson.String(value)
		isString = isString || strictjson.TypeOf(value) == strictjson.TypeNull
		switch string(name) {
		case "mode":
			mode = text
		case "message":
			message = text
		case "url":
			page = text
		case "requestedSchema":
			schema, isString = value, true
		default:
			continue
		}
		if !isString {
			return fmt.Errorf("the question %q: its %s is not a string", q.Key, name)
		}
	}
	switch mode {
	case "url":
		if page == "" {
			return fmt.Errorf("the question %q has no URL", q.Key)
		}
		if !isPage(page) {
			return fmt.Errorf("the question %q asks to open %.60q, which is not an https:// or http:// URL", q.Key, page)
		}
		q.URL = page
	case "form", "":
		mode = "form"
		if q.Schema = schema; q.Schema == nil {
			q.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
	}
	q.Mode, q.Message = mode, message
	return nil
}

// isPage reports whether an address is an absolute URL of the web. A URL of another scheme
// may run a program that it names, or read a file from the user's disk.
func isPage(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}
