package tap

import (
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// shielded returns the parameters of a server's request as the SDK is to see them. Those of a question travel as they
// came, under [MetaParams]: the SDK's types would sort the fields of a form, and drop what they do not know.
func shielded(method string, params []byte, depth int) []byte {
	if method != input.MethodElicit && method != input.MethodCreateMessage ||
		strictjson.Check(params, depth) != nil || strictjson.TypeOf(params) != strictjson.TypeObject {
		return params
	}
	shown := append(make([]byte, 0, len(params)+len(params)/8+100), `{"messages":[],"maxTokens":1,"_meta":{`...)
	shown = append(strictjson.AppendString(shown, MetaParams), ':')
	return append(strictjson.AppendString(shown, string(params)), "}}"...)
}

// shieldedMessage is shielded for a whole message, whose JSON has been checked.
func shieldedMessage(data []byte, depth int) []byte {
	if strictjson.TypeOf(data) != strictjson.TypeObject || strictjson.Get(data, "id") == nil {
		return data
	}
	method, _ := strictjson.String(strictjson.Get(data, "method"))
	params := strictjson.Get(data, "params")
	if method == "" || params == nil {
		return data
	}
	other := []byte{'{'}
	for name, value := range strictjson.Members(data) {
		if string(name) == "params" {
			value = shielded(method, params, depth)
		}
		if len(other) > 1 {
			other = append(other, ',')
		}
		other = append(append(strictjson.AppendString(other, string(name)), ':'), value...)
	}
	return append(other, '}')
}
