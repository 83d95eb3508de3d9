package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/task"
)

// lists are what one server behind offers, as the bridge offers it.
type lists struct {
	mu                                  sync.Mutex // one refresh at a time
	tools, prompts, resources, template map[string]string

	handlers map[string]*target // of all tools that the server has offered, by their names there
	adopted  bool

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
			func(t *mcp.Tool) string { return t.Name }, b.addTool, b.removeTool)
	}
	if failed[0] == nil {
		b.list(ctx)
	}
	if offers.Prompts != nil {
		failed[1] = reconcile(b, kindPrompt, &l.prompts, session.List(ctx, "prompts/list"),
			func(p *mcp.Prompt) string { return p.Name }, b.addPrompt, func(name string) {
				b.owners.release(kindPrompt, b.exposed(name), b, b.server.RemovePrompts)
			})
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
	leaveOut := func(name string, err error) {
		b.log.Warn("bridge: something of a server cannot be offered", "server", b.title, "kind", what, "name",
			fmt.Sprintf("%.200q", name), "error", err)
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
			leaveOut(named, err)
			continue
		}
		name := key(item)
		had, still := offered[name], (*known)[name] == text && b.offers(kind, name)
		offered[name] = text
		if had == text || still {
			continue
		}
		if err := safely(func() error { return add(item, text) }); err != nil {
			leaveOut(name, err)
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

// addTool offers a tool of the server. Its handler stays when the tool is gone, so that its calls can end.
func (b *upstream) addTool(t *mcp.Tool, definition string) error {
	if err := cmp.Or(checkName(t.Name), b.checkPlain(t.Name)); err != nil {
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
	own.Name, own.Meta = b.exposed(t.Name), maps.Clone(t.Meta)
	dropOwn(own.Meta)
	hints := t.Annotations
	target := &target{
		upstream: b, method: "tools/call", name: t.Name,
		repeatable: hints != nil && (hints.ReadOnlyHint || hints.IdempotentHint),
		approval:   b.opts.Approve.of(b.names(t.Name)), schema: own.InputSchema, definition: definition,
	}
	if before := b.lists.handlers[t.Name]; before != nil && target.strict() {
		before.turned.Store(true)
	}
	b.lists.handlers[t.Name] = target
	support := &askback.TaskSupport{AtDetach: true, Always: true}
	return b.owners.claim(kindTool, own.Name, target, func() {
		askback.AddTaskTool[raw.Call, *raw.Result](b.server, &own, support, target.callTool)
	})
}

// compacted returns a schema as JSON, which takes a tenth of the memory.
func compacted(schema any) (any, error) {
	if schema == nil {
		return nil, nil
	}
	data, err := json.Marshal(schema)
	return json.RawMessage(data), err
}

// removeTool no longer offers a tool.
func (b *upstream) removeTool(name string) {
	if t := b.lists.handlers[name]; t != nil {
		t.gone.Store(true)
	}
	b.owners.release(kindTool, b.exposed(name), b, b.mcp.RemoveTools)
}

// adopt adds handlers of tools that the server no longer offers, and whose calls still wait in the store, so that these
// calls can end.
func (b *upstream) adopt(ctx context.Context) error {
	people, err := desk.Open(b.opts.Server.Tasks.Store, nil)
	if err != nil {
		return err
	}
	for t, err := range people.List(ctx, task.Filter{Statuses: []task.Status{task.Working, task.InputRequired}}) {
		if t == nil {
			return fmt.Errorf("the calls in the store: %w", err)
		}
		name, ok := b.hidden(t.Target)
		if !ok || ownTools[t.Target] || b.lists.handlers[name] != nil {
			continue
		}
		b.log.WarnContext(ctx, "bridge: calls wait for a tool that the server no longer offers; they end", "tool", t.Target)
		gone := &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
		if err := b.addTool(gone, ""); err != nil { // another bridge took the call
			b.log.WarnContext(ctx, "bridge: leaving the calls of a tool to other bridges", "tool", t.Target, "error", err)
			continue
		}
		b.removeTool(name)
	}
	return nil
}

func (b *upstream) addPrompt(p *mcp.Prompt, definition string) error {
	if err := checkName(p.Name); err != nil {
		return err
	}
	own := *p
	own.Name = b.exposed(p.Name)
	target := &target{upstream: b, method: "prompts/get", name: p.Name, repeatable: true, definition: definition}
	return b.owners.claim(kindPrompt, own.Name, target, func() { b.server.AddPrompt(&own, target.getPrompt) })
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
// the name.
func (b *upstream) offers(kind, name string) bool {
	if kind == kindPrompt || kind == kindTool {
		name = b.exposed(name)
	}
	t := b.owners.of(kind, name)
	return t != nil && t.upstream == b
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

// outsideOfNames are characters that a tool's name does not have.
var outsideOfNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
