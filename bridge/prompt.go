package bridge

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// getPrompt is the handler of a prompt.
func (t *target) getPrompt(
	ctx context.Context, call *askback.Call, arguments map[string]string,
) (*mcp.GetPromptResult, error) {
	passed, err := t.passOn(ctx, call, "messages", &mcp.GetPromptParams{Name: t.name, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	result := new(mcp.GetPromptResult)
	raw.InPlace(result, passed)
	return result, nil
}

// readResource is the handler of a resource, or of a template that matches the URI.
func (t *target) readResource(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
	passed, err := t.passOn(ctx, call, "contents", &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, err
	}
	// What a server before 2026-07-28 does not say of a cache, or what is wrong, is the caller's alone.
	object := object{'{'}
	for name, value := range strictjson.Members(passed.Object) {
		if name := string(name); name != "ttlMs" && name != "cacheScope" {
			object.add(name, value)
		}
	}
	ttl, scope := strictjson.Get(passed.Object, "ttlMs"), strictjson.Get(passed.Object, "cacheScope")
	if strictjson.TypeOf(ttl) != strictjson.TypeNumber || string(scope) != `"public"` && string(scope) != `"private"` {
		ttl, scope = []byte("0"), []byte(`"private"`)
	}
	object.add("ttlMs", ttl)
	object.add("cacheScope", scope)
	passed.Object = object.end()
	result := new(mcp.ReadResourceResult)
	raw.InPlace(result, passed)
	return result, nil
}

// passOn passes on a call of a method whose result has a list.
func (t *target) passOn(ctx context.Context, call *askback.Call, list string, params mcp.Params) (*raw.Result, error) {
	encoded, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	result, err := t.newPassage(call).pass(ctx, encoded)
	if err != nil {
		return nil, err
	}
	if strictjson.TypeOf(strictjson.Get(result, list)) != strictjson.TypeArray {
		return nil, fmt.Errorf("the server's result has no %s", list)
	}
	return passedOn(result)
}
