package askbacktest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// Run drives a call to its end and returns its result. At the first mistake of the handler the test fails, with
// t.Fatalf: the comment of the package lists what Run finds. It makes new servers for each round, and calls register
// for each: register must share between the servers what survives a restart, such as a store. Run must be called from
// the test's own goroutine.
func Run(t testing.TB, register func(*askback.Server), c Call) *Result {
	t.Helper()
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, register: register, call: c, keys: keys, turns: make(map[string]int)}
	if err := d.prepare(); err != nil {
		t.Fatalf("askbacktest: %v", err)
	}
	return d.run()
}

type driver struct {
	t        testing.TB
	register func(*askback.Server)
	call     Call
	keys     *seal.Ring
	turns    map[string]int // answers given so far, by key
	once     sync.Map       // as in probe

	method, target string
	params         map[string]any
}

func (d *driver) prepare() error {
	c := d.call
	d.params = map[string]any{"_meta": map[string]any{
		mcp.MetaKeyProtocolVersion:    "2026-07-28",
		mcp.MetaKeyClientCapabilities: capabilities(c.Cannot),
	}}
	for _, named := range []struct{ method, param, target string }{
		{"tools/call", "name", c.Tool}, {"prompts/get", "name", c.Prompt}, {"resources/read", "uri", c.Resource},
	} {
		if named.target == "" {
			continue
		}
		if d.target != "" {
			return fmt.Errorf("the call names several of Tool, Prompt and Resource: name one of them")
		}
		d.method, d.target = named.method, named.target
		d.params[named.param] = named.target
	}
	if d.target == "" {
		return fmt.Errorf("the call names nothing to call: set its Tool, Prompt or Resource")
	}
	if c.Arguments != nil {
		d.params["arguments"] = c.Arguments
	}
	return nil
}

func capabilities(cannot askback.Capability) map[string]map[string]any {
	declared := make(map[string]map[string]any)
	declare := func(capability askback.Capability, name string, modes ...string) {
		if cannot&capability != 0 {
			return
		}
		if declared[name] == nil {
			declared[name] = make(map[string]any)
		}
		for _, mode := range modes {
			declared[name][mode] = struct{}{}
		}
	}
	declare(askback.CapabilityForm, "elicitation", "form")
	declare(askback.CapabilityURL, "elicitation", "url")
	declare(askback.CapabilitySampling, "sampling")
	declare(askback.CapabilitySamplingTools|cannot&askback.CapabilitySampling, "sampling", "tools")
	declare(askback.CapabilityRoots, "roots")
	return declared
}

// request holds the parameters that differ between the requests of a call.
type request struct {
	state     string
	responses map[string]json.RawMessage
	decisions map[string]*journal.Entry // by people, and by deadlines
	isTask    bool
}

func (d *driver) run() *Result {
	d.t.Helper()
	res := new(Result)
	var r request
	for {
		first, drawn := d.send(r)
		d.checkAnswers(first)
		if !d.call.Lossless {
			d.repeat(r, first, drawn)
		}
		if !first.inputRequired() {
			d.replay(r, drawn, func(again *reply) string {
				if !again.asks() {
					return "" // Only questions are compared.
				}
				return first.String() + " → " + again.String()
			})
			d.finish(res, first, drawn.failed)
			return res
		}
		res.Asked = append(res.Asked, first.asked())
		r = request{state: first.outcome.State, isTask: r.isTask || first.becomesTask()}
		if first.asks() {
			d.replay(r, drawn, func(again *reply) string { return difference(first, again) })
		}
		r.decisions = d.decide(res, first)
		r.responses = make(map[string]json.RawMessage, len(first.outcome.Requests))
		for key, asked := range first.outcome.Requests {
			if w := first.find(key); w == nil || r.decisions[w.pending.Row] == nil {
				r.responses[key] = d.answer(key, asked)
			}
		}
	}
}

