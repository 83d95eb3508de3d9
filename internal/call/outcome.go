package call

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/wire"
)

// Outcome is how a request for a handler ended: with a complete result, or the task that the
// call became, or what is needed to go on: questions, a state, or both.
type Outcome struct {
	Result    mcp.Result
	Task      *Task
	Questions []*question.Question
	Apart     []*question.Question // those that the client is not asked
	State     string
	Expires   time.Time // of the state
	Meta      mcp.Meta  // of a handler in the manual style, beside its questions
	Encoded   []byte    // the whole result object, in place of all else
	// Follow, if set, serves the client in place of the Task, which it cannot take: see [Opened].
	Follow *Handler
	Named  bool // the handler knows the call's ID, which the next round must have, too

	detached bool                  // the handler wants the call to go on as a task
	one      [1]*question.Question // room for Questions: most rounds ask one
}

// Task is the task that a call became, as its creation is told.
type Task struct {
	wire.Task
	Extension bool // in the names of the extension
}

// InputRequired reports whether the call needs input, or only to come back.
func (o *Outcome) InputRequired() bool {
	return o.Result == nil && o.Task == nil && o.Encoded == nil && !o.detached
}

// Typed are the questions as the SDK's types.
func (o *Outcome) Typed() mcp.InputRequestMap {
	requests := make(mcp.InputRequestMap, len(o.Questions))
	for _, q := range o.Questions {
		requests[q.Wire] = q.Typed()
	}
	return requests
}

// Size estimates the bytes of the result object with info, so that few are moved.
func (o *Outcome) Size(info []byte) int {
	size := 256 + len(o.State) + len(info) + len(o.Encoded)
	for _, q := range o.Questions {
		size += len(q.Wire) + len(q.Params()) + 64
	}
	return size
}

// AppendResult appends the result object. A modern one says its type and, in info, the
// _meta of every result, who answers; info is nil for a session.
func (o *Outcome) AppendResult(dst, info []byte) ([]byte, error) {
	switch {
	case o.Encoded != nil:
		return append(dst, o.Encoded...), nil
	case o.Task != nil:
		return wire.CreateTaskResult(dst, &o.Task.Task, o.Task.Extension, info), nil
	case o.InputRequired():
		var buffer [512]byte
		meta, err := o.appendMeta(buffer[:0], info)
		if err != nil {
			return nil, err
		}
		requests := make([]wire.InputRequest, 0, 8)
		for _, q := range o.Questions {
			requests = append(requests, wire.InputRequest{Key: q.Wire, Method: q.Method, Params: q.Params()})
		}
		return wire.InputRequired(dst, requests, o.State, meta), nil
	}
	result := o.Result
	if own := result.GetMeta(); len(own) > 0 && info != nil {
		// What the handler set goes before who answers.
		all, err := merge(info, own)
		if err != nil {
			return nil, err
		}
		result, info = withMeta(result, all), nil
	}
	var buffer [1024]byte
	if text, ok := appendText(buffer[:0], result); ok {
		return wire.Complete(dst, text, info, ""), nil
	}
	encoded, members, err := EncodeResult(result)
	if err != nil {
		return nil, err
	}
	return wire.Complete(dst, encoded, info, members), nil
}

// appendText appends a result as [EncodeResult] encodes it with its further members, if it is a tool's and all of it
// is text, as most are.
func appendText(dst []byte, result mcp.Result) (encoded []byte, ok bool) {
	r, ok := result.(*mcp.CallToolResult)
	if !ok || len(r.Meta) > 0 || r.Content == nil || r.StructuredContent != nil ||
		r.InputRequests != nil || r.RequestState != "" {
		return nil, false
	}
	end := `],"isError":true}`
	if dst = append(dst, '{'); !r.IsError {
		dst, end = append(dst, `"isError":false,`...), `]}`
	}
	dst = append(dst, `"content":[`...)
	for i, c := range r.Content {
		text, ok := c.(*mcp.TextContent)
		if !ok || text == nil || len(text.Meta) > 0 || text.Annotations != nil {
			return nil, false
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":"text","text":`...)
		dst = append(wire.AppendString(dst, text.Text), '}')
	}
	return append(dst, end...), true
}

// appendMeta appends the _meta of a result that needs input, or nothing.
func (o *Outcome) appendMeta(meta, info []byte) ([]byte, error) {
	if len(o.Meta) > 0 {
		all, err := merge(info, o.Meta)
		if err != nil {
			return nil, err
		}
		if info, err = json.Marshal(all); err != nil {
			return nil, err
		}
	}
	if o.State == "" {
		return info, nil
	}
	meta = append(meta, '{')
	if len(info) > 2 { // more than {}
		meta = append(append(meta, info[1:len(info)-1]...), ',')
	}
	meta = append(meta, `"`+wire.MetaExpires+`":"`...)
	return append(o.Expires.UTC().AppendFormat(meta, time.RFC3339), `"}`...), nil
}

func merge(info []byte, own mcp.Meta) (mcp.Meta, error) {
	all := mcp.Meta{}
	if info != nil {
		if err := json.Unmarshal(info, &all); err != nil {
			return nil, err
		}
	}
	maps.Copy(all, own)
	return all, nil
}

// withMeta is a copy of a result with this _meta: the handler may return one result to many.
func withMeta(result mcp.Result, meta mcp.Meta) mcp.Result {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		result = new(*r)
	case *mcp.GetPromptResult:
		result = new(*r)
	case *mcp.ReadResourceResult:
		result = new(*r)
	}
	result.SetMeta(meta)
	return result
}

// EncodeResult encodes a handler's result. The further members, each ending in a comma, are
// what its type leaves out, though the specification's examples have it.
func EncodeResult(result mcp.Result) (encoded []byte, members string, err error) {
	if res, ok := result.(*mcp.CallToolResult); ok && !res.IsError {
		members = `"isError":false,`
	}
	if m, ok := result.(json.Marshaler); ok {
		// The SDK's results encode themselves; json.Marshal would scan what they made once more.
		encoded, err = m.MarshalJSON()
	} else {
		encoded, err = json.Marshal(result)
	}
	return encoded, members, err
}
