package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/sim"
)

// The kinds of servers behind a bridge.
const (
	modern         = "modern"          // 2026-07-28 over HTTP
	modernProgram  = "modern-program"  // the same over standard input and output
	modernGateway  = "modern-gateway"  // the same behind a gateway
	older          = "older"           // 2025-11-25 over HTTP, with streams that end when they break
	olderResumable = "older-resumable" // the same with streams that can be resumed
	olderProgram   = "older-program"   // 2025-11-25 over standard input and output
	olderGateway   = "older-gateway"   // 2025-11-25 over HTTP behind a gateway
	calm           = "calm"            // 2026-07-28 over HTTP; nothing happens to it
)

// A server whose streams can be resumed has most ways to fail.
var kinds = []string{
	modern, olderResumable, modernProgram, olderResumable, modernGateway, olderResumable, older, olderResumable,
	olderProgram, olderResumable, olderGateway,
}

func isProgram(kind string) bool { return strings.HasSuffix(kind, "-program") }

// The tools of every server.
const (
	idempotent     = "idempotent" // may be called again
	idempotentAsks = "idempotent_asks"
	once           = "once" // may not
	onceAsks       = "once_asks"
	twice          = "twice"      // may not, and takes effect after each of its two questions
	turns          = "turns_asks" // may not, until it is said that it may
	stuck          = "stuck"      // never ends
)

var toolNames = []string{idempotent, once, twice, idempotentAsks, onceAsks, turns, stuck}

func isIdempotent(tool string) bool { return strings.HasPrefix(tool, idempotent) }

func (w *world) toolNamed(name string) *mcp.Tool {
	return &mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{
		IdempotentHint: isIdempotent(name) || name == turns && w.turned.Load()}}
}

type arguments struct {
	ID string `json:"id"`
}

// server is one life of a server.
type server struct {
	*world
	part *sim.Part
	life context.Context
}

// errDeclined ends a call whose question was declined.
var errDeclined = errors.New("somebody has declined")

// run is what a tool does. It asks with ask, and the middle has not run before if it is first.
func (s *server) run(
	ctx context.Context, name string, in arguments, first bool, ask func(ctx context.Context, key, message string) error,
) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	s.mu.Lock()
	approval := s.approvals[in.ID]
	s.mu.Unlock()
	if approval != "" && approval != "accept" {
		s.violate("call %s of %s runs, and its approval is: %s", in.ID, name, approval)
	}
	if name == turns {
		s.mu.Lock()
		s.strict[in.ID] = s.strict[in.ID] || !s.turned.Load()
		s.mu.Unlock()
	}
	if name == stuck {
		<-ctx.Done()
		return "", errors.New("nothing")
	}
	if name == twice || strings.HasSuffix(name, "_asks") {
		if err := ask(ctx, "first", in.ID+": go on?"); err != nil {
			return "", err
		}
	}
	if name == twice {
		if first {
			if err := s.effect(ctx, in.ID, "middle"); err != nil {
				return "", err
			}
		}
		if err := ask(ctx, "second", in.ID+": and on?"); err != nil {
			return "", err
		}
	}
	return "done " + in.ID, s.effect(ctx, in.ID, "end")
}

// effect does what cannot be undone, which takes some time around it. Some handlers do not notice that their client is
// away.
func (s *server) effect(ctx context.Context, id, what string) error {
	if s.part.Chance(0.5) {
		ctx = s.life
	}
	s.part.Pause(ctx, 0.5)
	err := s.part.Do(ctx, "effect", func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.effects[id+" "+what]++
		return nil
	})
	s.part.Pause(ctx, 0.5)
	if errors.Is(err, sim.ErrDead) { // a dead server answers nobody
		<-s.life.Done()
	}
	return err
}

// newModern returns a server of this library, and what adds a tool to it.
func (s *server) newModern() (srv *askback.Server, m *mcp.Server, add func(name string)) {
	m = mcp.NewServer(&mcp.Implementation{Name: "behind", Version: "1"}, nil)
	srv = expect.Must(askback.New(m, &askback.Options{Keys: s.keys, Logger: quiet}))(s.t)
	add = func(name string) {
		askback.AddTool(srv, s.toolNamed(name), func(ctx context.Context, call *askback.Call, in arguments) (string, error) {
			return s.run(ctx, name, in, call.Round() == 2, func(_ context.Context, key, message string) error {
				err := askback.Approve(call, key, askback.Question{Message: message})
				if _, declined := errors.AsType[*askback.DeclinedError](err); declined {
					return errDeclined
				}
				return err
			})
		})
	}
	for _, name := range toolNames {
		add(name)
	}
	return srv, m, add
}

