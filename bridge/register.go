package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/names"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// toolSupport lets the calls of all tools go on after their requests.
var toolSupport = &askback.TaskSupport{AtDetach: true, Always: true}

// addTool offers a tool of the server, unless the operator leaves it out. Its handler stays when the tool is gone, so
// that its calls can end.
func (b *behind) addTool(t *mcp.Tool, definition string) error {
	if err := cmp.Or(names.CheckReadable(t.Name), b.checkPlain(t.Name)); err != nil || b.scheme.LeavesOut(t.Name) {
		return err
	}
	if names.Own[t.Name] && !b.Conn.Legacy() { // it would show hosts the calls of all callers of the bridge
		b.InWords.Store(true)
		return nil
	}
	own := *t
	var err error
	if own.InputSchema, err = compacted(t.InputSchema); err == nil {
		own.OutputSchema, err = compacted(t.OutputSchema)
	}
	if err != nil {
		return err
	}
	own.Meta = maps.Clone(t.Meta)
	calls.DropOwn(own.Meta)
	b.catalog.tools.put(b.Server, b.scheme.Label(t.Name, b.scheme.Renamed(t.Name)), func(name string) *calls.Target {
		shown, target := own, b.tool(t.Name, name)
		shown.Name, target.Schema, target.Definition = name, own.InputSchema, definition
		if _, err := wire.ParamHeaders(own.InputSchema); err != nil {
			// A server that is no server of HTTP may write anything there, and hosts over HTTP leave the tool out by
			// themselves. They see the definition.
			shown.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		hints := t.Annotations
		target.Annotations = hints
		target.Repeatable = hints != nil && (hints.ReadOnlyHint || hints.IdempotentHint)
		askback.AddTaskTool[raw.Call, *raw.Result](b.front, &shown, toolSupport, target.CallTool)
		return target
	})
	return nil
}

// tool is a tool of the server that hosts see under a name.
func (b *behind) tool(own, shown string) *calls.Target {
	return &calls.Target{Server: b.Server, Method: "tools/call", Name: own, As: shown,
		Approval: b.approval.Of(append(b.scheme.All(own), shown))}
}

// compacted returns a schema as JSON, which takes a tenth of the memory.
func compacted(schema any) (any, error) {
	if schema == nil {
		return nil, nil
	}
	data, err := json.Marshal(schema)
	return json.RawMessage(data), err
}

// adopt adds handlers for names that no tool has any longer, and under which calls still wait in the store, so that
// these calls can end: a call itself knows which tool it is for.
func (b *behind) adopt(ctx context.Context) error {
	people, err := desk.Open(b.store, nil)
	if err != nil {
		return err
	}
	adopted := make(map[string]bool)
	for t, err := range people.List(ctx, task.Filter{Statuses: []task.Status{task.Working, task.InputRequired}}) {
		if t == nil {
			return fmt.Errorf("the calls in the store: %w", err)
		}
		name, ok := b.former(t.Target)
		if !ok || names.Own[t.Target] || adopted[t.Target] {
			continue
		}
		adopted[t.Target] = true
		err := cmp.Or(names.CheckReadable(name), b.checkPlain(name))
		if err == nil {
			gone := b.tool(name, t.Target)
			err = b.catalog.tools.adopt(t.Target, gone, func() {
				shown := &mcp.Tool{Name: t.Target, InputSchema: json.RawMessage(`{"type":"object"}`)}
				askback.AddTaskTool[raw.Call, *raw.Result](b.front, shown, toolSupport, gone.CallTool)
			})
		}
		if err != nil { // another bridge took the call
			b.Log.WarnContext(ctx, "bridge: leaving the calls of a tool to other bridges", "tool", t.Target, "error", err)
		}
	}
	return nil
}

func (b *behind) addPrompt(p *mcp.Prompt, definition string) error {
	if err := names.CheckReadable(p.Name); err != nil {
		return err
	}
	b.catalog.prompts.put(b.Server, b.scheme.Label(p.Name, b.scheme.Before()+p.Name), func(name string) *calls.Target {
		own := *p
		own.Name = name
		target := b.readable("prompts/get", p.Name, definition)
		b.front.AddPrompt(&own, target.GetPrompt)
		return target
	})
	return nil
}

// readable is a prompt, a resource or a template of the server.
func (b *behind) readable(method, name, definition string) *calls.Target {
	return &calls.Target{Server: b.Server, Method: method, Name: name, Repeatable: true, Definition: definition}
}

func (b *behind) addResource(r *mcp.Resource, definition string) error {
	target := b.readable("resources/read", r.URI, definition)
	return b.catalog.resources.claim(kindResource, r.URI, &owned{target, b.index}, func() {
		b.front.AddResource(r, target.ReadResource)
	})
}

func (b *behind) addTemplate(r *mcp.ResourceTemplate, definition string) error {
	template, err := foreign.ParseTemplate(r.URITemplate)
	if err != nil {
		return err
	}
	target := b.readable("resources/read", r.URITemplate, definition)
	target.Template = template
	return b.catalog.resources.claim(kindTemplate, r.URITemplate, &owned{target, b.index}, func() {
		b.front.AddResourceTemplate(r, target.ReadResource)
	})
}

// offers returns whether what was added for this server is still its own: a server that stands before it may have taken
// the name of a resource.
func (b *behind) offers(kind, name string) bool {
	switch kind {
	case kindTool:
		return b.catalog.tools.has(b.Server, name)
	case kindPrompt:
		return b.catalog.prompts.has(b.Server, name)
	}
	t := b.catalog.resources.of(kind, name)
	return t != nil && t.Server == b.Server
}

// former is the server's name of a tool that hosts saw under another one, as far as that name says it. It is false for
// a tool of another server.
func (b *behind) former(shown string) (string, bool) {
	before := b.scheme.Before()
	if name, ok := strings.CutPrefix(shown, before); ok && before != "" || len(b.others) == 0 {
		return name, true
	}
	return shown, before == "" && !slices.ContainsFunc(b.others, func(other string) bool {
		return other != "" && strings.HasPrefix(shown, other)
	})
}
