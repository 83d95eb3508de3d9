package bridge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/wire"
)

// target is what a call is for: a tool, a prompt or a resource of the server.
type target struct {
	*upstream
	method string
	name   string // or URI
	as     string // the name of a tool that hosts see
	// repeatable says that a round can be sent again: the tool is marked as read-only or idempotent, or it is no tool.
	repeatable bool
	gone       atomic.Bool // the server no longer offers it
	hidden     atomic.Bool // hosts no longer see it under the name that it was made for
	turned     atomic.Bool // the server no longer says that a round can be sent again
	approval   *Approval   // that its calls need, or nil
	schema     any         // of a tool's arguments, as it was listed
	template   *foreign.Template
	definition string // as the server has written it, or empty
}

// passage is one call on its way to the server and back, in one run of its handler.
type passage struct {
	*target
	call    *askback.Call
	params  json.RawMessage // of the call, for every round
	meta    []byte          // the _meta of the host's request, or nil
	told    bool            // of progress
	tasks   bool            // the server makes tasks of such calls only
	single  bool            // a round that is begun must not be sent again
	asks    asker
	carried int // bytes of the server's states in the journal
	gates   []*gate
	raises  bool // the call has to pass one more gate before anything more is sent
}

// callTool is the handler of a tool.
func (t *target) callTool(ctx context.Context, call *askback.Call, in raw.Call) (*raw.Result, error) {
	p := t.newPassage(call)
	p.meta, p.told = in.Meta, in.Reports
	arguments := in.Arguments
	if arguments == nil {
		arguments = []byte("{}")
	}
	arguments, err := p.approve(ctx, arguments)
	if err != nil {
		return nil, err
	}
	params := append(make([]byte, 0, len(p.name)+len(arguments)+32), `{"name":`...)
	params = append(append(wire.AppendString(params, p.name), `,"arguments":`...), arguments...)
	result, err := p.pass(ctx, append(params, '}'))
	if err != nil {
		return nil, err
	}
	return passedOn(result)
}

// mostCarried bounds what the host of a call carries of the server's states, in bytes. A call with more goes on in the
// store.
const mostCarried = 16 << 10

// newPassage begins a run of the handler.
func (t *target) newPassage(call *askback.Call) *passage {
	return &passage{target: t, call: call, single: !t.repeatable, asks: asker{call: call, used: make(map[string]bool)}}
}

// strict returns whether the tool is, or has become, one whose rounds must not be sent again. A call keeps the stricter
// of what its server says in the course of it.
func (t *target) strict() bool { return !t.repeatable || t.turned.Load() }

// pass passes a call on to the server, round by round, and returns its result.
func (p *passage) pass(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	p.params = params
	if p.method == wire.CallTool && p.behind.older.Load() {
		r, err := p.passInSession(ctx)
		if err == nil {
			return r.outcome()
		}
		if !errors.Is(err, errModern) {
			return nil, err
		}
	}
	next := &client.Pending{Method: p.method}
	for n := 1; ; n++ {
		r, err := p.round(ctx, n, next)
		if err != nil {
			return nil, err
		}
		if r.Sealed == "" {
			return r.outcome()
		}
		p.single = r.Once
		if next, err = p.openPending(n, r.Sealed); err != nil {
			return nil, err
		}
		if p.carried += len(r.Sealed); p.carried > mostCarried && p.method == wire.CallTool {
			if err := p.call.Detach(); err != nil {
				return nil, err
			}
		}
		if next.Answers, err = p.asks.ask(next.Questions); err != nil {
			return nil, err
		}
	}
}

// round sends one round, or finds what it brought. What must not be sent twice is stored before it is sent, and the
// journal says that it begins.
func (p *passage) round(ctx context.Context, n int, next *client.Pending) (*record, error) {
	safe := !p.single || next.TaskID != ""     // a task can be asked for its result again
	if n > 1 && (!safe || next.TaskID != "") { // nobody waits in a request for a task of the server's
		if err := p.call.Detach(); err != nil {
			return nil, err
		}
	}
	stored := p.call.Nonce() != ""
	if n == 1 && !stored && p.call.Round() == 1 {
		return p.first(ctx, next)
	}
	var r *record
	var err error
	if safe || !stored {
		r, err = p.step(ctx, n, fmt.Sprintf("round %d", n), next)
	} else {
		r, err = p.once(ctx, n, next)
	}
	if errors.Is(err, errRaise) {
		err = p.raise(ctx)
	}
	return r, err
}

