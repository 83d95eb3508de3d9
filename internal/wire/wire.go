// Package wire reads and writes the JSON-RPC messages of the 2026-07-28 revision that Askback serves itself: it
// decodes only what the request path needs, from bytes that [strictjson.Check] has accepted, and leaves the rest as
// raw slices.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/excerpt"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Version is the protocol revision whose requests this package reads.
const Version = "2026-07-28"

// The members that Askback's servers add to a _meta.
const (
	// MetaExpires, in the _meta of a result, is the time at which its requestState expires, for clients that let a
	// question wait.
	MetaExpires = "io.github.askback-mcp/expires"
	// MetaKey, in the _meta of a question, is its key, for which the protocol has no place inside a session.
	MetaKey = "io.github.askback-mcp/key"
)

// The requests that may be answered with input required (basic/patterns/mrtr, "Supported Requests").
const (
	CallTool     = "tools/call"
	GetPrompt    = "prompts/get"
	ReadResource = "resources/read"
)

// MayAsk reports whether a request of this method may be answered with input required.
func MayAsk(method string) bool {
	return method == CallTool || method == GetPrompt || method == ReadResource
}

// TargetMember is the member of a request's params that names its tool, prompt or resource.
func TargetMember(method string) string {
	if method == ReadResource {
		return "uri"
	}
	return "name"
}

// Request is a JSON-RPC request or, with a nil ID, a notification. ID and Params are raw JSON.
type Request struct {
	ID      []byte
	Method  string
	Params  []byte
	outline *strictjson.Outline // of the message, with Params; nil if it was not read here
}

// Cut shortens a text of a peer for a log or an error: a text beyond that many bytes becomes its beginning and its
// size.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(excerpt.Of(s, most), ""), len(s))
}

// CodeTooLong is the code of the response that stands for one that a transport of ours did not read, because it is too
// long. It is reserved in JSON-RPC, so that no server has it.
const CodeTooLong = -32768

// TooLong returns the error for a response of more than most bytes.
func TooLong(most int) *jsonrpc.Error {
	return Errorf(CodeTooLong, "the response has more than %d bytes, and was not read", most)
}

// Errorf makes a JSON-RPC error.
func Errorf(code int64, format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// ParseRequest reads one message. Its error is -32700 for bytes that are not strict JSON, and -32600 for anything but
// a single request. The ID is set if it could be read. The request uses outline, which is changed. With digest, the
// digest of the arguments is made at once.
func ParseRequest(body []byte, maxDepth int, outline *strictjson.Outline, digest bool) (Request, *jsonrpc.Error) {
	req := Request{outline: outline}
	want := strictjson.Wanted{Inner: "params"}
	if digest {
		want.Digest = "arguments"
	}
	if err := outline.Check(body, maxDepth, want); err != nil {
		req.ID, _ = Addressee(body)
		return req, Errorf(jsonrpc.CodeParseError, "parse error: %v", err)
	}
	switch strictjson.TypeOf(body) {
	case strictjson.TypeObject:
	case strictjson.TypeArray:
		return req, Errorf(jsonrpc.CodeInvalidRequest,
			"invalid request: batches are not part of this protocol version; send one request per POST")
	default:
		return req, Errorf(jsonrpc.CodeInvalidRequest, "invalid request: the body must be a JSON object")
	}
	var version, method, id []byte
	for name, value := range outline.Members() {
		switch string(name) {
		case "jsonrpc":
			version = value
		case "method":
			method = value
		case "id":
			id = value
		case "params":
			req.Params = value
		}
	}
	if id != nil {
		if !ValidID(id) {
			return req, Errorf(jsonrpc.CodeInvalidRequest, `invalid request: "id" must be a string or an integer`)
		}
		req.ID = id
	}
	if v, ok := strictjson.Text(version); !ok || string(v) != "2.0" {
		return req, Errorf(jsonrpc.CodeInvalidRequest, `invalid request: "jsonrpc" must be "2.0"`)
	}
	m, ok := strictjson.Text(method)
	if !ok || len(m) == 0 {
		return req, Errorf(jsonrpc.CodeInvalidRequest, `invalid request: "method" must be a string`)
	}
	req.Method = constant(m, CallTool, GetPrompt, ReadResource, GetTask, UpdateTask)
	if req.Params != nil && strictjson.TypeOf(req.Params) != strictjson.TypeObject {
		return req, Errorf(jsonrpc.CodeInvalidRequest, `invalid request: "params" must be an object`)
	}
	return req, nil
}

// constant returns a text as one of the constants that it usually equals. Every request has a method, and this saves
// its allocation.
func constant(text []byte, usual ...string) string {
	for _, s := range usual {
		if string(text) == s {
			return s
		}
	}
	return string(text)
}

// Addressee returns the ID of the request that a refused message belongs to: the client's own request or, if response
// is true, the server's request that the message answers. It is nil if there is no such ID, or no single one, as in a
// batch: an error under a wrong ID would end another request of the client.
func Addressee(message []byte) (id []byte, response bool) {
	if !json.Valid(message) || strictjson.TypeOf(message) != strictjson.TypeObject {
		return nil, false
	}
	ids, method := 0, false
	for name, value := range strictjson.Members(message) {
		switch string(name) {
		case "id":
			ids++
			id = value
		case "method":
			method = true
		case "result", "error":
			response = true
		}
	}
	if ids != 1 || strictjson.Check(id, 0) != nil || !ValidID(id) {
		return nil, false
	}
	return id, response && !method
}

// ValidID reports whether raw JSON is a request id or progress token: a string or an integer. As in JSON Schema, 1.0 is
// an integer, because some languages write integers so. An exponent is refused: no client has a reason to write one.
func ValidID(id []byte) bool {
	switch strictjson.TypeOf(id) {
	case strictjson.TypeString:
		return true
	case strictjson.TypeNumber:
		_, fraction, _ := bytes.Cut(id, []byte("."))
		return len(bytes.TrimLeft(fraction, "0")) == 0 && !bytes.ContainsAny(id, "eE")
	}
	return false
}

// IDText returns the ID of a request as a text for logs and traces, or "" for nil. Clients choose their IDs, so that a
// long one is cut.
func IDText(id []byte) string {
	const most = 64
	text, ok := strictjson.Text(id)
	if !ok {
		text = id
	}
	return strings.ToValidUTF8(string(text[:min(len(text), most)]), "")
}

// AppendError appends an error response. A nil id leaves the member out, as the schema asks where no id could be
// read.
func AppendError(dst, id []byte, err *jsonrpc.Error) []byte {
	body, fault := json.Marshal(err)
	if fault != nil { // the handler's Data is not JSON, and the client must get a response all the same
		body, _ = json.Marshal(&jsonrpc.Error{Code: err.Code, Message: err.Message})
	}
	dst = append(appendHead(dst, id), `"error":`...)
	return append(append(dst, body...), '}')
}

// AppendResult appends a result response; result appends a JSON object.
func AppendResult(dst, id []byte, result func(dst []byte) []byte) []byte {
	return append(result(AppendResultHead(dst, id)), '}')
}

// AppendResultHead appends a result response up to the result, behind which is a closing brace.
func AppendResultHead(dst, id []byte) []byte {
	return append(appendHead(dst, id), `"result":`...)
}

// AppendRequest appends a request, or a notification.
func AppendRequest(dst []byte, req Request) []byte {
	dst = append(appendHead(dst, req.ID), `"method":`...)
	dst = append(AppendString(dst, req.Method), `,"params":`...)
	return append(append(dst, req.Params...), '}')
}

// AppendNotification appends a notification; params is raw JSON.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	return AppendRequest(dst, Request{Method: method, Params: params})
}

