package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/test/judge"
)

// The test binary is also the client under test, correct or with one planted fault: its arguments are then "planted",
// the name of the fault, and the URL.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "planted" {
		if err := newPlanted(os.Args[2], os.Args[3]).run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(judge.Run(m))
}

// planted is a client that answers everything by itself.
type planted struct {
	fault string
	url   string
	raw   *rawclient.Client
	id    int
	last  result // of the newest round
}

type result struct {
	Type      string                     `json:"resultType"`
	Questions map[string]json.RawMessage `json:"inputRequests"`
	State     *string                    `json:"requestState"`
	TaskID    string                     `json:"taskId"`
	Status    string                     `json:"status"`
	Poll      int                        `json:"pollIntervalMs"`
}

func newPlanted(fault, url string) *planted {
	return &planted{fault: fault, url: url, raw: &rawclient.Client{
		URL: url, Header: http.Header{"Authorization": {"Bearer " + os.Getenv("MCP_SERVER_TOKEN")}},
		HTTP: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}}
}

func (p *planted) run(ctx context.Context) error {
	if p.fault == "silent" {
		return errors.New("no server is wanted")
	}
	_, err := p.send(ctx, "server/discover", map[string]any{})
	if err != nil && p.fault == "fallback" {
		_, err = p.send(ctx, "initialize", map[string]any{"protocolVersion": "2025-11-25"})
	}
	if err != nil {
		return err
	}
	if _, err := p.send(ctx, "tools/list", map[string]any{}); err != nil {
		return err
	}
	for _, tool := range []string{"test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state"} {
		if err := p.call(ctx, tool); err != nil {
			fmt.Fprintln(os.Stderr, tool, err)
			if p.fault == "loud" {
				return err
			}
		}
	}
	return nil
}

// call calls a tool to its end.
func (p *planted) call(ctx context.Context, tool string) error {
	params := map[string]any{"name": tool, "arguments": map[string]any{"n": 1}}
	if p.last.State != nil && (p.fault == "ended" && tool == "test_mrtr_no_state" ||
		p.fault == "elsewhere" && tool == "test_mrtr_unrelated") {
		params["requestState"] = *p.last.State
	}
	if p.fault == "ended" {
		params["name"] = "test_mrtr_echo_state"
	}
	var earlier map[string]any
	most, pause := 16, 50*time.Millisecond
	if p.fault == "endless" || p.fault == "hammer" {
		most, pause = 1000, 0
	}
	for range most {
		text, err := p.send(ctx, "tools/call", params)
		for tries := 0; err != nil && p.fault == "again" && tries < 20; tries++ {
			text, err = p.send(ctx, "tools/call", params)
		}
		if err != nil {
			return err
		}
		var res result
		if err := json.Unmarshal(text, &res); err != nil {
			return err
		}
		known := slices.Contains([]string{"", "complete", "input_required", "task"}, res.Type)
		switch {
		case res.Type == "task":
			return p.await(ctx, res)
		case !known && p.fault != "anytype":
			return errors.New("a result of an unknown type")
		case res.Type == "complete" || res.Type == "" && p.fault != "notype":
			return nil
		case res.State == nil && len(res.Questions) == 0:
			if p.fault == "hang" {
				select {}
			}
			if p.fault != "empty" {
				return errors.New("a round without questions and state")
			}
		}
		p.last = res
		if p.fault == "loud" {
			return fmt.Errorf("cannot answer %s of %s", *res.State, os.Getenv("MCP_SERVER_TOKEN"))
		}
		if len(res.Questions) == 0 {
			time.Sleep(pause)
			pause = min(2*pause, 100*time.Millisecond)
		}
		answers, err := p.answers(ctx, res)
		if err != nil {
			return err
		}
		if params, err = p.retry(params, res, answers, earlier); err != nil {
			return err
		}
		earlier = answers
		if p.fault == "twice" {
			if _, err := p.send(ctx, "tools/call", params); err != nil {
				return err
			}
		}
	}
	return errors.New("too many rounds")
}

// retry makes the params of a retry.
func (p *planted) retry(params map[string]any, res result, answers, earlier map[string]any) (map[string]any, error) {
	next := maps.Clone(params)
	delete(next, "inputResponses")
	if len(answers) > 0 {
		next["inputResponses"] = answers
	} else if p.fault == "stale" {
		next["inputResponses"] = earlier
	}
	if p.fault == "arguments" {
		next["arguments"] = map[string]any{"n": 2}
	}
	if res.State == nil {
		if p.fault != "keepstate" {
			delete(next, "requestState")
		}
		return next, nil
	}
	state := *res.State
	switch p.fault {
	case "trim":
		state = strings.TrimSpace(state)
	case "reencode":
		var v any
		if json.Unmarshal([]byte(state), &v) == nil {
			data, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			state = string(data)
		}
	case "cut":
		state = state[:min(len(state), 4096)]
	}
	next["requestState"] = state
	if p.fault == "noempty" && state == "" || p.fault == "nostate" {
		delete(next, "requestState")
	}
	return next, nil
}

