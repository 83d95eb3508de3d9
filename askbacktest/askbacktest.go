// Package askbacktest runs handlers that ask back in unit tests, without a network:
//
//	func TestClose(t *testing.T) {
//		res := askbacktest.Run(t, register, askbacktest.Call{
//			Tool:      "close_bug",
//			Arguments: map[string]any{"id": 7},
//			Answers: map[string]askbacktest.Answer{
//				"resolution": askbacktest.Accept(map[string]any{"resolution": "Fixed"}),
//			},
//		})
//		if res.Text() != "Bug #7 closed as Fixed." {
//			t.Error(res.Text())
//		}
//	}
//
// The run is harder on the handler than most clients are:
//
//   - A new server serves every round, as if the process had been restarted.
//   - Every request is sent twice, as by a client whose response was lost.
//   - After every round the handler is replayed without answers.
//
// The test fails when any of this changes a question or a result. Then the handler depends on something that is neither
// an answer nor the result of a step, or a step is not safe to repeat.
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
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/seal"
)

// Call is a call and the answers that its client will give.
type Call struct {
	// One of these names what is called.
	Tool     string
	Prompt   string
	Resource string // its URI

	// Arguments marshal to a JSON object. Nil means none.
	Arguments any
	// Answers holds the answers by the questions' keys. A question of askback.AddInlineTool has no key of its author:
	// its message is the key. The test fails if an answer is missing or is never asked for.
	Answers map[string]Answer
	// Cannot are the capabilities that the client does not declare, combined with |. Zero means that it declares all.
	Cannot askback.Capability
	// Principal is the authenticated caller.
	Principal string
	// Lossless sends no request twice, so that steps need not be safe to repeat.
	Lossless bool
	// Options of the servers, such as Limits. Keys, Principal, ReplayGuard and Logger are set by Run.
	Options askback.Options
}

// Answer is what the client answers to one question.
type Answer struct{ results []json.RawMessage }

// Accept answers a form with content, which marshals to a JSON object, or consents to open a URL with nil.
func Accept(content any) Answer {
	if content == nil {
		return result(map[string]any{"action": "accept"})
	}
	return result(map[string]any{"action": "accept", "content": content})
}

// Decline answers that the user declined.
func Decline() Answer { return result(map[string]any{"action": "decline"}) }

// Cancel answers that the user dismissed the question.
func Cancel() Answer { return result(map[string]any{"action": "cancel"}) }

// Completion answers a sampling request with a text of the model.
func Completion(text string) Answer {
	return Sampled(&mcp.CreateMessageWithToolsResult{
		Role: "assistant", Model: "askbacktest", StopReason: "endTurn",
		Content: []mcp.Content{&mcp.TextContent{Text: text}},
	})
}

// Sampled answers a sampling request.
func Sampled(res *mcp.CreateMessageWithToolsResult) Answer { return result(res) }

// Roots answers a request for roots with these file URIs.
func Roots(uris ...string) Answer {
	roots := make([]*mcp.Root, len(uris))
	for i, uri := range uris {
		roots[i] = &mcp.Root{URI: uri}
	}
	return result(mcp.ListRootsResult{Roots: roots})
}

// InTurn answers a question that is asked several times: with the first answer first,
// and with the last one from then on.
func InTurn(answers ...Answer) Answer {
	var all Answer
	for _, a := range answers {
		all.results = append(all.results, a.results...)
	}
	return all
}

func result(v any) Answer {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("askbacktest: an answer cannot be encoded: %v", err))
	}
	return Answer{[]json.RawMessage{data}}
}

// Result is how a call ended.
type Result struct {
	// Asked are the keys asked in each round that ended with input required, in order.
	Asked [][]string
	// One of these is set.
	Tool     *mcp.CallToolResult
	Prompt   *mcp.GetPromptResult
	Resource *mcp.ReadResourceResult
	Err      *jsonrpc.Error
}

// Text returns the text of a tool's result, or the message of an error.
func (r *Result) Text() string {
	if r.Err != nil {
		return r.Err.Message
	}
	var b strings.Builder
	if r.Tool != nil {
		for _, c := range r.Tool.Content {
			if text, ok := c.(*mcp.TextContent); ok {
				b.WriteString(text.Text)
			}
		}
	}
	return b.String()
}