func appendHead(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if id != nil {
		dst = append(dst, `"id":`...)
		dst = append(dst, id...)
		dst = append(dst, ',')
	}
	return dst
}

// Complete appends an encoded SDK result as the 2026-07-28 revision sends it: with its resultType, with meta (a raw
// object) as its _meta when it has none, and with further members, each ending in a comma.
func Complete(dst, result, meta []byte, members string) []byte {
	dst = appendMeta(append(dst, `{"resultType":"complete"`...), meta)
	if len(result) > 2 { // more than {}
		dst = append(dst, ',')
		dst = append(dst, members...)
	}
	return append(dst, result[1:]...)
}

// CompleteMembers is [Complete] for a result whose members have no braces.
func CompleteMembers(dst, members, meta []byte) []byte {
	dst = appendMeta(append(dst, `{"resultType":"complete"`...), meta)
	if len(members) > 0 {
		dst = append(append(dst, ','), members...)
	}
	return append(dst, '}')
}

// InputRequest is one question on the wire.
type InputRequest struct {
	Key    string
	Method string
	Params []byte
}

// InputRequired appends an InputRequiredResult. Without requests the client only comes back with the state: there is an
// empty inputRequests member then, by which the Go SDK's client tells the result from a complete one.
func InputRequired(dst []byte, requests []InputRequest, state string, meta []byte) []byte {
	dst = append(dst, `{"resultType":"input_required"`...)
	dst = AppendInputRequests(append(dst, `,"inputRequests":`...), requests)
	if state != "" {
		dst = AppendString(append(dst, `,"requestState":`...), state)
	}
	return append(appendMeta(dst, meta), '}')
}

// AppendString appends a text as a JSON string. What is not UTF-8 in it becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return strictjson.AppendString(dst, s)
}

// UnsupportedVersion is the error of versioning, "Protocol Version Negotiation".
func UnsupportedVersion(requested string, supported []string) *jsonrpc.Error {
	data, _ := json.Marshal(map[string]any{"requested": requested, "supported": supported}) // strings only
	return &jsonrpc.Error{Code: mcp.CodeUnsupportedProtocolVersion, Message: "Unsupported protocol version", Data: data}
}