// answers answers the questions of a round.
func (p *planted) answers(ctx context.Context, res result) (map[string]any, error) {
	answers := map[string]any{}
	for key, text := range res.Questions {
		var q struct {
			Method string `json:"method"`
			Params struct {
				Mode   string          `json:"mode"`
				URL    string          `json:"url"`
				Schema json.RawMessage `json:"requestedSchema"`
			} `json:"params"`
		}
		if err := json.Unmarshal(text, &q); err != nil {
			return nil, err
		}
		if key == "__proto__" && p.fault == "proto" || strings.HasPrefix(key, "a.") && p.fault == "onekey" {
			continue
		}
		if key == "__proto__" && p.fault == "otherkey" {
			key = "proto"
		}
		accept := rawclient.Accept(map[string]any{"confirmed": true})
		switch {
		case q.Method == "elicitation/create" && q.Params.Mode == "url":
			if p.fault == "fetch" {
				get(ctx, q.Params.URL)
			}
			answers[key] = map[string]any{"action": "decline"}
		case q.Method == "elicitation/create" && bytes.Contains(q.Params.Schema, []byte("enum")):
			if p.fault == "unfit" {
				answers[key] = accept
			} else {
				answers[key] = rawclient.Accept(map[string]any{"confirmed": "yes", "count": 2})
			}
		case q.Method == "elicitation/create":
			if _, ref, ok := strings.Cut(string(q.Params.Schema), `"$ref":"`); ok && p.fault == "ref" {
				get(ctx, ref[:strings.Index(ref, `"`)])
			}
			answers[key] = accept
			if p.fault == "declines" {
				answers[key] = map[string]any{"action": "decline"}
			}
		case q.Method == "sampling/createMessage" && p.fault != "kind":
			answers[key] = map[string]any{"role": "assistant", "model": "fixed",
				"content": map[string]any{"type": "text", "text": "Yes"}}
		case q.Method == "roots/list" && p.fault == "undeclared":
			answers[key] = map[string]any{"roots": []any{}}
		case p.fault == "kind" || p.fault == "unknown":
			answers[key] = accept
		default:
			return nil, fmt.Errorf("cannot answer %s", q.Method)
		}
	}
	return answers, nil
}

// await waits for a task.
func (p *planted) await(ctx context.Context, res result) error {
	id, answered, done := res.TaskID, map[string]bool{}, 0
	if p.fault == "scope" {
		for key := range p.last.Questions {
			answered[key] = true
		}
	}
	for {
		wait := time.Duration(res.Poll) * time.Millisecond
		if p.fault == "fast" {
			wait /= 4
		}
		time.Sleep(wait)
		params := map[string]any{"taskId": id}
		if p.fault == "taskstate" {
			params["requestState"] = *p.last.State
		}
		text, err := p.send(ctx, "tasks/get", params)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &res); err != nil {
			return err
		}
		if res.Status == "completed" {
			if done++; done > 2 || p.fault != "pollon" {
				return nil
			}
		}
		if res.Status != "input_required" || answered["confirm"] && p.fault != "taskagain" {
			continue
		}
		answered["confirm"] = true
		answers, err := p.answers(ctx, res)
		if err != nil {
			return err
		}
		if _, err = p.send(ctx, "tasks/update", map[string]any{"taskId": id, "inputResponses": answers}); err != nil {
			return err
		}
	}
}

// send sends one request, and returns its result.
func (p *planted) send(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	if p.fault != "sameid" || params["requestState"] == nil {
		p.id++
	}
	capabilities := `{"elicitation":{"form":{},"url":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	if p.fault == "forget" && params["requestState"] != nil {
		capabilities = `{}`
	}
	params = maps.Clone(params)
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    rawclient.Modern,
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "planted", "version": p.fault},
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage(capabilities),
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	header := http.Header{"Mcp-Method": {method}}
	for _, member := range []string{"name", "taskId"} {
		if name, ok := params[member].(string); ok && (member == "name" || p.fault != "taskname") {
			header.Set("Mcp-Name", name)
		}
	}
	if p.fault == "headers" && params["requestState"] != nil {
		header.Set("Mcp-Method", "tools/list")
	}
	s, err := p.raw.Send(ctx, http.MethodPost, bytes.NewReader(body), header)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Status/100 == 3 && (p.fault == "redirect" || p.fault == "token") {
		c := *p.raw
		if c.URL = s.Header.Get("Location"); p.fault == "redirect" {
			c.Header = nil
		} else {
			body = []byte(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`)
		}
		moved, err := c.Send(ctx, http.MethodPost, bytes.NewReader(body), header)
		if err != nil {
			return nil, err
		}
		defer moved.Close()
		s = moved
	}
	m, err := s.Next()
	if err != nil {
		if p.fault == "crash" && s.Status == http.StatusOK {
			panicWithSignal()
		}
		return nil, err
	}
	switch {
	case m.Error != nil:
		return nil, m.Error
	case string(m.ID) != fmt.Sprint(p.id) && p.fault != "anyid":
		return nil, errors.New("a response to another request")
	case !utf8.Valid(m.Result) && p.fault != "repair":
		return nil, errors.New("a result that is no UTF-8")
	}
	return m.Result, nil
}

// get fetches a page, as no client may.
func get(ctx context.Context, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, res.Body) // only the request counts
		_ = res.Body.Close()
	}
}

func panicWithSignal() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = self.Kill() // ends this process
	}
	select {}
}
