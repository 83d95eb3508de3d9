package client

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// decodeToolResult decodes a result whose JSON has been checked. The SDK (1.8.0) takes 32 kB of memory for each;
// results of text only, which are most, are read here, to the same value.
func decodeToolResult(raw []byte) (mcp.Result, error) {
	if res := decodeText(raw); res != nil {
		return res, nil
	}
	return decode(raw, new(mcp.CallToolResult))
}

// completed is an empty result with its type, which only the SDK's decoder can set.
var completed = func() (res mcp.CallToolResult) {
	if err := res.UnmarshalJSON([]byte(`{"resultType":"complete","content":[]}`)); err != nil {
		panic(err)
	}
	return res
}()

// decodeText decodes a complete result whose content is text without annotations. It returns nil for any other.
func decodeText(raw []byte) *mcp.CallToolResult {
	res, typed := completed, false
	for name, value := range strictjson.Members(raw) {
		ok := false
		switch string(name) {
		case "resultType":
			typed, ok = true, string(value) == `"complete"`
		case "content":
			res.Content, ok = decodeTexts(value)
		case "isError":
			res.IsError, ok = string(value) == "true", strictjson.TypeOf(value) == strictjson.TypeBool
		case "structuredContent":
			ok = json.Unmarshal(value, &res.StructuredContent) == nil
		case "_meta":
			ok = strictjson.TypeOf(value) == strictjson.TypeObject && json.Unmarshal(value, &res.Meta) == nil
		}
		if !ok {
			return nil
		}
	}
	if !typed {
		return nil
	}
	return &res
}

func decodeTexts(content []byte) ([]mcp.Content, bool) {
	if strictjson.TypeOf(content) != strictjson.TypeArray {
		return nil, false
	}
	texts := []mcp.Content{}
	for block := range strictjson.Elements(content) {
		text, typed := new(mcp.TextContent), false
		for name, value := range strictjson.Members(block) {
			ok := false
			switch string(name) {
			case "type":
				typed, ok = true, string(value) == `"text"`
			case "text":
				text.Text, ok = strictjson.String(value)
			}
			if !ok {
				return nil, false
			}
		}
		if !typed {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, true
}
