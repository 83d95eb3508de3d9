package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// A hostile server answers discovery correctly, and then every call with the result of the case. It
// writes the answer in pieces, so that it needs little memory itself.
type hostileCase struct {
	name   string
	result func(w io.Writer, n int) // writes the n-th result
	want   func(err error) bool
}

func result(s string) func(io.Writer, int) {
	return func(w io.Writer, _ int) { fmt.Fprint(w, s) }
}

var hostileCases = []hostileCase{
	{"endless rounds", func(w io.Writer, n int) {
		fmt.Fprintf(w, `{"resultType":"input_required","inputRequests":{"q%d":%s},"requestState":"s%d"}`, n, formQuestion, n)
	}, isLimit("rounds per call")},
	{"endless state only", func(w io.Writer, n int) {
		fmt.Fprintf(w, `{"resultType":"input_required","requestState":"s%d"}`, n)
	}, isLimit("rounds per call")},
	{"100 MB of state", func(w io.Writer, n int) {
		fmt.Fprint(w, `{"resultType":"input_required","requestState":"`)
		for range 100 << 10 {
			fmt.Fprint(w, kilobyte)
		}
		fmt.Fprint(w, `"}`)
	}, isLimit(`bytes of the result of the tool "t"`)},
	{"10,000 requests in a round", func(w io.Writer, n int) {
		fmt.Fprint(w, `{"resultType":"input_required","inputRequests":{"q":`+formQuestion)
		for i := range 9_999 {
			fmt.Fprintf(w, `,"q%d":%s`, i, formQuestion)
		}
		fmt.Fprint(w, `}}`)
	}, isLimit("questions per round")},
	{"deep nesting", result(`{"resultType":"input_required","inputRequests":` + strings.Repeat(`{"a":`, 1000) + `1` +
		strings.Repeat(`}`, 1000) + `}`), isProtocol},
	{"unknown kind", result(`{"resultType":"input_required","inputRequests":{"q":{"method":"shell/run","params":{}}}}`),
		isUndeclared("shell/run")},
	{"unknown mode", result(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create",` +
		`"params":{"mode":"voice","message":"?"}}}}`), isUndeclared("elicitation.voice")},
	{"undeclared sampling",
		result(`{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage",` +
			`"params":{"messages":[],"maxTokens":1}}}}`), isUndeclared("sampling")},
	{"undeclared URL", result(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create",` +
		`"params":{"mode":"url","message":"?","url":"https://x"}}}}`), isUndeclared("elicitation.url")},
	{"undeclared roots beside a form",
		result(`{"resultType":"input_required","inputRequests":{"a":` + formQuestion + `,"q":{"method":"roots/list"}}}`),
		isUndeclared("roots")},
	{"duplicate keys", result(`{"resultType":"input_required","inputRequests":{"q":` + formQuestion + `,"q":` +
		formQuestion + `}}`), isProtocol},
	{"duplicate members", result(`{"resultType":"complete","resultType":"input_required","content":[]}`), isProtocol},
	{"neither questions nor state", result(`{"resultType":"input_required"}`), isProtocol},
	{"questions that are no object", result(`{"resultType":"input_required","inputRequests":[1]}`), isProtocol},
	{"a question that is no object", result(`{"resultType":"input_required","inputRequests":{"q":1}}`), isProtocol},
	{"a question without parameters",
		result(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create"}}}`), isProtocol},
	{"a state that is no string", result(`{"resultType":"input_required","requestState":{}}`), isProtocol},
	{"an unknown type of result", result(`{"resultType":"surprise"}`), isProtocol},
	{"a type that is no string", result(`{"resultType":7}`), isProtocol},
	{"a result that is no object", result(`[]`), isProtocol},
	{"a task's id of 20 MB", func(w io.Writer, n int) {
		fmt.Fprint(w, `{"resultType":"task","status":"working","taskId":"`)
		for range 20 << 10 {
			fmt.Fprint(w, kilobyte)
		}
		fmt.Fprint(w, `"}`)
	}, isLimit(`bytes of the result of the tool "t"`)},
	{"a task that asks without end", func(w io.Writer, n int) {
		fmt.Fprintf(w, `{"resultType":"task","taskId":"t","status":"input_required","pollIntervalMs":0,`+
			`"inputRequests":{"q%d":%s}}`, n, formQuestion)
	}, isLimit("rounds per call")},
	{"a task with 10,000 questions", func(w io.Writer, n int) {
		fmt.Fprint(w, `{"resultType":"task","taskId":"t","status":"input_required","inputRequests":{"q":`+formQuestion)
		for i := range 9_999 {
			fmt.Fprintf(w, `,"q%d":%s`, i, formQuestion)
		}
		fmt.Fprint(w, `}}`)
	}, isLimit("questions per round")},
}

var kilobyte = strings.Repeat("x", 1<<10)

// serveHostile answers one request on w.
func serveHostile(w io.Writer, c hostileCase, n int, request []byte) {
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(request, &req) != nil || req.ID == nil {
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":`, req.ID)
	if req.Method == "server/discover" {
		fmt.Fprint(w, discovered)
	} else {
		c.result(w, n)
	}
	fmt.Fprint(w, "}")
}

func hostileHandler(c hostileCase, events bool) http.Handler {
	var requests atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		n := int(requests.Add(1))
		if events {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": hello\nevent: message\ndata: ")
			defer fmt.Fprint(w, "\n\n")
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		serveHostile(w, c, n, body)
	})
}

// endTime is how long a program gets to end by itself. One that floods the client does not.
const endTime = 100 * time.Millisecond

// hostileClient declares forms only, and answers them.
func hostileClient(transport mcp.Transport) error {
	c := client.New(&client.Options{
		Form:   filling(map[string]any{}),
		Limits: client.Limits{FirstPause: time.Microsecond, MaxPause: time.Microsecond},
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	session, err := c.Connect(ctx, transport, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "t"})
	return err
}

func TestHostileServers(t *testing.T) {
	t.Parallel()
	for _, c := range hostileCases {
		for _, over := range []string{"json", "events", "stdio"} {
			t.Run(c.name+"/"+over, func(t *testing.T) {
				t.Parallel()
				var transport mcp.Transport
				if over == "stdio" {
					transport = &mcp.CommandTransport{Command: child(t, "stdio", c.name), TerminateDuration: endTime}
				} else {
					s := httptest.NewServer(hostileHandler(c, over == "events"))
					defer s.Close()
					transport = &mcp.StreamableClientTransport{Endpoint: s.URL}
				}
				err := hostileClient(transport)
				if !c.want(err) {
					t.Errorf("got %T: %.300v", err, err)
				}
				if pending, ok := errors.AsType[*client.PendingError](err); strings.HasPrefix(c.name, "endless") &&
					(!ok || pending.Pending.State == "") {
					t.Error("the limit does not carry the pending round")
				}
			})
		}
	}
}

var raceDetector bool // true if the tests are built with it

// A client that a server floods stays small. It runs in a process of its own, whose largest resident
// size is measured without the program's own file.
func TestHostileServersCostLittleMemory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the size of a process is read from Linux's /proc")
	}
	if raceDetector {
		t.Skip("the race detector's own memory would be measured: run without -race")
	}
	const most = 96 << 10 // kB: a message may have 16 MiB
	for _, c := range hostileCases {
		for _, over := range []string{"json", "events", "stdio"} {
			t.Run(c.name+"/"+over, func(t *testing.T) {
				t.Parallel()
				cmd := child(t, "client-"+over, c.name)
				if over != "stdio" {
					s := httptest.NewServer(hostileHandler(c, over == "events"))
					defer s.Close()
					cmd.Env = append(cmd.Env, "HOSTILE_URL="+s.URL)
				}
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %.500s", err, out)
				}
				var kB int
				if _, err := fmt.Sscanf(string(out), "%d kB", &kB); err != nil {
					t.Fatalf("%v in %.500s", err, out)
				}
				if kB > most {
					t.Errorf("the client grew to %d kB, want at most %d", kB, most)
				}
			})
		}
	}
}

