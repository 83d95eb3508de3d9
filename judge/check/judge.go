package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/judge/process"
)

// A judge runs the command.
type judge struct {
	program string
	lossy   bool
}

// An outcome is what came of one run.
type outcome struct {
	findings.Report
	took   time.Duration
	memory int64 // bytes, at its peak
	err    error // there is no report
}

// grave describes a verdict that is a fail or a warn.
func grave(v findings.Verdict) (text string, is bool) {
	return fmt.Sprintf("%s %s: %s (%s) %s", v.Level, v.Probe, v.Target, v.Proof, v.Reason), v.Level.AtLeast(findings.Warn)
}

// check checks a server once.
func (j *judge) check(ctx context.Context, s subject) outcome {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	first, replica, elsewhere, err := s.Start(ctx, &group)
	if err != nil {
		return outcome{err: err}
	}
	var urls []string
	for _, h := range []http.Handler{first, replica, elsewhere} {
		if j.lossy {
			h = lose(h)
		}
		web := httptest.NewServer(h)
		defer web.Close()
		defer web.CloseClientConnections() // subscriptions would keep it open
		urls = append(urls, web.URL+"/")
	}
	calls := map[string]any{}
	for _, name := range s.Once {
		calls[name] = map[string]any{"once": true}
	}
	plan := map[string]any{"replica": urls[1], "elsewhere": urls[2], "calls": calls}
	if s.TTL > 0 {
		plan["stateTTL"] = s.TTL.String()
	}
	file, err := json.Marshal(plan)
	if err != nil {
		return outcome{err: err}
	}
	flags := []string{"--file", "-", "--allow", "*", "--requests", "20000", "--timeout", "2m"}
	if s.fault != nil && strings.HasPrefix(s.fault.Probe, "load-") {
		flags = append(flags, "--load", "--timeout", "4m")
	}
	return j.run(ctx, urls[0], file, flags...)
}

// run runs the command. The plan is the file of the flag --file -.
func (j *judge) run(ctx context.Context, url string, plan []byte, flags ...string) (o outcome) {
	args := append([]string{"check", "--json", "--header", "Authorization: Bearer " + planted.Alice,
		"--other-header", "Authorization: Bearer " + planted.Bob}, flags...)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var out, wrong bytes.Buffer
	cmd := exec.CommandContext(ctx, j.program, append(args, url)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(plan), &out, &wrong
	began := time.Now()
	memory, err := runMeasured(cmd)
	took := time.Since(began)
	if left := new(exec.ExitError); err != nil && !errors.As(err, &left) {
		return outcome{err: err}
	}
	if err := json.Unmarshal(out.Bytes(), &o.Report); err != nil {
		return outcome{err: fmt.Errorf("there is no report (%v): %w: %.500s", cmd.ProcessState, err, wrong.Bytes())}
	}
	o.took, o.memory = took, memory
	return o
}

// runMeasured runs a command and returns its peak of memory, which is read many times until the command ends.
func runMeasured(cmd *exec.Cmd) (peak int64, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for tick := time.Tick(10 * time.Millisecond); ; {
		select {
		case err := <-ended:
			return peak, err
		case <-tick:
			if _, now, err := process.Memory(cmd.Process.Pid); err == nil {
				peak = now
			}
		}
	}
}

// lose serves a handler over a connection that loses one response in ten: the request is served, and the connection
// ends without a response.
func lose(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rand.IntN(10) > 0 {
			h.ServeHTTP(w, r)
			return
		}
		if r.Header.Get("Mcp-Method") != "subscriptions/listen" { // a subscription would last until the end
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler)
	})
}