// repeat sends a request again, and fails the test if its outcome is not the first one.
func (d *driver) repeat(r request, first *reply, drawn record) {
	d.t.Helper()
	second, drawnAgain := d.send(r)
	diff := difference(first, second)
	if diff == "" {
		return
	}
	if first.asks() && second.asks() && d.explains(r, [2]record{drawn, drawnAgain}, [2]*reply{first, second}) {
		return // the difference comes from a step or the ID, and the client has the state of its last question
	}
	remedy := safeSteps
	if first.asks() || second.asks() {
		remedy = onlyAnswers + onceOnly
	}
	d.t.Fatalf("askbacktest: the request was sent a second time, as a client does when a response is lost, and its "+
		"outcome changed:\n\t%s%s", diff, remedy)
}

func (d *driver) answer(key string, asked json.RawMessage) json.RawMessage {
	d.t.Helper()
	name, results := d.answersTo(key, asked)
	if len(results) == 0 {
		d.t.Fatalf("askbacktest: no answer for the question %q (%q): add one to Call.Answers",
			authorKey(key), cut(message(asked)))
	}
	turn := min(d.turns[name], len(results)-1)
	d.turns[name]++
	switch g := results[turn]; {
	case g.by != nil:
		d.t.Fatalf("askbacktest: the question %q is for the client: leave out By in Call.Answers[%q]", authorKey(key), name)
	case g.unanswered:
		d.t.Fatalf("askbacktest: the question %q has no deadline that could pass: set its Within", authorKey(key))
	}
	return results[turn].result
}

// isUnanswered reports whether the deadline of a question of the client passes, and counts that as its answer.
func (d *driver) isUnanswered(key string, asked json.RawMessage) bool {
	name, all := d.answersTo(key, asked)
	if len(all) == 0 || !all[min(d.turns[name], len(all)-1)].unanswered {
		return false
	}
	d.turns[name]++
	return true
}

// answersTo returns the answers to a question, and their key in Call.Answers.
func (d *driver) answersTo(key string, asked json.RawMessage) (name string, all []given) {
	for _, name := range []string{key, authorKey(key), message(asked)} {
		if all := d.call.Answers[name].given; len(all) > 0 {
			return name, all
		}
	}
	return "", nil
}

// checkAnswers fails the test if the last answer to a question does not fit, because it would be asked again and again.
func (d *driver) checkAnswers(r *reply) {
	d.t.Helper()
	requests := r.outcome.Requests
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		if w := r.find(key); w != nil && w.pending.Apart {
			continue // the desk checks them
		}
		name, results := d.answersTo(key, requests[key])
		given := d.turns[name]
		if given < len(results)-1 || len(results) == 0 {
			continue
		}
		var q struct {
			Method string
			Params json.RawMessage
		}
		if json.Unmarshal(requests[key], &q) != nil {
			continue
		}
		_, reason := question.Reason(messageOf(q.Params))
		if given < len(results) {
			reason = "" // the reason is about an earlier answer
		}
		// A form for a client that shows less also takes the answers to its own form, so the server decides.
		if plain := d.call.Options.PlainForms != nil && q.Method == input.MethodElicit; reason == "" && !plain {
			if accept, err := question.AcceptFor(q.Method, q.Params); err == nil {
				if last := results[len(results)-1]; last.unanswered {
					continue
				} else if _, err := accept(last.result); err != nil {
					reason = err.Error()
				}
			}
		}
		if reason != "" {
			d.t.Fatalf("askbacktest: the answer to the question %q does not fit: %s: correct Call.Answers[%q]; "+
				"the user would be asked again", authorKey(key), reason, name)
		}
	}
}

// send has a new server answer a request, and returns the record of the handler's inputs. The server is new so that a
// handler that keeps something in memory between rounds fails, as it would on another instance.
func (d *driver) send(r request) (*reply, record) {
	d.t.Helper()
	w := &probe{record: record{steps: make(map[string]outcome)}, once: &d.once, decisions: r.decisions, isTask: r.isTask}
	response, err := d.serve(d.newServer(d.call.Options), w, r)
	if err != nil {
		d.t.Fatalf("askbacktest: %v", err)
	}
	if mistake := w.firstMistake(); mistake != "" {
		d.t.Fatalf("askbacktest: %s", mistake)
	}
	w.mu.Lock() // a goroutine that the handler left behind may still be in a step
	defer w.mu.Unlock()
	return response, record{w.callID, maps.Clone(w.steps), maps.Clone(w.failed)}
}

