//go:build unix

package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// The benchmarks compare a call that asks once with a bare http.Client that sends the same two requests. The canned
// server runs inside the process, where its cost is part of both, or outside. Count with -benchmem, and compare the
// processor time of runs that alternate:
//
//	go test -run '^$' -bench Client -benchmem -count 6 ./client

// eachServer runs a benchmark against the canned server inside the process, and against one outside.
func eachServer(b *testing.B, run func(b *testing.B, url string)) {
	b.Run("inside", func(b *testing.B) {
		s := httptest.NewServer(http.HandlerFunc(canned))
		defer s.Close()
		run(b, s.URL)
	})
	b.Run("outside", func(b *testing.B) {
		self := expect.Must(os.Executable())(b)
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "HOSTILE_ROLE=canned")
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err1 != nil || err2 != nil || cmd.Start() != nil {
			b.Fatal("the canned server does not start")
		}
		defer func() { in.Close(); _ = cmd.Wait() }()
		var url string
		expect.Must(fmt.Fscanln(out, &url))(b)
		run(b, url)
	})
}

// measure runs two rounds again and again, and reports the processor time of this process.
func measure(b *testing.B, rounds func() error) {
	if err := rounds(); err != nil { // connects
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := processorTime()
	for b.Loop() {
		expect.Check(b, rounds())
	}
	b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkClient(b *testing.B) {
	eachServer(b, func(b *testing.B, url string) { measure(b, rounds(b, url)) })
}

func BenchmarkBareClient(b *testing.B) {
	eachServer(b, func(b *testing.B, url string) { measure(b, bareRounds(b, url)) })
}

// A call that asks once allocates at most twice as often as a bare http.Client that sends the same requests.
func TestAllocationsOfACall(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates, too")
	}
	s := httptest.NewServer(http.HandlerFunc(canned))
	defer s.Close()
	count := func(rounds func() error) float64 {
		return testing.AllocsPerRun(200, func() {
			expect.Check(t, rounds())
		})
	}
	ours, bare := count(rounds(t, s.URL)), count(bareRounds(t, s.URL))
	if ours > 2*bare {
		t.Errorf("%v allocations, and %v of a bare client", ours, bare)
	}
}

// rounds returns a call that asks once.
func rounds(tb testing.TB, url string) func() error {
	answer := &mcp.ElicitResult{Action: "accept", Content: map[string]any{"resolution": "duplicate"}}
	opts := &client.Options{Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return answer, nil
	}}
	session := expect.Must(client.New(opts).Connect(tb.Context(),
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: ownConnections(tb)}, nil))(tb)
	tb.Cleanup(func() { session.Close() })
	params := &mcp.CallToolParams{Name: "close_bug", Arguments: map[string]any{"id": 4711}}
	return func() error {
		_, err := session.CallTool(tb.Context(), params)
		return err
	}
}

// bareRounds returns the requests of such a call.
func bareRounds(tb testing.TB, url string) func() error {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` +
		`{"name":"askback-client","version":"1.0.0"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	const first = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"close_bug","arguments":{"id":4711},` +
		meta
	const second = first + `,"inputResponses":{"resolution":{"action":"accept","content":{"resolution":"duplicate"}}},` +
		`"requestState":"` + cannedState + `"`
	bare := ownConnections(tb)
	post := func(body, want string) error {
		req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", "close_bug")
		res, err := bare.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err == nil && !bytes.Contains(data, []byte(want)) {
			err = fmt.Errorf("got %s", data)
		}
		return err
	}
	return func() error {
		if err := post(first+"}}", "input_required"); err != nil {
			return err
		}
		return post(second+"}}", "complete")
	}
}

// ownConnections returns a client that shares no connections with another one.
func ownConnections(tb testing.TB) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	tb.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}