func child(t *testing.T, role, name string) *exec.Cmd {
	t.Helper()
	self := expect.Must(os.Executable())(t)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "HOSTILE_ROLE="+role, "HOSTILE_CASE="+name)
	return cmd
}

// TestMain lets the test binary play the roles of child processes.
func TestMain(m *testing.M) {
	role := os.Getenv("HOSTILE_ROLE")
	if role == "" {
		// Most of the tests wait more than they compute. A -parallel on the command line counts nevertheless.
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
	var c hostileCase
	for _, c = range hostileCases {
		if c.name == os.Getenv("HOSTILE_CASE") {
			break
		}
	}
	switch role {
	case "canned":
		serveCanned()
	case "stdio":
		in := bufio.NewScanner(os.Stdin)
		out := bufio.NewWriter(os.Stdout)
		for n := 1; in.Scan(); n++ {
			serveHostile(out, c, n, in.Bytes())
			fmt.Fprintln(out)
			out.Flush()
		}
	case "client-stdio", "client-json", "client-events":
		var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: os.Getenv("HOSTILE_URL")}
		if role == "client-stdio" {
			self, err := os.Executable()
			if err != nil {
				panic(err)
			}
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), "HOSTILE_ROLE=stdio")
			transport = &mcp.CommandTransport{Command: cmd, TerminateDuration: endTime}
		}
		if err := hostileClient(transport); err == nil {
			fmt.Println("no error")
			os.Exit(1)
		}
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			panic(err)
		}
		fmt.Println(kilobytes(string(status), "VmHWM:")-kilobytes(string(status), "RssFile:"), "kB")
	}
}

func kilobytes(status, name string) (kB int) {
	_, size, _ := strings.Cut(status, name)
	_, _ = fmt.Sscan(size, &kB)
	return kB
}

func TestTimeIsBounded(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	s := harness.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), "server/discover") {
			serveHostile(w, hostileCase{}, 0, body)
			return
		}
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer close(stop)
	session, err := client.New(&client.Options{Limits: client.Limits{CallTTL: 50 * time.Millisecond}}).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.URL}, nil)
	expect.Check(t, err)
	defer session.Close()
	if _, err = called(t, session, "t"); !isLimit("seconds per call")(err) {
		t.Errorf("got %v", err)
	}
}

// A limit of both sides has the same type on both, and its error has the same text.
func TestLimitsAreThoseOfTheServer(t *testing.T) {
	server, common := reflect.TypeFor[askback.Limits](), 0
	for _, field := range reflect.VisibleFields(reflect.TypeFor[client.Limits]()) {
		if same, ok := server.FieldByName(field.Name); ok {
			common++
			expect.Equal(t, field.Name+" is of type, the server's of type", same.Type, field.Type)
		}
	}
	if common < 5 {
		t.Errorf("%d limits have the same name, want rounds, questions, message bytes, depth and the time of a call", common)
	}
	ours := client.LimitError{Limit: "rounds per call", Max: 32}
	theirs := askback.LimitError(ours)
	expect.Equal(t, "the error here, and there", ours.Error(), theirs.Error())
}
