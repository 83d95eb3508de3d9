package bridge

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// getPrompt is the handler of a prompt.
func (t *target) getPrompt(
	ctx context.Context, call *askback.Call, arguments map[string]string,
) (*mcp.GetPromptResult, error) {
	params, err := json.Marshal(&mcp.GetPromptParams{Name: t.name, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	result := new(mcp.GetPromptResult)
	if err := t.passInto(ctx, call, params, result); err != nil {
		return nil, err
	}
	return result, nil
}

// readResource is the handler of a resource, or of a template that matches the URI.
func (t *target) readResource(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
	params, err := json.Marshal(&mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, err
	}
	result := new(mcp.ReadResourceResult)
	if err := t.passInto(ctx, call, params, result); err != nil {
		return nil, err
	}
	return result, nil
}

// passInto passes on a call of a method whose result has one of the SDK's types.
func (t *target) passInto(ctx context.Context, call *askback.Call, params json.RawMessage, result mcp.Result) error {
	object, err := t.newPassage(call).pass(ctx, params)
	if err != nil {
		return err
	}
	passed, err := passedOn(object)
	if err == nil {
		err = json.Unmarshal(passed.Object, result)
	}
	result.SetMeta(passed.Meta)
	return err
}
