package client

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// Question is an input request of a server. Everything in it is the server's word.
type Question struct {
	// Key names the question within its call. Inside a session before 2026-07-28 it is the
	// method, unless the server is one of Askback's.
	Key string `json:"key"`
	// Server is who asks, or nil. It is not encoded.
	Server *mcp.Implementation `json:"-"`
	// Method is "elicitation/create", "sampling/createMessage" or "roots/list".
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`

	// The fields below are of an elicitation, and are read from Params.

	// Message is the text for the user.
	Message string `json:"-"`
	// Schema is the form's schema, or nil for a page. Its properties are in the server's
	// order; inside a session before 2026-07-28 they are sorted.
	Schema json.RawMessage `json:"-"`
	// URL is the page to open, http or https, or empty for a form.
	URL string `json:"-"`
}

const (
	methodElicit        = "elicitation/create"
	methodCreateMessage = "sampling/createMessage"
	methodListRoots     = "roots/list"
)

// parse sets the fields that are read from Params.
func (q *Question) parse() error {
	if q.Method != methodElicit {
		return nil
	}
	if kind := strictjson.TypeOf(q.Params); kind != strictjson.TypeObject && kind != strictjson.TypeNull {
		return &ProtocolError{fmt.Sprintf("the question %q has no parameters", q.Key)}
	}
	var (
		mode, address string
		schema        json.RawMessage
	)
	for name, value := range strictjson.Members(q.Params) {
		text, isString := strictjson.String(value)
		isString = isString || strictjson.TypeOf(value) == strictjson.TypeNull
		switch string(name) {
		case "mode":
			mode = text
		case "message":
			q.Message = text
		case "url":
			address = text
		case "requestedSchema":
			schema, isString = value, true
		default:
			continue
		}
		if !isString {
			return &ProtocolError{fmt.Sprintf("the question %q: its %s is not a string", q.Key, name)}
		}
	}
	switch {
	case mode == "url" && address == "":
		return &ProtocolError{fmt.Sprintf("the question %q has no URL", q.Key)}
	case mode == "url" && !isPage(address):
		return &ProtocolError{fmt.Sprintf("the question %q asks to open %.60q, which is not an https:// or http:// URL", q.Key, address)}
	case mode == "url":
		q.URL = address
	case mode == "form" || mode == "":
		if q.Schema = schema; q.Schema == nil {
			q.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
	default:
		return &UndeclaredError{Key: q.Key, Kind: "elicitation." + mode}
	}
	return nil
}

// isPage reports whether an address is an absolute URL of the web. A URL of another scheme
// may run what it names, or read it from the user's disk.
func isPage(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// digest tells questions with the same key apart.
func (q *Question) digest() [32]byte {
	data, _ := json.Marshal([]any{q.Method, q.Params}) // sound JSON always marshals
	return strictjson.Digest(data)
}

// parseQuestions reads the inputRequests of a result, whose JSON has been checked. It returns
// nil where they are missing.
func parseQuestions(result []byte, server *mcp.Implementation, limits *Limits) ([]*Question, error) {
	requests := strictjson.Get(result, "inputRequests")
	if requests == nil {
		return nil, nil
	}
	if strictjson.TypeOf(requests) != strictjson.TypeObject {
		return nil, &ProtocolError{"inputRequests is not an object"}
	}
	questions := []*Question{}
	for name, value := range strictjson.Members(requests) {
		if len(questions) == limits.Questions {
			return nil, limits.questionsReached()
		}
		q := &Question{Key: string(name), Server: server, Params: slices.Clone(strictjson.Get(value, "params"))}
		if strictjson.TypeOf(value) != strictjson.TypeObject {
			return nil, &ProtocolError{fmt.Sprintf("the question %q is not an object", q.Key)}
		}
		q.Method, _ = strictjson.String(strictjson.Get(value, "method"))
		if err := q.parse(); err != nil {
			return nil, err
		}
		questions = append(questions, q)
	}
	return questions, nil
}