// first sends the first round of a call that nobody has stored. Only a round that asks is recorded.
func (p *passage) first(ctx context.Context, next *client.Pending) (*record, error) {
	r, err := p.send(ctx, 1, next)
	if lost, ok := errors.AsType[*unknownError](err); ok {
		return &record{Words: p.unknown(1, lost.cause)}, nil
	}
	if err != nil || r.Sealed == "" {
		return r, err
	}
	return askback.Do(ctx, p.call, "round 1", func(context.Context) (*record, error) { return r, nil })
}

// step sends a round as a step of the call.
func (p *passage) step(ctx context.Context, n int, name string, next *client.Pending) (*record, error) {
	r, err := askback.Do(ctx, p.call, name, func(ctx context.Context) (*record, error) {
		if p.raises {
			return nil, errRaise
		}
		if next.TaskID == "" && !p.single && p.strict() { // and an earlier run may have sent it
			return &record{Words: fmt.Sprintf("The server no longer marks the tool %q as read-only or idempotent, so round %d "+
				"of this call, which began before that, is not sent. Look at what it changes, and call it again.", p.name, n)}, nil
		}
		return p.send(ctx, n, next)
	})
	if lost, ok := errors.AsType[*unknownError](err); ok {
		return &record{Words: p.unknown(n, lost.cause)}, nil
	}
	return r, err
}

// once sends a round that must not run twice. If it was begun and nobody knows the outcome, a person decides whether it
// is sent again.
func (p *passage) once(ctx context.Context, n int, next *client.Pending) (*record, error) {
	for again := 0; ; again++ {
		suffix := fmt.Sprint(n)
		if again > 0 {
			suffix = fmt.Sprintf("%d again %d", n, again)
		}
		begins := false // and did not begin in an earlier run
		err := p.call.Do(ctx, "begin "+suffix, func(context.Context) error {
			if p.raises {
				return errRaise
			}
			begins = true
			return nil
		})
		if err != nil {
			return nil, err
		}
		r, err := askback.Do(ctx, p.call, "round "+suffix, func(ctx context.Context) (*record, error) {
			if !begins {
				return nil, new(unknownError)
			}
			ctx, done := p.outlive(ctx)
			defer done()
			return p.send(ctx, n, next)
		})
		lost, unknown := errors.AsType[*unknownError](err)
		if !unknown {
			return r, err
		}
		words := p.unknown(n, lost.cause)
		if sent, err := p.mayRepeat(words); !sent || err != nil {
			return &record{Words: words}, err
		}
	}
}

// outlive returns a context for a round that must not be cut off when the bridge stops: it then lasts nearly as long as
// the engine waits for a handler, which is the length of a lease. Any other end of ctx ends it at once.
func (p *passage) outlive(ctx context.Context) (context.Context, func()) {
	grace := cmp.Or(p.opts.Server.Tasks.Lease, 10*time.Second) * 3 / 4
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, taskrun.ErrShutdown) {
			select {
			case <-time.After(grace):
			case <-own.Done():
			}
		}
		cancel(cause)
	})
	return own, func() { stop(); cancel(nil) }
}

// mayRepeat asks the caller, at the desk, whether a round whose outcome is unknown is sent again.
func (p *passage) mayRepeat(words string) (bool, error) {
	caller := p.call.Principal()
	if caller == "" {
		return false, nil
	}
	err := askback.Approve(p.call, p.asks.next("bridge_repeat"), askback.Question{
		Message: words + " Call it again?", For: []string{askback.User(caller)},
	})
	if _, declined := errors.AsType[*askback.DeclinedError](err); declined {
		return false, nil
	}
	return err == nil, err
}

