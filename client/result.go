package client

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// These functions read members that results of several methods share. The JSON has been checked.

// stringMember returns a member of a result, or nil if it is missing.
func stringMember(result []byte, name string) (*string, error) {
	raw := strictjson.Get(result, name)
	if raw == nil {
		return nil, nil
	}
	value, ok := strictjson.String(raw)
	if !ok {
		return nil, &ProtocolError{name + " is not a string"}
	}
	return &value, nil
}

// resultType returns the type of a result. Results before 2026-07-28 have none and are complete.
func resultType(result []byte) (string, error) {
	kind, err := stringMember(result, "resultType")
	if kind == nil {
		return "complete", err
	}
	return *kind, nil
}

// requestState returns the state in a result, or nil. The empty string is a state, too.
func requestState(result []byte) (*string, error) { return stringMember(result, "requestState") }

// nextCursor returns the cursor of a list's next page, or the empty string after the last.
func nextCursor(page []byte) (string, error) {
	raw := strictjson.Get(page, "nextCursor")
	next, ok := strictjson.String(raw)
	if !ok && raw != nil && strictjson.TypeOf(raw) != strictjson.TypeNull {
		return "", &ProtocolError{"nextCursor is not a string"}
	}
	return next, nil
}

// decode decodes a result with the type's own decoder, which is the SDK's. It needs no second look at JSON that was
// checked.
func decode[R interface {
	mcp.Result
	json.Unmarshaler
}](raw []byte, into R) (mcp.Result, error) {
	return into, into.UnmarshalJSON(raw)
}