func (d *driver) newServer(options askback.Options) http.Handler {
	d.t.Helper()
	options.Keys = d.keys
	options.Logger = slog.New(slog.DiscardHandler)
	options.Principal, options.ReplayGuard = nil, nil
	options.Limits.RoundTTL, options.Limits.CallTTL = ages, ages
	if options.Tasks == nil {
		options.Tasks = &askback.Tasks{Store: new(task.MemoryStore)}
	}
	var people askback.DeskOptions
	if options.Desk != nil {
		people = *options.Desk
	}
	people.NotShown = 1 // nanosecond: a client of a test answers at once
	options.Desk = &people
	if name := d.call.Principal; name != "" {
		options.Principal = func(context.Context, *mcp.RequestExtra) (string, error) { return name, nil }
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "askbacktest", Version: "1.0.0"}, nil), &options)
	if err != nil {
		d.t.Fatal(err)
	}
	d.register(srv)
	return srv.HTTPHandler(nil)
}

// ages is a time to live that moving the clock does not use up.
const ages = 100 * 365 * 24 * time.Hour

// serve sends a request whose handler w follows. It may be called in a bubble, because nothing that it makes outlives
// it.
func (d *driver) serve(h http.Handler, w *probe, r request) (*reply, error) {
	params := maps.Clone(d.params)
	if r.state != "" {
		params["requestState"] = r.state
	}
	if r.responses != nil {
		params["inputResponses"] = r.responses
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": d.method, "params": params})
	if err != nil {
		return nil, fmt.Errorf("the arguments cannot be encoded: %w", err)
	}
	ctx, cancel := context.WithCancel(call.WithProbe(context.Background(), w))
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", d.method)
	req.Header.Set("Mcp-Name", "=?base64?"+base64.StdEncoding.EncodeToString([]byte(d.target))+"?=")
	recorder := httptest.NewRecorder()
	d.call.Effects.follow(w)
	h.ServeHTTP(recorder, req)
	d.call.Effects.follow(nil)
	answered, err := parse(recorder)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return answered, answered.addParked(w.parked)
}

// reply is a response, as far as the driver looks into it.
type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`

	outcome struct {
		Type     string                     `json:"resultType"`
		Requests map[string]json.RawMessage `json:"inputRequests"`
		State    string                     `json:"requestState"`
	}
	parked []parked // what waits for people or for a time; outcome.Requests has them, too
}

func parse(w *httptest.ResponseRecorder) (*reply, error) {
	r := new(reply)
	if err := json.Unmarshal(w.Body.Bytes(), r); err != nil {
		return nil, fmt.Errorf("status %d, and no JSON-RPC response: %w", w.Code, err)
	}
	if r.Error != nil {
		return r, nil
	}
	if err := json.Unmarshal(r.Result, &r.outcome); err != nil {
		return nil, fmt.Errorf("the result cannot be decoded: %w", err)
	}
	return r, nil
}

func (r *reply) inputRequired() bool { return r.Error == nil && r.outcome.Type == "input_required" }

// asks reports whether the reply has questions; without them the client only has to come back.
func (r *reply) asks() bool { return r.inputRequired() && len(r.outcome.Requests) > 0 }

// finish sets the result, and reports the answers that were not used. Failed says why questions could not be asked.
func (d *driver) finish(res *Result, r *reply, failed map[string]error) {
	d.t.Helper()
	if res.Err = r.Error; r.Error == nil {
		into := map[string]any{"tools/call": &res.Tool, "prompts/get": &res.Prompt, "resources/read": &res.Resource}
		if err := json.Unmarshal(r.Result, into[d.method]); err != nil {
			d.t.Fatalf("askbacktest: the result cannot be decoded: %v", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.call.Answers)) {
		switch err := failed[key]; {
		case d.turns[key] > 0:
		case err != nil:
			d.t.Errorf("askbacktest: the question %q was not asked: %v", key, err)
		case res.Err != nil || res.Tool != nil && res.Tool.IsError:
			d.t.Errorf("askbacktest: the question %q was never asked, because the call ended with an error: %s", key,
				res.Text())
		default:
			d.t.Errorf("askbacktest: the question %q was never asked: remove it from Call.Answers", key)
		}
	}
}
