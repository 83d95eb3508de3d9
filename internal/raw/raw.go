// Package raw lets a handler take a tool's arguments, and return its result, as JSON that nobody decodes in between,
// for a server that passes calls on:
//
//	askback.AddTaskTool(srv, tool, support,
//		func(ctx context.Context, call *askback.Call, in raw.Call) (*raw.Result, error) { … })
//
// The arguments are not compared with the tool's input schema, and the result not with its output schema: the server
// behind does both. Only packages of this library can name these types.
package raw

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Call is a call of a tool as it came. Its bytes must not be changed.
type Call struct {
	Arguments []byte // an object, or nil where there is none
	Meta      []byte // the request's _meta, or nil
	Reports   bool   // the client wants to be told of progress
}

// Content is what people answer to a form that a stranger wrote: see package form, Read.
type Content []byte

// Result is a result as it is sent.
type Result struct {
	mcp.ResultBase        // with the _meta, if there is any
	Object         []byte // an object without _meta and resultType
}

// MarshalJSON returns the object with its _meta.
func (r *Result) MarshalJSON() ([]byte, error) {
	if len(r.Meta) == 0 {
		return r.Object, nil
	}
	meta, err := json.Marshal(r.Meta)
	if err != nil {
		return nil, err
	}
	members := bytes.TrimSuffix(r.Object[1:], []byte("}"))
	object := append(append(make([]byte, 0, len(r.Object)+len(meta)+16), `{"_meta":`...), meta...)
	if len(bytes.TrimSpace(members)) > 0 {
		object = append(object, ',')
	}
	return append(append(object, members...), '}'), nil
}

// passedMeta is where the _meta of something of the SDK's types has what is sent, or came, in its place.
const passedMeta = "io.github.askback-mcp/passed"

// InPlace has a value of one of the SDK's types stand for what is sent as it is, or came: a *[Result] for the result of
// a prompt or a resource, or JSON for sampling and its answer.
func InPlace[T *Result | json.RawMessage](typed interface{ SetMeta(map[string]any) }, passed T) {
	typed.SetMeta(map[string]any{passedMeta: passed})
}

// Of returns what a value stands for, or nil.
func Of[T *Result | json.RawMessage](typed interface{ GetMeta() map[string]any }) T {
	passed, _ := typed.GetMeta()[passedMeta].(T)
	return passed
}

// Around adds middleware to an *askback.Server that sees what is not a call of one of its handlers, which may be served
// past it. Its results may be a *[Result].
var Around func(server any, middleware mcp.Middleware)