// send sends a round, and makes the record of what came back. The error is an *unknownError if the server may have
// got the round and nobody knows what it did.
func (p *passage) send(ctx context.Context, n int, next *client.Pending) (*record, error) {
	if p.gone.Load() {
		return p.noLongerOffered(n), nil
	}
	round := *next
	round.Params, round.Meta = p.params, p.requestMeta()
	var report progress
	if p.told || p.call.Nonce() != "" { // the progress of a task is its message
		report = p.call
	}
	result, asked, err := p.sendRound(ctx, &round, report)
	if needsTasks(err) && (n == 1 || p.repeatable) && !p.tasks && !p.call.Can(askback.CapabilityTasks) {
		p.tasks = true
		round.Meta = p.requestMeta()
		result, asked, err = p.sendRound(ctx, &round, report)
	}
	switch {
	case err != nil:
		return p.failed(ctx, n, err)
	case asked == nil && p.call.Nonce() != "":
		return p.kept(&record{Result: result}), nil
	case asked == nil:
		return &record{Result: result}, nil
	}
	sealed, err := p.sealPending(n, asked)
	if err != nil {
		return &record{Words: fmt.Sprintf("The tool %q asks, but what has to be kept for it is too large or cannot be "+
			"sealed: %v", p.name, err)}, nil
	}
	return &record{Sealed: sealed, Once: p.single || p.strict()}, nil
}

// needsTasks reports whether the server refused a call because its client does not take tasks, and so is to get it
// again (basic, "Per-request protocol fields"). The bridge takes tasks, for every host.
func needsTasks(err error) bool {
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && fault.Code == mcp.CodeMissingRequiredClientCapabilities &&
		strings.Contains(string(fault.Data), strconv.Quote(wire.TasksExtension))
}

// noLongerOffered ends a call of a tool that is gone.
func (p *passage) noLongerOffered(n int) *record {
	return &record{Words: fmt.Sprintf("The server no longer offers the tool %q. Round %d of this call was not sent.",
		p.name, n)}
}

// kept is a record in a call that is stored: a result that is too large to keep becomes words.
func (p *passage) kept(r *record) *record {
	if len(r.Result) <= p.mostKept() {
		return r
	}
	return &record{Words: fmt.Sprintf("The tool %q ran, but its result of %d bytes is too large to keep: the bridge "+
		"keeps at most %d bytes of a call that waited.", p.name, len(r.Result), p.mostKept())}
}

// mostKept bounds the result of a call that is stored, in bytes: its task keeps it twice, in its journal and as its
// outcome, beside all else of the call.
func (b *Bridge) mostKept() int {
	return int(cmp.Or(b.opts.Server.Tasks.TaskBytes, 16<<20) / 4)
}

// failed makes a record of the error of a round. The error is the error of classify, for a target that cannot be called
// again.
func (p *passage) failed(ctx context.Context, n int, err error) (*record, error) {
	r, unknown := p.classify(ctx, n, err)
	if unknown == nil || ctx.Err() != nil {
		return r, unknown
	}
	p.log.WarnContext(ctx, "bridge: a round with the server failed", "target", p.name, "call", p.call.ID(), "error", err)
	if p.repeatable {
		return &record{Words: fmt.Sprintf("The connection to the server of %q failed: %v", p.name, err)}, nil
	}
	return nil, unknown
}

// requestMeta is the _meta of a round: what this host can be asked, and what the host sent that is not about its own
// connection to the bridge.
func (p *passage) requestMeta() mcp.Meta {
	meta := mcp.Meta{mcp.MetaKeyClientCapabilities: p.capabilities()}
	for name, value := range strictjson.Members(p.meta) {
		switch key := string(name); {
		case key == mcp.MetaKeyProtocolVersion, key == mcp.MetaKeyClientInfo, key == mcp.MetaKeyClientCapabilities,
			key == "progressToken", key == wire.MetaRelatedTask, strings.HasPrefix(key, ownMeta):
		default:
			meta[key] = json.RawMessage(value)
		}
	}
	// Hosts in sessions have said once what they want to see of the log, and what they do not want is left out there.
	if p.behind.logs.Load() && strictjson.Get(p.meta, mcp.MetaKeyProtocolVersion) == nil {
		meta[mcp.MetaKeyLogLevel] = "debug"
	}
	return meta
}

