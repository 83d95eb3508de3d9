package call

import (
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

func (r *Request) view(m Manual) mcp.Request {
	if r.As != nil {
		return r.As(m)
	}
	return View(r.Handler.Method, r.Raw, r.Session, r.Extra, m)
}

// View makes the SDK's view of a request. What does not decode is left zero.
func View(method string, raw []byte, session *mcp.ServerSession, extra *mcp.RequestExtra, m Manual) mcp.Request {
	// By exact names: encoding/json would let "Arguments" stand in for "arguments".
	var meta mcp.Meta
	_ = json.Unmarshal(strictjson.Get(raw, "_meta"), &meta)
	target, _ := strictjson.String(strictjson.Get(raw, wire.TargetMember(method)))
	arguments := strictjson.Get(raw, "arguments")
	responses := m.Typed()
	switch method {
	case wire.CallTool:
		return &mcp.CallToolRequest{Session: session, Extra: extra, Params: &mcp.CallToolParamsRaw{
			Meta: meta, Name: target, Arguments: arguments, InputResponses: responses, RequestState: m.State,
		}}
	case wire.GetPrompt:
		var texts map[string]string
		_ = json.Unmarshal(arguments, &texts)
		return &mcp.GetPromptRequest{Session: session, Extra: extra, Params: &mcp.GetPromptParams{
			Meta: meta, Name: target, Arguments: texts, InputResponses: responses, RequestState: m.State,
		}}
	default:
		return &mcp.ReadResourceRequest{Session: session, Extra: extra, Params: &mcp.ReadResourceParams{
			Meta: meta, URI: target, InputResponses: responses, RequestState: m.State,
		}}
	}
}

// Typed are the responses as the SDK's types; those of unknown form are left out, and so asked again.
func (m Manual) Typed() mcp.InputResponseMap {
	if m.Responses == nil {
		return nil
	}
	typed := make(mcp.InputResponseMap, len(m.Responses))
	for key, raw := range m.Responses {
		var decoded mcp.InputResponseMap
		one, err := json.Marshal(map[string]json.RawMessage{key: raw})
		if err == nil && json.Unmarshal(one, &decoded) == nil {
			maps.Copy(typed, decoded)
		}
	}
	return typed
}
