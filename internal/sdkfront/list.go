package sdkfront

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// List returns the encoded result of a list or of server/discover, as the SDK's server makes it for a request of
// 2026-07-28 over HTTP. If it returns nil, the request has to take the SDK's path: something else must see it there,
// or it ends with an error.
//
// The SDK's server is asked for every list, so that every change is seen at once. What is kept is the encoding of a
// page of tools, as long as the page has the same tools: the SDK demands that a tool is not modified after it was
// added. The SDK demands no such thing of prompts and resources, which have no schemas and are cheap to encode.
func (f *Front) List(ctx context.Context, r *Request) []byte {
	cursor := ""
	if raw := strictjson.Get(r.Params, "cursor"); raw != nil {
		var ok bool
		if cursor, ok = strictjson.String(raw); !ok {
			return nil
		}
	}
	req := f.registered.request(r.Method, cursor, &r.Extra)
	if req == nil || !f.lists || f.watched() || !decodable(strictjson.Get(r.Params, "_meta")) {
		return nil
	}
	result, err := f.receive(f.Context(ctx, r), r.Method, req)
	if err != nil {
		return nil
	}
	var encoded []byte
	if tools, ok := result.(*mcp.ListToolsResult); ok {
		encoded, err = f.tools.encode(cursor, tools, f.Info)
	} else {
		encoded, err = encodeList(result, f.Info)
	}
	if err != nil {
		return nil
	}
	return encoded
}

// decodable reports whether the SDK can decode what a client says of itself, without which it refuses a request.
func decodable(meta []byte) bool {
	for name, value := range strictjson.Members(meta) {
		var into any
		switch string(name) {
		case mcp.MetaKeyClientInfo:
			into = new(mcp.Implementation)
		case mcp.MetaKeyClientCapabilities:
			into = new(mcp.ClientCapabilities)
		default:
			continue
		}
		if json.Unmarshal(value, into) != nil {
			return false
		}
	}
	return true
}

// hasCacheableHook reports whether the operator has set SetCacheable, which may look at the session of a request. It is
// also true if that cannot be known.
func hasCacheableHook(m *mcp.Server) bool {
	opts := reflect.ValueOf(m).Elem().FieldByName("opts")
	if !opts.IsValid() || opts.Kind() != reflect.Struct {
		return true
	}
	hook := opts.FieldByName("SetCacheable")
	return !hook.IsValid() || hook.Kind() != reflect.Func || !hook.IsNil()
}
