package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// lists are what one server behind offers, as the bridge offers it.
type lists struct {
	mu                                  sync.Mutex // one refresh at a time
	tools, prompts, resources, template map[string]string

	adopted bool

	begun  atomic.Int64  // readings, one after the other
	read   atomic.Int64  // those that have ended
	poke   chan struct{} // something has changed; has room for one
	ended  chan struct{} // the connection has; has room for one
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// most bounds what is read of each list. A URI is compared with each template, and so there may be fewer of them.
const (
	most          = 10_000
	mostTemplates = 100
)

// mostPages bounds the pages of a list, and the rounds of a call, which the bridge's own server bounds before.
const mostPages = 1000

// refreshAfter is the time after which the lists are read again although nobody said that they changed.
const refreshAfter = 5 * time.Minute

// refreshTime bounds one reading of the lists.
const refreshTime = time.Minute

// changed has the lists read again soon.
func (l *lists) changed() { signal(l.poke) }

// signal says something to a goroutine that has perhaps not yet heard it the last time.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

func (l *lists) stop() {
	if l.cancel != nil {
		l.cancel()
		l.done.Wait()
	}
}

// refresh reads what the server offers, and offers the same.
func (b *upstream) refresh(ctx context.Context) error {
	l := &b.lists
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.begun.Add(1)
	defer func() {
		l.read.Store(n)
		b.owners.announce()
	}()
	session, err := b.behind.sessionOf(ctx, "", true)
	if err != nil {
		return err
	}
	offers := new(mcp.ServerCapabilities)
	if res := session.SDK().InitializeResult(); res != nil && res.Capabilities != nil {
		offers = res.Capabilities
	}
	var failed [4]error // each list by itself: one that cannot be read costs no other
	if offers.Tools != nil {
		failed[0] = reconcile(b, kindTool, &l.tools, session.List(ctx, "tools/list"),
			func(t *mcp.Tool) string { return t.Name }, b.addTool, func(name string) { b.tools.drop(b, name) })
		b.tools.settle()
		b.owners.announce()
	}
	if failed[0] == nil {
		b.list(ctx)
	}
	if offers.Prompts != nil {
		failed[1] = reconcile(b, kindPrompt, &l.prompts, session.List(ctx, "prompts/list"),
			func(p *mcp.Prompt) string { return p.Name }, b.addPrompt, func(name string) { b.prompts.drop(b, name) })
		b.prompts.settle()
		b.owners.announce()
	}
	if offers.Resources != nil {
		failed[2] = reconcile(b, kindResource, &l.resources, session.List(ctx, "resources/list"),
			func(r *mcp.Resource) string { return r.URI }, b.addResource,
			func(uri string) { b.owners.release(kindResource, uri, b, b.server.RemoveResources) })
		failed[3] = reconcile(b, kindTemplate, &l.template, session.List(ctx, "resources/templates/list"),
			func(r *mcp.ResourceTemplate) string { return r.URITemplate }, b.addTemplate,
			func(text string) { b.owners.release(kindTemplate, text, b, b.server.RemoveResourceTemplates) })
	}
	if failed[0] == nil && !l.adopted {
		failed[0] = b.adopt(ctx)
		l.adopted = failed[0] == nil
	}
	if err := errors.Join(failed[:]...); err != nil {
		return &listError{err}
	}
	return nil
}

// listError says that the server is there, and that one of its lists cannot be read.
type listError struct{ error }

func (e *listError) Unwrap() error { return e.error }

// begin connects to the server, and reads what it offers for the first time. A list that cannot be read is read again
// soon.
func (b *upstream) begin(ctx context.Context) error {
	err := b.introduce(ctx)
	if err == nil {
		err = b.refresh(ctx)
	}
	if partly, ok := errors.AsType[*listError](err); ok && ctx.Err() == nil {
		b.unlisted = partly
		return nil
	}
	return err
}

// list notes which tools the server offers.
func (b *upstream) list(ctx context.Context) {
	names := make([]string, 0, len(b.lists.tools))
	for name, definition := range b.lists.tools {
		if definition != "" {
			names = append(names, name)
		}
	}
	b.offered.Store(&names)
	if b.early.isOver() { // before that, others are still read
		b.review(ctx)
	}
}

// reconcile adds what is new in a list or has changed, and removes what is gone. What cannot be offered is logged, and
// so is a list that is too long, of which the rest is left out. After any other error what was known stays. A server
// that does not know the method has no such list.
func reconcile[T any](
	b *upstream, kind string, known *map[string]string, list iter.Seq2[json.RawMessage, error], key func(*T) string,
	add func(*T, string) error, remove func(string),
) error {
	offered, most, what := make(map[string]string), most, strings.TrimSpace(kind)
	if kind == kindTemplate {
		most = mostTemplates
	}
	for definition, err := range list {
		if err != nil && !endsList(err) {
			for name, text := range *known { // it may still be there
				offered[name] = cmp.Or(offered[name], text)
			}
			*known = offered
			return fmt.Errorf("listing each %s: %w", what, err)
		}
		if _, tooLong := errors.AsType[*client.LimitError](err); tooLong || err == nil && len(offered) == most {
			b.log.Warn("bridge: a list is too long; the rest of it cannot be offered", "server", b.title, "kind", what,
				"most", most, "error", err)
		}
		if err != nil || len(offered) == most {
			break
		}
		item, text := new(T), string(definition)
		if err := json.Unmarshal(definition, item); err != nil {
			named, _ := strictjson.String(strictjson.Get(definition, "name"))
			b.leaveOut(kind, named, err)
			continue
		}
		name := key(item)
		had, still := offered[name], (*known)[name] == text && b.offers(kind, name)
		offered[name] = text
		if had == text || still {
			continue
		}
		if err := safely(func() error { return add(item, text) }); err != nil {
			b.leaveOut(kind, name, err)
			offered[name] = "" // tried again with the next list
		}
	}
	for name := range *known {
		if _, still := offered[name]; !still {
			remove(name)
		}
	}
	*known = offered
	return nil
}

// leaveOut tells the operator that something is not offered.
func (b *upstream) leaveOut(kind, name string, err error) {
	b.log.Warn("bridge: something of a server cannot be offered", "server", b.title, "kind", strings.TrimSpace(kind),
		"name", fmt.Sprintf("%.200q", name), "error", err)
}

// endsList reports whether an error is the end of a list that holds so far.
func endsList(err error) bool {
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	_, tooLong := errors.AsType[*client.LimitError](err)
	return tooLong || ok && fault.Code == jsonrpc.CodeMethodNotFound
}

// safely returns a panic as an error: that is how a definition is refused that its author could have tested.
func safely(add func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	return add()
}

// toolSupport lets the calls of all tools go on after their requests.
var toolSupport = &askback.TaskSupport{AtDetach: true, Always: true}

// addTool offers a tool of the server, unless the operator leaves it out. Its handler stays when the tool is gone, so
// that its calls can end.
func (b *upstream) addTool(t *mcp.Tool, definition string) error {
	if err := cmp.Or(checkName(t.Name), b.checkPlain(t.Name)); err != nil || b.leavesOut(t.Name) {
		return err
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
	dropOwn(own.Meta)
	b.tools.put(b, b.label(t.Name, b.renamed(t.Name)), func(name string) *target {
		shown, target := own, b.tool(t.Name, name)
		shown.Name, target.schema, target.definition = name, own.InputSchema, definition
		if _, err := wire.ParamHeaders(own.InputSchema); err != nil {
			// A server that is no server of HTTP may write anything there, and hosts over HTTP leave the tool out by
			// themselves. They see the definition.
			shown.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		hints := t.Annotations
		target.repeatable = hints != nil && (hints.ReadOnlyHint || hints.IdempotentHint)
		askback.AddTaskTool[raw.Call, *raw.Result](b.server, &shown, toolSupport, target.callTool)
		return target
	})
	return nil
}

// tool is a tool of the server that hosts see under a name.
func (b *upstream) tool(own, shown string) *target {
	return &target{upstream: b, method: "tools/call", name: own, as: shown,
		approval: b.opts.Approve.of(append(b.names(own), shown))}
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
func (b *upstream) adopt(ctx context.Context) error {
	people, err := desk.Open(b.opts.Server.Tasks.Store, nil)
	if err != nil {
		return err
	}
	adopted := make(map[string]bool)
	for t, err := range people.List(ctx, task.Filter{Statuses: []task.Status{task.Working, task.InputRequired}}) {
		if t == nil {
			return fmt.Errorf("the calls in the store: %w", err)
		}
		name, ok := b.former(t.Target)
		if !ok || ownTools[t.Target] || adopted[t.Target] {
			continue
		}
		adopted[t.Target] = true
		err := cmp.Or(checkName(name), b.checkPlain(name))
		if err == nil {
			err = b.tools.adopt(t.Target, b.tool(name, t.Target))
		}
		if err != nil { // another bridge took the call
			b.log.WarnContext(ctx, "bridge: leaving the calls of a tool to other bridges", "tool", t.Target, "error", err)
		}
	}
	return nil
}

// adopt adds the handler of a tool that is gone, if no other one has its name.
func (s *shelf) adopt(name string, t *target) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown[name] != nil {
		return nil
	}
	t.gone.Store(true)
	err := safely(func() error {
		gone := &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
		askback.AddTaskTool[raw.Call, *raw.Result](t.server, gone, toolSupport, t.callTool)
		return nil
	})
	if err == nil {
		s.hide(name)
		t.log.Warn("bridge: calls wait for a tool that is no longer offered under its name", "server", t.title, "tool", name)
	}
	return err
}

func (b *upstream) addPrompt(p *mcp.Prompt, definition string) error {
	if err := checkName(p.Name); err != nil {
		return err
	}
	b.prompts.put(b, b.label(p.Name, b.before()+p.Name), func(name string) *target {
		own := *p
		own.Name = name
		target := &target{upstream: b, method: "prompts/get", name: p.Name, repeatable: true, definition: definition}
		b.server.AddPrompt(&own, target.getPrompt)
		return target
	})
	return nil
}

func (b *upstream) addResource(r *mcp.Resource, definition string) error {
	target := &target{upstream: b, method: "resources/read", name: r.URI, repeatable: true, definition: definition}
	return b.owners.claim(kindResource, r.URI, target, func() { b.server.AddResource(r, target.readResource) })
}

func (b *upstream) addTemplate(r *mcp.ResourceTemplate, definition string) error {
	template, err := foreign.ParseTemplate(r.URITemplate)
	if err != nil {
		return err
	}
	target := &target{upstream: b, method: "resources/read", name: r.URITemplate, repeatable: true, template: template,
		definition: definition}
	return b.owners.claim(kindTemplate, r.URITemplate, target, func() {
		b.server.AddResourceTemplate(r, target.readResource)
	})
}

// offers returns whether what was added for this server is still its own: a server that stands before it may have taken
// the name of a resource.
func (b *upstream) offers(kind, name string) bool {
	switch kind {
	case kindTool:
		return b.tools.has(b, name)
	case kindPrompt:
		return b.prompts.has(b, name)
	}
	t := b.owners.of(kind, name)
	return t != nil && t.upstream == b
}

// seen returns what hosts see under a name or a URI, or nil.
func (b *Bridge) seen(kind, name string) *target {
	switch kind {
	case kindTool:
		return b.tools.of(name)
	case kindPrompt:
		return b.prompts.of(name)
	}
	return b.owners.of(kind, name)
}

// The kinds of what servers offer. Each ends with a space, so that no kind and name read as another kind and name.
const (
	kindTool     = "tool "
	kindPrompt   = "prompt "
	kindResource = "resource "
	kindTemplate = "template "
)

// ownTools are tools of the bridge itself.
var ownTools = map[string]bool{"askback_result": true}
