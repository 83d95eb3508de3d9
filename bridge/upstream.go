package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// upstream is one of the servers behind a bridge, with all that the bridge has for it alone.
type upstream struct {
	*Bridge
	Server
	index    int    // among the servers of the bridge
	identity string // a digest of Server.Identity, which may hold a secret
	title    string // for people
	behind   *server
	lists    lists
	missing  error                    // why it is not there at the start of the bridge
	unlisted error                    // why a list of it was not read at the start
	offered  atomic.Pointer[[]string] // its names of its tools, once they were listed
	guarded  atomic.Bool              // people have to approve, or had to, calls of one of its tools
	updates  mailbox
	// compiling is held while a schema of the server's is compiled.
	compiling chan struct{}

	mu   sync.Mutex
	logs map[*mcp.ServerSession]*mailbox
}

func newUpstream(b *Bridge, index int, s Server) *upstream {
	digest := sha256.Sum256([]byte(s.Identity))
	u := &upstream{Bridge: b, Server: s, index: index, title: s.Name, compiling: make(chan struct{}, 1)}
	u.identity = hex.EncodeToString(digest[:16])
	if u.title == "" {
		u.title = "the server behind the bridge"
	}
	u.lists.poke, u.lists.ended = make(chan struct{}, 1), make(chan struct{}, 1)
	u.behind = newServer(u)
	return u
}

// introduce connects to the server, and learns its name.
func (u *upstream) introduce(ctx context.Context) error {
	session, err := u.behind.session(ctx)
	if err != nil {
		return err
	}
	if info := session.Server(); info != nil && info.Name != "" && u.Name == "" {
		u.title = cmp.Or(oneLine(info.Name, 64), u.title)
	}
	return nil
}

// former is the server's name of a tool that hosts saw under another one, as far as that name says it. It is false for
// a tool of another server.
func (u *upstream) former(shown string) (string, bool) {
	if name, ok := strings.CutPrefix(shown, u.before()); ok && u.before() != "" || len(u.servers) == 1 {
		return name, true
	}
	return shown, u.before() == "" && !slices.ContainsFunc(u.servers, func(other *upstream) bool {
		return other.before() != "" && strings.HasPrefix(shown, other.before())
	})
}

// oneLine is what a stranger has written, as a person can read it in a sentence.
func oneLine(text string, most int) string {
	line := []rune(strings.Join(strings.FieldsFunc(text, func(c rune) bool {
		return c == unicode.ReplacementChar || !unicode.IsPrint(c) || unicode.IsSpace(c)
	}), " "))
	if len(line) > most {
		return string(line[:most-1]) + "…"
	}
	return string(line)
}

// longestName bounds the name of a tool, in bytes.
const longestName = 128

// checkName returns an error for a name that a person cannot read as it is.
func checkName(name string) error {
	if len(name) > longestName || strings.ContainsFunc(name, func(c rune) bool {
		return c == unicode.ReplacementChar || !unicode.IsPrint(c)
	}) {
		return fmt.Errorf("the name %.200q is longer than %d bytes, or has characters that cannot be seen", name, longestName)
	}
	return nil
}

// owners know which server offers a resource or a template, by its URI.
type owners struct {
	mu    sync.Mutex
	known map[string]*target
	news  chan struct{} // closed by announce, or nil if nobody listens
}

// listen returns a channel that is closed when there is something more to be found.
func (o *owners) listen() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.news == nil {
		o.news = make(chan struct{})
	}
	return o.news
}

// announce wakes those who listen.
func (o *owners) announce() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.news != nil {
		close(o.news)
		o.news = nil
	}
}

// claim makes a server the owner of a name and offers it, unless it belongs to a server that stands before it.
func (o *owners) claim(kind, name string, t *target, offer func()) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if had := o.known[kind+name]; had != nil && had.upstream.index < t.upstream.index {
		return fmt.Errorf("%s offers it, too, and stands first", had.title)
	}
	if o.known == nil {
		o.known = make(map[string]*target)
	}
	offer()
	o.known[kind+name] = t
	return nil
}

// release ends what claim began, if the server is the owner. The others may offer it then.
func (o *owners) release(kind, name string, u *upstream, remove func(...string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if had := o.known[kind+name]; had == nil || had.upstream != u {
		return
	}
	remove(name)
	delete(o.known, kind+name)
	for _, other := range u.servers {
		if other != u {
			other.lists.changed()
		}
	}
}

// of returns the target of a name, or nil.
func (o *owners) of(kind, name string) *target {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[kind+name]
}

// ofURI returns the server of a resource, or of the first template that matches its URI, or nil.
func (b *Bridge) ofURI(uri string) *upstream {
	if t := b.owners.of(kindResource, uri); t != nil {
		return t.upstream
	}
	if len(b.servers) == 1 {
		return b.servers[0]
	}
	var first *upstream
	for _, t := range b.owners.templates() {
		if (first == nil || t.upstream.index < first.index) && t.template.Matches(uri) {
			first = t.upstream
		}
	}
	return first
}

// templates are the targets of all templates.
func (o *owners) templates() (all []*target) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.known {
		if t.template != nil {
			all = append(all, t)
		}
	}
	return all
}

// The pauses before a server that is not there is tried again.
const (
	firstPause = time.Second
	maxPause   = time.Minute
)

// follow lists again whenever something has changed, and connects again after the connection has ended, until stop.
func (u *upstream) follow() {
	l := &u.lists
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
		missing := u.missing != nil || u.unlisted != nil
		if missing {
			later()
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.ended:
				later()
				continue
			case <-l.poke:
			case <-retry:
			case <-again.C: // the stream on which the server tells of changes may have ended
			}
			retry = nil
			err := u.refresh(ctx)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				if !missing {
					u.log.WarnContext(ctx, "bridge: a server does not answer", "server", u.title, "error", err)
				}
				later()
			case missing:
				u.log.InfoContext(ctx, "bridge: a server is there again", "server", u.title)
			}
			missing = err != nil
		}
	})
}
