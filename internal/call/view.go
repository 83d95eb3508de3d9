package call

import (
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// View makes the SDK's view of a request. What does not decode is left zero.
func View(method string, raw []byte, session *mcp.ServerSession, extra *mcp.RequestExtra, m Manual) mcp.Request {
	// By exact names: encoding/json would let "Arguments" stand in for "arguments".
	var fields struct {
		Meta      mcp.Meta
		Name, URI string
		Arguments json.RawMessage
	}
	_ = json.Unmarshal(strictjson.Get(raw, "_meta"), &fields.Meta)
	fields.Name, _ = strictjson.String(strictjson.Get(raw, "name"))
	fields.URI, _ = strictjson.String(strictjson.Get(raw, "uri"))
	fields.Arguments = strictjson.Get(raw, "arguments")
	responses := m.Typed()
	switch method {
	case wire.CallTool:
		return &mcp.CallToolRequest{Session: session, Extra: extra, Params: &mcp.CallToolParamsRaw{
			Meta: fields.Meta, Name: fields.Name, Arguments: fields.Arguments, InputResponses: responses, RequestState: m.State,
		}}
	case wire.GetPrompt:
		var arguments map[string]string
		_ = json.Unmarshal(fields.Arguments, &arguments)
		return &mcp.GetPromptRequest{Session: session, Extra: extra, Params: &mcp.GetPromptParams{
			Meta: fields.Meta, Name: fields.Name, Arguments: arguments, InputResponses: responses, RequestState: m.State,
		}}
	default:
		return &mcp.ReadResourceRequest{Session: session, Extra: extra, Params: &mcp.ReadResourceParams{
			Meta: fields.Meta, URI: fields.URI, InputResponses: responses, RequestState: m.State,
		}}
	}
}

// Typed are the responses as the SDK's types; those of unknown form are left out, and so
// asked again.
func (m Manual) Typed() mcp.InputResponseMap {
	if m.Responses == nil {
		return nil
	}
	typed := make(mcp.InputResponseMap, len(m.Responses))
	for key, raw := range m.Responses {
		one, err := json.Marshal(map[string]json.RawMessage{key: raw})
		if err != nil {
			continue
		}
		var decoded mcp.InputResponseMap
		if json.Unmarshal(one, &decoded) == nil {
			maps.Copy(typed, decoded)
		}
	}
	return typed
}
