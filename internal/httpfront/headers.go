package httpfront

import (
	"iter"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/sdkfront"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// checkSession verifies that the headers of a request agree with each message of its checked body. Revisions before
// 2026-07-28 require none of these headers, but proxies act upon the ones that are present.
func checkSession(sdk *sdkfront.Front, r *http.Request, body []byte) *jsonrpc.Error {
	for message := range messages(body) {
		method, _ := strictjson.String(strictjson.Get(message, "method"))
		params := strictjson.Get(message, "params")
		name := wire.Name(method, params)
		if fault := wire.CheckRouting(r.Header, method, name, false); fault != nil {
			return fault
		}
		if method != wire.CallTool || !wire.HasParamHeaders(r.Header) {
			continue
		}
		mirrored, err := sdk.ParamHeaders(r.Context(), name)
		if err != nil {
			return wire.Errorf(jsonrpc.CodeInternalError, "%v", err)
		}
		if fault := checkMirrored(r.Header, mirrored, strictjson.Get(params, "arguments"), false); fault != nil {
			return fault
		}
	}
	return nil
}

// checkMirrored verifies the headers that mirror a tool's parameters. They may be absent unless they are required.
func checkMirrored(h http.Header, mirrored []wire.ParamHeader, arguments []byte, required bool) *jsonrpc.Error {
	for _, header := range mirrored {
		if !required && !header.In(h) {
			continue
		}
		if fault := header.Check(h, arguments); fault != nil {
			return fault
		}
	}
	return nil
}

// messages returns the messages of a checked body, which is one message or a batch.
func messages(body []byte) iter.Seq[[]byte] {
	if strictjson.TypeOf(body) == strictjson.TypeArray {
		return strictjson.Elements(body)
	}
	return func(yield func([]byte) bool) { yield(body) }
}
