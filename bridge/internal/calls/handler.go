package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/object"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// CallTool is the handler of a tool.
func (t *Target) CallTool(ctx context.Context, call *askback.Call, in raw.Call) (*raw.Result, error) {
	c := t.newCall(call)
	c.meta, c.Progress = in.Meta, in.Reports
	arguments := in.Arguments
	if arguments == nil {
		arguments = []byte("{}")
	}
	arguments, err := c.approve(ctx, arguments)
	if err != nil {
		return nil, err
	}
	params := append(make([]byte, 0, len(c.Name)+len(arguments)+32), `{"name":`...)
	params = append(append(wire.AppendString(params, c.Name), `,"arguments":`...), arguments...)
	result, err := c.pass(ctx, append(params, '}'))
	if err != nil {
		return nil, err
	}
	return passedOn(result)
}

// GetPrompt is the handler of a prompt.
func (t *Target) GetPrompt(
	ctx context.Context, call *askback.Call, arguments map[string]string,
) (*mcp.GetPromptResult, error) {
	passed, err := t.passOn(ctx, call, "messages", &mcp.GetPromptParams{Name: t.Name, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	result := new(mcp.GetPromptResult)
	raw.InPlace(result, passed)
	return result, nil
}

// ReadResource is the handler of a resource, or of a template that matches the URI.
func (t *Target) ReadResource(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
	passed, err := t.passOn(ctx, call, "contents", &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, err
	}
	// What a server before 2026-07-28 does not say of a cache, or what is wrong, is the caller's alone.
	members := object.Copy(passed.Object, func(name string, value []byte) []byte {
		if name == "ttlMs" || name == "cacheScope" {
			return nil
		}
		return value
	})
	ttl, scope := strictjson.Get(passed.Object, "ttlMs"), strictjson.Get(passed.Object, "cacheScope")
	if strictjson.TypeOf(ttl) != strictjson.TypeNumber || string(scope) != `"public"` && string(scope) != `"private"` {
		ttl, scope = []byte("0"), []byte(`"private"`)
	}
	members.Add("ttlMs", ttl)
	members.Add("cacheScope", scope)
	passed.Object = members.End()
	result := new(mcp.ReadResourceResult)
	raw.InPlace(result, passed)
	return result, nil
}

// passOn passes on a call of a method whose result has a list.
func (t *Target) passOn(ctx context.Context, call *askback.Call, list string, params mcp.Params) (*raw.Result, error) {
	encoded, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	result, err := t.newCall(call).pass(ctx, encoded)
	if err != nil {
		return nil, err
	}
	if strictjson.TypeOf(strictjson.Get(result, list)) != strictjson.TypeArray {
		return nil, fmt.Errorf("the server's result has no %s", list)
	}
	return passedOn(result)
}

// passedOn is a tool's result as the host gets it: all that the server sent, except its own name.
func passedOn(result json.RawMessage) (*raw.Result, error) {
	if strictjson.TypeOf(result) != strictjson.TypeObject {
		return nil, errors.New("the server's result is not an object")
	}
	passed, members := new(raw.Result), object.New(len(result))
	for name, value := range strictjson.Members(result) {
		switch string(name) {
		case "resultType", "inputRequests", "requestState", "taskId": // the bridge's own are not the server's to say
			continue
		case "_meta":
			var err error
			if passed.Meta, err = metaPassedOn(value); err != nil {
				return nil, fmt.Errorf("the _meta of the server's result: %w", err)
			}
			DropOwn(passed.Meta)
			continue
		}
		members.Add(string(name), value)
	}
	passed.Object = members.End()
	return passed, nil
}