// Run drives a call to its end. It makes a new server for each round, and calls register for it: register must share
// between the servers what survives a restart, such as a store. Run must be called from the test's own goroutine.
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
			return fmt.Errorf("a call names one of Tool, Prompt and Resource, not several")
		}
		d.method, d.target = named.method, named.target
		d.params[named.param] = named.target
	}
	if d.target == "" {
		return fmt.Errorf("a call names a Tool, a Prompt or a Resource")
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

// reply is a response, as far as the driver looks into it.
type reply struct {
	raw    []byte
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`

	outcome struct {
		Type     string                     `json:"resultType"`
		Requests map[string]json.RawMessage `json:"inputRequests"`
		State    string                     `json:"requestState"`
	}
}

func (d *driver) run() *Result {
	d.t.Helper()
	res := new(Result)
	var state string
	var responses map[string]json.RawMessage
	for {
		r := d.send(state, responses)
		if !d.call.Lossless {
			d.same(r, d.send(state, responses), "the request was sent a second time, as by a client whose response was lost")
		}
		if r.Error != nil || r.outcome.Type != "input_required" {
			d.finish(res, r)
			return res
		}
		state = r.outcome.State
		asked := slices.AppendSeq([]string{}, maps.Keys(r.outcome.Requests))
		slices.Sort(asked)
		res.Asked = append(res.Asked, asked)
		if len(r.outcome.Requests) > 0 {
			d.same(r, d.send(state, nil), "the handler was replayed without answers")
		}
		responses = make(map[string]json.RawMessage, len(r.outcome.Requests))
		for key, request := range r.outcome.Requests {
			responses[key] = d.answer(key, request)
		}
	}
}

func (d *driver) answer(key string, request json.RawMessage) json.RawMessage {
	d.t.Helper()
	names := []string{key}
	if at := strings.LastIndexByte(key, '#'); at > 0 {
		names = append(names, key[:at]) // with States, what follows tells two questions of a key apart
	}
	var question struct{ Params struct{ Message string } }
	if json.Unmarshal(request, &question) == nil {
		names = append(names, question.Params.Message)
	}
	for _, name := range names {
		if results := d.call.Answers[name].results; len(results) > 0 {
			turn := min(d.turns[name], len(results)-1)
			d.turns[name]++
			return results[turn]
		}
	}
	d.t.Fatalf("askbacktest: no answer for the question %q:\n%s", key, request)
	return nil
}

// same fails the test when a repetition has another outcome. States always differ, because each is sealed anew.
func (d *driver) same(first, second *reply, how string) {
	d.t.Helper()
	if !reflect.DeepEqual(first.comparable(d.t), second.comparable(d.t)) {
		d.t.Errorf("askbacktest: %s, and its outcome changed:\n first: %s\nsecond: %s", how, first.raw, second.raw)
	}
}

func (r *reply) comparable(t testing.TB) any {
	t.Helper()
	if r.Error != nil {
		return map[string]any{"code": float64(r.Error.Code), "message": r.Error.Message}
	}
	var v map[string]any
	if err := json.Unmarshal(r.Result, &v); err != nil {
		t.Fatalf("askbacktest: %v in %s", err, r.raw)
	}
	delete(v, "requestState")
	if meta, ok := v["_meta"].(map[string]any); ok {
		delete(meta, "io.github.askback-mcp/expires") // that of the state
	}
	return v
}

// send serves one request by a new server.
func (d *driver) send(state string, responses map[string]json.RawMessage) *reply {
	d.t.Helper()
	options := d.call.Options
	options.Keys = d.keys
	options.Logger = slog.New(slog.DiscardHandler)
	options.Principal, options.ReplayGuard = nil, nil
	if name := d.call.Principal; name != "" {
		options.Principal = func(context.Context, *mcp.RequestExtra) (string, error) { return name, nil }
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "askbacktest", Version: "1.0.0"}, nil), &options)
	if err != nil {
		d.t.Fatal(err)
	}
	d.register(srv)

	params := maps.Clone(d.params)
	if state != "" {
		params["requestState"] = state
	}
	if responses != nil {
		params["inputResponses"] = responses
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": d.method, "params": params})
	if err != nil {
		d.t.Fatalf("askbacktest: the arguments cannot be encoded: %v", err)
	}
	req := httptest.NewRequestWithContext(d.t.Context(), http.MethodPost, "/mcp", bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", d.method)
	req.Header.Set("Mcp-Name", "=?base64?"+base64.StdEncoding.EncodeToString([]byte(d.target))+"?=")
	w := httptest.NewRecorder()
	srv.HTTPHandler(nil).ServeHTTP(w, req)

	r := &reply{raw: w.Body.Bytes()}
	if err := json.Unmarshal(r.raw, r); err != nil {
		d.t.Fatalf("askbacktest: status %d: %v in %s", w.Code, err, r.raw)
	}
	if r.Result != nil {
		if err := json.Unmarshal(r.Result, &r.outcome); err != nil {
			d.t.Fatalf("askbacktest: %v in %s", err, r.raw)
		}
	}
	return r
}

func (d *driver) finish(res *Result, r *reply) {
	d.t.Helper()
	for key := range d.call.Answers {
		if d.turns[key] == 0 {
			d.t.Errorf("askbacktest: the question %q was never asked", key)
		}
	}
	if res.Err = r.Error; r.Error != nil {
		return
	}
	into := map[string]any{"tools/call": &res.Tool, "prompts/get": &res.Prompt, "resources/read": &res.Resource}
	if err := json.Unmarshal(r.Result, into[d.method]); err != nil {
		d.t.Fatalf("askbacktest: %v in %s", err, r.raw)
	}
}