// newOlder returns a server of the official SDK, which asks inside its calls, and what adds a tool to it.
func (s *server) newOlder() (m *mcp.Server, add func(name string)) {
	m = mcp.NewServer(&mcp.Implementation{Name: "behind", Version: "1"},
		&mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	add = func(name string) {
		mcp.AddTool(m, s.toolNamed(name), func(
			ctx context.Context, req *mcp.CallToolRequest, in arguments,
		) (*mcp.CallToolResult, any, error) {
			text, err := s.run(ctx, name, in, true, func(ctx context.Context, _, message string) error {
				res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message,
					RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
				if err == nil && res.Action != "accept" {
					return errDeclined
				}
				return err
			})
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
		})
	}
	for _, name := range toolNames {
		add(name)
	}
	return m, add
}

var quiet = slog.New(slog.DiscardHandler)

// handler returns how a server of a kind serves HTTP.
func (s *server) handler(kind string) (h http.Handler, m *mcp.Server, add func(name string)) {
	if strings.HasPrefix(kind, older) {
		m, add = s.newOlder()
		opts := new(mcp.StreamableHTTPOptions)
		if kind == olderResumable {
			opts.EventStore = mcp.NewMemoryEventStore(nil)
		}
		h = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, opts)
	} else {
		var srv *askback.Server
		srv, m, add = s.newModern()
		h = srv.HTTPHandler(nil)
	}
	if strings.HasSuffix(kind, "-gateway") {
		h = s.gateway(h, kind == modernGateway)
	}
	return h, m, add
}

// gateway passes every request on. Of calls it loses some, before or after they have run, and answers them with a
// status of its own, or breaks the connection. Without rounds these are calls that ask nothing.
func (s *server) gateway(to http.Handler, rounds bool) http.Handler {
	proxy := s.sim.Part("gateway of "+s.part.Name, sim.Chances{sim.LostBefore: 0.1, sim.LostAfter: 0.35})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		has := func(text string) bool { return bytes.Contains(body, []byte(text)) }
		if !has(`"name":"idempotent"`) && !has(`"name":"once"`) && !(rounds && has(`"tools/call"`)) {
			to.ServeHTTP(w, r)
			return
		}
		got := httptest.NewRecorder()
		if proxy.Do(r.Context(), "call", func(context.Context) error { to.ServeHTTP(got, r); return nil }) == nil {
			for name, values := range got.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(got.Code)
			_, _ = w.Write(got.Body.Bytes())
			return
		}
		status := []int{500, 502, 503, 504, 408, 0}[proxy.IntN(6)]
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if proxy.Chance(0.5) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"upstream failed"}}`)
		}
	})
}

// serve runs one life of a server over HTTP after the other.
func (w *world) serve(ctx context.Context, kind string, chances sim.Chances) {
	operator := w.sim.Part("operator of "+kind, nil)
	for n := 0; ctx.Err() == nil; n++ {
		part := w.sim.Part(fmt.Sprint(kind, " ", n), chances)
		life, end := context.WithCancel(ctx)
		s := &server{w, part, life}
		h, m, add := s.handler(kind)
		l := &sim.Listener{Part: part, Handler: h, Life: life}
		w.Listen(kind, l)
		go func() {
			select {
			case <-part.Dead():
				end()
			case <-life.Done():
			}
		}()
		for kind != calm && operator.Pause(life, 30) { // once is no longer there, for a while
			w.turned.Store(true)
			add(turns)
			m.RemoveTools(once)
			operator.Pause(life, 10)
			add(once)
			operator.Pause(life, 30)
		}
		<-life.Done()
		w.HangUp(kind, l)
		end()
		for session := range m.Sessions() {
			w.others.Go(func() { _ = session.Close() })
		}
		operator.Pause(ctx, 0.5)
	}
}

// start starts a server as a program of a bridge.
func (w *world) start(kind string, bridge *sim.Part) mcp.Transport {
	part := w.sim.Part(fmt.Sprintf("%s %d of %s", kind, w.programs.Add(1), bridge.Name), w.Server)
	return w.run(bridge, part, func(life context.Context, stdio *mcp.IOTransport) {
		s := &server{w, part, life}
		if kind == olderProgram {
			m, _ := s.newOlder()
			_ = m.Run(life, stdio)
		} else {
			srv, _, _ := s.newModern()
			_ = srv.Run(life, stdio)
		}
	})
}
