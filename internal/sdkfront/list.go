package sdkfront

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// List returns the encoded result of a list or of server/discover, as the SDK's server makes it for a request of
// 2026-07-28 over HTTP. If it returns nil, the request has to take the SDK's path: something else must see it there,
// or it ends with an error.
//
// The SDK's server is asked for every list, so that a change is seen at once, by whatever way it was made. What is kept
// is the encoding of a page of tools, as long as the page has the same tools: the SDK demands that a tool is not
// modified after it was added. The SDK demands no such thing of prompts and resources, which have no schemas and are
// cheap to encode.
func (f *Front) List(ctx context.Context, method string, params []byte, extra *mcp.RequestExtra) []byte {
	cursor := ""
	if raw := strictjson.Get(params, "cursor"); raw != nil {
		var ok bool
		if cursor, ok = strictjson.String(raw); !ok {
			return nil
		}
	}
	req := f.listRequest(method, cursor, extra)
	if req == nil || !f.lists || !f.Direct() || f.Chained() || !decodable(strictjson.Get(params, "_meta")) {
		return nil
	}
	result, err := f.receive(Admitted(ctx), method, req)
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

// encodeList encodes a result as the SDK does: without escapes for HTML, where the descriptions of tools are readable.
func encodeList(result mcp.Result, info []byte) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(result); err != nil {
		return nil, err
	}
	encoded := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return wire.Complete(make([]byte, 0, len(encoded)+len(info)+64), encoded, info, ""), nil
}

// listRequest returns the request of a method that List serves, or nil.
func (f *Front) listRequest(method, cursor string, extra *mcp.RequestExtra) mcp.Request {
	meta := mcp.Meta{mcp.MetaKeyProtocolVersion: wire.Version}
	switch method {
	case "tools/list":
		return &mcp.ListToolsRequest{Session: f.listing, Params: &mcp.ListToolsParams{Meta: meta, Cursor: cursor}, Extra: extra}
	case "prompts/list":
		return &mcp.ListPromptsRequest{Session: f.listing, Params: &mcp.ListPromptsParams{Meta: meta, Cursor: cursor}, Extra: extra}
	case "resources/list":
		return &mcp.ListResourcesRequest{Session: f.listing, Params: &mcp.ListResourcesParams{Meta: meta, Cursor: cursor}, Extra: extra}
	case "resources/templates/list":
		return &mcp.ListResourceTemplatesRequest{Session: f.listing, Params: &mcp.ListResourceTemplatesParams{Meta: meta, Cursor: cursor}, Extra: extra}
	case "server/discover":
		return &mcp.ServerRequest[*mcp.DiscoverParams]{Session: f.listing, Params: &mcp.DiscoverParams{Meta: meta}, Extra: extra}
	}
	return nil
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

// listingSession returns the session that asks the SDK's server for lists. It is like the session of an HTTP request,
// but closed: the SDK's handlers of lists work nevertheless.
func listingSession(m *mcp.Server) (*mcp.ServerSession, error) {
	session, err := m.Connect(context.Background(), &mcp.StreamableServerTransport{Stateless: true}, nil)
	if err != nil {
		return nil, err
	}
	return session, session.Close()
}

// pages are the encoded pages of the list of tools, from the first on: each has the cursor that the one before it led
// to. So there are never more than the list has. The zero value has none.
type pages struct {
	mu   sync.Mutex
	kept []page
}

type page struct {
	cursor  string
	list    *mcp.ListToolsResult // which holds the SDK's own *mcp.Tool
	encoded []byte
}

// encode returns the encoding of the list that the cursor leads to.
func (p *pages) encode(cursor string, list *mcp.ListToolsResult, info []byte) ([]byte, error) {
	p.mu.Lock() // also while encoding: whoever waits needs what comes out
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.kept, func(k page) bool { return k.cursor == cursor })
	if i >= 0 && same(p.kept[i].list, list) {
		return p.kept[i].encoded, nil
	}
	encoded, err := encodeList(list, info)
	if err != nil {
		return nil, err
	}
	if i >= 0 { // it has changed, and the pages behind it may be others
		clear(p.kept[i:])
		p.kept = p.kept[:i]
	}
	// Anybody can make up a cursor that no page leads to.
	if n := len(p.kept); n == 0 && cursor == "" || n > 0 && cursor != "" && p.kept[n-1].list.NextCursor == cursor {
		p.kept = append(p.kept, page{cursor, list, encoded})
	}
	return encoded, nil
}

func same(a, b *mcp.ListToolsResult) bool {
	return a.Cacheable == b.Cacheable && a.NextCursor == b.NextCursor && slices.Equal(a.Tools, b.Tools)
}
