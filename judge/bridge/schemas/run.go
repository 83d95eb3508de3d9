package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task"
)

// The bars.
const (
	mostTime   = 2 * time.Second
	mostOther  = time.Second
	mostMemory = 100 << 20
)

// findings are the figures of a run, and what must not be.
type findings struct {
	number     int
	seed       uint64
	times      map[string][]time.Duration // by what was done
	memory     map[string]int64           // what a process took at most beyond what it had, in bytes
	ends       map[string]int
	violations []string
}

func newFindings(number int, seed uint64) *findings {
	return &findings{number: number, seed: seed, times: make(map[string][]time.Duration), memory: make(map[string]int64),
		ends: make(map[string]int)}
}

func (f *findings) violate(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}

// took notes how long something took, for a kind of schema.
func (f *findings) took(what, kind string, d, most time.Duration) {
	f.times[what] = append(f.times[what], d)
	if d > most {
		f.violate("%s, %s: %v", what, kind, d.Round(time.Millisecond))
	}
}

// grew notes how much memory a process took.
func (f *findings) grew(what, kind string, n int64) {
	f.memory[what] = max(f.memory[what], n)
	if n > mostMemory {
		f.violate("%s, %s: %d MB", what, kind, n>>20)
	}
}

func (f *findings) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d schemas, seed %d\n", f.number, f.seed)
	for what, all := range f.times {
		slices.Sort(all)
		fmt.Fprintf(&b, "  %-22s %6d times, median %v, at most %v\n", what, len(all),
			all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
	}
	for what, n := range f.memory {
		fmt.Fprintf(&b, "  %-22s %d MB at most\n", what, n>>20)
	}
	fmt.Fprintf(&b, "  ends %v\n%d violations", f.ends, len(f.violations))
	for _, v := range f.violations {
		b.WriteString("\n  - " + v)
	}
	return b.String()
}

// scene are the processes in front of the servers.
type scene struct {
	*findings
	program, dir  string
	evil, good    string // URLs
	bridge, inbox string
	store         task.Store
	desk          *desk.Desk
}

