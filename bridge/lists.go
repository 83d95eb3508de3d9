package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/strictjson"
)

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

// refresh reads what the server offers, and offers the same.
func (b *behind) refresh(ctx context.Context) error {
	l := &b.lists
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.reads.Add(1)
	defer func() {
		l.read.Store(n)
		b.catalog.resources.news.Send()
	}()
	session, err := b.sessions.ForLists(ctx)
	if err != nil {
		return err
	}
	offers := new(mcp.ServerCapabilities)
	if res := session.SDK().InitializeResult(); res != nil && res.Capabilities != nil {
		offers = res.Capabilities
	}
	var failed [5]error // each list by itself: one that cannot be read costs no other
	if offers.Tools != nil {
		failed[0] = reconcile(b, kindTool, &l.tools, session.List(ctx, "tools/list"),
			func(t *mcp.Tool) string { return t.Name }, b.addTool, func(name string) { b.catalog.tools.drop(b.Server, name) })
		b.catalog.tools.settle()
		b.catalog.resources.news.Send()
	}
	if failed[0] == nil {
		b.list(ctx)
	}
	if offers.Prompts != nil {
		failed[1] = reconcile(b, kindPrompt, &l.prompts, session.List(ctx, "prompts/list"),
			func(p *mcp.Prompt) string { return p.Name }, b.addPrompt,
			func(name string) { b.catalog.prompts.drop(b.Server, name) })
		b.catalog.prompts.settle()
		b.catalog.resources.news.Send()
	}
	if offers.Resources != nil {
		failed[2] = reconcile(b, kindResource, &l.resources, session.List(ctx, "resources/list"),
			func(r *mcp.Resource) string { return r.URI }, b.addResource,
			func(uri string) { b.catalog.resources.release(kindResource, uri, b.Server, b.front.RemoveResources) })
		failed[3] = reconcile(b, kindTemplate, &l.template, session.List(ctx, "resources/templates/list"),
			func(r *mcp.ResourceTemplate) string { return r.URITemplate }, b.addTemplate,
			func(text string) {
				b.catalog.resources.release(kindTemplate, text, b.Server, b.front.RemoveResourceTemplates)
			})
	}
	failed[4] = b.listEvents(ctx, session)
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
func (b *behind) begin(ctx context.Context) error {
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
func (b *behind) list(ctx context.Context) {
	names := make([]string, 0, len(b.lists.tools))
	for name, definition := range b.lists.tools {
		if definition != "" {
			names = append(names, name)
		}
	}
	b.offered.Store(&names)
	b.reviewed(ctx)
}

// reconcile adds what is new in a list or has changed, and removes what is gone. What cannot be offered is logged, and
// so is a list that is too long, of which the rest is left out. After any other error what was known stays. A server
// that does not know the method has no such list.
func reconcile[T any](
	b *behind, kind string, known *map[string]string, list iter.Seq2[json.RawMessage, error], key func(*T) string,
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
			b.Log.Warn("bridge: a list is too long; the rest of it cannot be offered", "server", b.Title, "kind", what,
				"most", most, "error", err)
		}
		if err != nil || len(offered) == most {
			break
		}
		item, text := new(T), string(definition)
		if err := json.Unmarshal(definition, item); err != nil {
			named, _ := strictjson.String(strictjson.Get(definition, "name"))
			leaveOut(b.Server, kind, named, err)
			continue
		}
		name := key(item)
		had, still := offered[name], (*known)[name] == text && b.offers(kind, name)
		offered[name] = text
		if had == text || still {
			continue
		}
		if err := safely(func() error { return add(item, text) }); err != nil {
			leaveOut(b.Server, kind, name, err)
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

// The pauses before a server that is not there is tried again.
const (
	firstPause = time.Second
	maxPause   = time.Minute
)

// follow lists again whenever something has changed, and connects again after the connection has ended, until stop.
func (b *behind) follow() {
	l := &b.lists
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.done.Go(func() {
		again := time.NewTicker(refreshAfter)
		defer again.Stop()
		var retry <-chan time.Time
		pause, last := firstPause, time.Time{}
		later := func() {
			if time.Since(last) > 2*maxPause {
				pause = firstPause
			}
			last, retry = time.Now(), time.After(pause)
			pause = min(2*pause, maxPause)
		}
		missing := b.missing != nil || b.unlisted != nil
		if missing {
			later()
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.lost:
				later()
				continue
			case <-l.poke:
			case <-retry:
			case <-again.C: // the stream on which the server tells of changes may have ended
			}
			retry = nil
			err := b.refresh(ctx)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				if !missing {
					b.Log.WarnContext(ctx, "bridge: a server does not answer", "server", b.Title, "error", err)
				}
				later()
			case missing:
				b.Log.InfoContext(ctx, "bridge: a server is there again", "server", b.Title)
			}
			missing = err != nil
		}
	})
}
