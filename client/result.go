package client

import (
	"strings"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// These functions read members that results of several methods share. The JSON has been
// checked.

// resultType returns the type of a result. Results before 2026-07-28 have none and are
// complete.
func resultType(result []byte) (string, error) {
	raw := strictjson.Get(result, "resultType")
	if raw == nil {
		return "complete", nil
	}
	kind, ok := strictjson.String(raw)
	if !ok {
		return "", &ProtocolError{"resultType is not a string"}
	}
	return kind, nil
}

// requestState returns the state in a result, or nil. The empty string is a state, too.
func requestState(result []byte) (*string, error) {
	raw := strictjson.Get(result, "requestState")
	if raw == nil {
		return nil, nil
	}
	state, ok := strictjson.String(raw)
	if !ok {
		return nil, &ProtocolError{"requestState is not a string"}
	}
	state = strings.Clone(state)
	return &state, nil
}

// nextCursor returns the cursor of a list's next page, or the empty string after the last.
func nextCursor(page []byte) (string, error) {
	value := strictjson.Get(page, "nextCursor")
	if value == nil || strictjson.TypeOf(value) == strictjson.TypeNull {
		return "", nil
	}
	next, ok := strictjson.String(value)
	if !ok {
		return "", &ProtocolError{"nextCursor is not a string"}
	}
	return next, nil
}