// batch judges schemas that are behind one bridge.
func (f *findings) batch(ctx context.Context, program, dir string, schemas []schema) error {
	bad, err := evil(schemas)
	if err != nil {
		return err
	}
	defer bad.Close()
	good, err := honest()
	if err != nil {
		return err
	}
	defer good.Close()
	dir, err = os.MkdirTemp(dir, "batch-")
	if err != nil {
		return err
	}
	s := &scene{findings: f, program: program, dir: dir, evil: bad.URL, good: good.URL}
	bridge, inbox, err := s.start(ctx)
	if bridge != nil {
		defer bridge.Kill()
	}
	if inbox != nil {
		defer inbox.Kill()
	}
	if err != nil {
		return err
	}
	if store, ok := s.store.(io.Closer); ok {
		defer store.Close()
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	before := make(map[*child.Process]int64)
	for _, p := range []*child.Process{bridge, inbox} {
		if before[p], _, err = process.Memory(p.PID()); err != nil {
			return err
		}
	}
	base, err := s.command(ctx, s.good, "create", nil)
	if err != nil {
		return err
	}
	calling, stop := context.WithCancel(ctx)
	defer stop()
	var others sync.WaitGroup
	var honest []time.Duration
	var failed error
	others.Go(func() { honest, failed = s.callHonest(calling) })
	for i, schema := range schemas {
		if err = cmp.Or(s.call(ctx, i, schema, base), s.edit(ctx, i, schema), s.ask(ctx, i, schema)); err != nil {
			err = fmt.Errorf("%w; the log of the bridge ends with\n%s", err, process.Tail(filepath.Join(dir, "bridge.log")))
			break
		}
		for what, p := range map[string]*child.Process{"bridge": bridge, "inbox": inbox} {
			_, peak, gone := process.Memory(p.PID())
			if gone != nil {
				return fmt.Errorf("%s: the %s is gone: %w", schema.kind, what, gone)
			}
			f.grew(what, schema.kind, peak-before[p])
		}
	}
	stop()
	others.Wait()
	for _, d := range honest {
		f.took("another server's call", "beside", d, mostOther)
	}
	return cmp.Or(err, failed)
}

// start starts the bridge and the inbox.
func (s *scene) start(ctx context.Context) (bridge, inbox *child.Process, err error) {
	file, store := filepath.Join(s.dir, "servers.json"), "sqlite:"+filepath.Join(s.dir, "calls.db")
	servers := fmt.Sprintf(`{"mcpServers":{"evil":{"url":%q},"good":{"url":%q}}}`, s.evil, s.good)
	if err := os.WriteFile(file, []byte(servers), 0o600); err != nil {
		return nil, nil, err
	}
	bridge, line, err := process.StartReady(exec.Command(s.program, "bridge", file, "--addr", "127.0.0.1:0", "--as",
		rig.Caller, "--store", store, "--approve", "*_odd*", "--approve-edit", "--wait", "1m"),
		filepath.Join(s.dir, "bridge.log"))
	if err != nil {
		return bridge, nil, err
	}
	s.bridge = rig.URL(line)
	inbox, line, err = process.StartReady(exec.Command(s.program, "inbox", "serve", store, "--addr", "127.0.0.1:0",
		"--trust-header", "X-User", "--trusted", "127.0.0.1"), filepath.Join(s.dir, "inbox.log"))
	if err != nil {
		return bridge, inbox, err
	}
	s.inbox = strings.TrimSuffix(strings.Fields(rig.URL(line))[0], "/")
	if s.store, err = rig.OpenStore(ctx, store); err != nil {
		return bridge, inbox, err
	}
	s.desk, err = desk.Open(s.store, nil)
	return bridge, inbox, err
}

// ready waits until the honest server's tool is offered: then the lists were read.
func (s *scene) ready(ctx context.Context) error {
	session, err := rig.OpenSession(ctx, s.bridge)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	for {
		if text, err := call(ctx, session, "good_create"); err != nil || text == "created" {
			return err
		}
	}
}

// callHonest calls the honest server through the bridge, without a pause to speak of.
func (s *scene) callHonest(ctx context.Context) (took []time.Duration, err error) {
	session, err := rig.OpenSession(ctx, s.bridge)
	if err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		began := time.Now()
		text, err := call(ctx, session, "good_create")
		if ctx.Err() != nil {
			break
		}
		if err != nil || text != "created" {
			return took, fmt.Errorf("the honest server's tool returns %q, %w", text, err)
		}
		took = append(took, time.Since(began))
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return took, nil
}

// call has the command call the tool. Base is the memory that a call of an honest tool takes.
func (s *scene) call(ctx context.Context, i int, schema schema, base int64) error {
	began := time.Now()
	peak, err := s.command(ctx, s.evil, fmt.Sprint("odd", i), schema.arguments)
	s.took("command", schema.kind, time.Since(began), mostTime)
	s.grew("command", schema.kind, peak-base)
	return err
}

// command runs askback call, and returns its peak of memory.
func (s *scene) command(ctx context.Context, url, tool string, arguments []byte) (peak int64, err error) {
	args := []string{"call", url, tool}
	if arguments != nil {
		args = append(args, "--json", "-", "a:=1")
	}
	cmd := exec.CommandContext(ctx, s.program, args...)
	var words bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(arguments), &words, &words
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if _, now, err := process.Memory(cmd.Process.Pid); err == nil {
			peak = now
		}
		select {
		case err := <-ended:
			_, failed := errors.AsType[*exec.ExitError](err)
			if code := cmd.ProcessState.ExitCode(); code < 0 || code > 10 || words.Len() == 0 || err != nil && !failed {
				s.violate("askback call %s ends with %v: %.500s", tool, err, &words)
			}
			if arguments != nil {
				s.ends[end("command", words.String())]++
			}
			return peak, nil
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// edit has a host call the tool through the bridge, and a person edit its arguments.
func (s *scene) edit(ctx context.Context, i int, schema schema) error {
	return s.through(ctx, "bridge with edits", fmt.Sprint("evil_odd", i), schema, func(q *desk.Question) map[string]any {
		answer := map[string]any{"action": "accept"}
		edited := string(schema.arguments)
		if strings.Contains(q.Message, "cannot be used") { // accept the arguments as they are
			edited = "{}"
		}
		if q.Schema != nil && bytes.Contains(q.Schema, []byte(`"arguments"`)) {
			answer["content"] = map[string]any{"arguments": edited}
		}
		return answer
	})
}

// ask has a host call the tool that asks by the form. The person declines.
func (s *scene) ask(ctx context.Context, i int, schema schema) error {
	return s.through(ctx, "bridge with a form", fmt.Sprint("evil_ask", i), schema, func(*desk.Question) map[string]any {
		return map[string]any{"action": "decline"}
	})
}

// through calls a tool through the bridge, and answers at the inbox until the call has ended.
func (s *scene) through(ctx context.Context, what, tool string, schema schema,
	answer func(*desk.Question) map[string]any) error {
	session, err := rig.OpenSession(ctx, s.bridge)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	began := time.Now() // of the call, and then of what comes of an answer
	type ended struct {
		text string
		err  error
	}
	done := make(chan ended, 1)
	go func() {
		text, err := call(ctx, session, tool)
		done <- ended{text, err}
	}()
	for {
		select {
		case e := <-done:
			if e.err != nil || e.text == "" {
				s.violate("%s, %s: ends with %q, %v", what, schema.kind, e.text, e.err)
			}
			s.took(what, schema.kind, time.Since(began), mostTime)
			s.ends[end(what, e.text)]++
			return nil
		case <-time.After(5 * time.Millisecond):
		}
		answered, err := s.answer(ctx, what, schema, answer)
		if err != nil {
			return err
		}
		if answered {
			s.took(what, schema.kind, time.Since(began), mostTime)
			began = time.Now()
		}
	}
}

// answer opens the card of each question that waits, and answers it. It reports whether there was one.
func (s *scene) answer(ctx context.Context, what string, schema schema,
	answer func(*desk.Question) map[string]any) (answered bool, err error) {
	for q, err := range s.desk.Waiting(ctx, desk.Waiting{As: &desk.Person{Name: rig.Caller}}) {
		if err != nil {
			return false, err
		}
		body, err := json.Marshal(answer(q))
		if err != nil {
			return false, err
		}
		began := time.Now()
		path := q.Name + "/" + url.PathEscape(q.Key)
		for _, r := range []struct {
			method, path string
			body         []byte
		}{{"GET", "/q/" + path, nil}, {"POST", "/api/questions/" + path + "/answer", body}} {
			req, err := http.NewRequestWithContext(ctx, r.method, s.inbox+r.path, bytes.NewReader(r.body))
			if err != nil {
				return false, err
			}
			req.Header.Set("X-User", rig.Caller)
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return false, err
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode >= 500 || len(text) == 0 {
				s.violate("inbox, %s of %s: %s %.300s, %v", what, schema.kind, res.Status, text, err)
			}
		}
		s.took("inbox", schema.kind, time.Since(began), mostTime)
		answered = true
	}
	return answered, nil
}

// call returns the text of a result, or of an error of the server.
func call(ctx context.Context, session *rig.Session, tool string) (string, error) {
	result, err := session.Call(ctx, tool, map[string]any{})
	if fault, ok := err.(*rawclient.Error); ok && fault.Code != 0 {
		return fault.Error(), nil
	}
	if err != nil {
		return "", err
	}
	var decoded rawclient.Result
	err = json.Unmarshal(result, &decoded)
	return decoded.Text(), err
}

// end says in a word how something ended.
func end(what, text string) string {
	switch {
	case strings.HasSuffix(strings.TrimSpace(text), "ran"):
		return what + ": ran"
	case strings.Contains(text, "attempts nobody gave"):
		return what + ": did not fit"
	}
	return what + ": refused in words"
}