// abilities are what a server is told that it can ask.
type abilities struct{ form, url, sampling, tools, roots bool }

// can is what the server can ask in this call: what the host declared, and elicitation, because the desk can ask for
// a tool. A caller without a name has no desk.
func (p *passage) can() abilities {
	desk := p.method == wire.CallTool && p.call.Principal() != ""
	return abilities{
		form:     desk || p.call.Can(askback.CapabilityForm),
		url:      desk || p.call.Can(askback.CapabilityURL),
		sampling: p.call.Can(askback.CapabilitySampling),
		tools:    p.call.Can(askback.CapabilitySamplingTools),
		roots:    p.call.Can(askback.CapabilityRoots),
	}
}

// capabilities are those that the server is told, as JSON.
func (p *passage) capabilities() json.RawMessage {
	return declarationOf(p.can(), p.tasks || p.call.Can(askback.CapabilityTasks))
}

// declarations are the capabilities that were told before, of the few that there are.
var declarations sync.Map // from declaration to json.RawMessage

type declaration struct {
	can   abilities
	tasks bool
}

func declarationOf(can abilities, tasks bool) json.RawMessage {
	if known, ok := declarations.Load(declaration{can, tasks}); ok {
		return known.(json.RawMessage)
	}
	all, none := make(map[string]any), struct{}{}
	if tasks {
		all["extensions"] = map[string]any{wire.TasksExtension: none}
	}
	elicitation, sampling := make(map[string]any), make(map[string]any)
	if can.form {
		elicitation["form"] = none
	}
	if can.url {
		elicitation["url"] = none
	}
	if len(elicitation) > 0 {
		all["elicitation"] = elicitation
	}
	if can.tools {
		sampling["tools"] = none
	}
	if can.sampling {
		all["sampling"] = sampling
	}
	if can.roots {
		all["roots"] = none
	}
	encoded, _ := json.Marshal(all) // always marshals
	declarations.Store(declaration{can, tasks}, json.RawMessage(encoded))
	return encoded
}

// ownMeta begins the names in _meta that are this library's.
const ownMeta = "io.github.askback-mcp/"

// dropOwn drops from a server's _meta what only the bridge says to hosts.
func dropOwn(meta mcp.Meta) {
	maps.DeleteFunc(meta, func(name string, _ any) bool { return isOwnMeta(name) })
}

// isOwnMeta reports whether only the bridge says this to hosts.
func isOwnMeta(name string) bool {
	return strings.HasPrefix(name, ownMeta) || name == wire.MetaRelatedTask
}

// metaPassedOn is the _meta of a result without the server's name, which is all that most have in it.
func metaPassedOn(meta []byte) (all mcp.Meta, err error) {
	for name, value := range strictjson.Members(meta) {
		if string(name) == mcp.MetaKeyServerInfo {
			continue
		}
		if all == nil {
			all = make(mcp.Meta)
		}
		var decoded any
		decoder := json.NewDecoder(bytes.NewReader(value))
		decoder.UseNumber()
		if err := decoder.Decode(&decoded); err != nil {
			return nil, err
		}
		all[string(name)] = decoded
	}
	return all, nil
}

// passedOn is a tool's result as the host gets it: all that the server sent, except its own name.
func passedOn(result json.RawMessage) (*raw.Result, error) {
	if strictjson.TypeOf(result) != strictjson.TypeObject {
		return nil, errors.New("the server's result is not an object")
	}
	passed, members := new(raw.Result), append(make(object, 0, len(result)), '{')
	for name, value := range strictjson.Members(result) {
		switch string(name) {
		case "resultType", "inputRequests", "requestState", "taskId": // the bridge's own are not the server's to say
			continue
		case "_meta":
			var err error
			if passed.Meta, err = metaPassedOn(value); err != nil {
				return nil, fmt.Errorf("the _meta of the server's result: %w", err)
			}
			dropOwn(passed.Meta)
			continue
		}
		members.add(string(name), value)
	}
	passed.Object = members.end()
	return passed, nil
}
