package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// eraServer answers in the process, and counts the requests of each method.
type eraServer struct {
	discover func(n int) (status int, header, body string) // the body of a JSON-RPC message after its id
	refuses  bool                                          // sessions

	mu   sync.Mutex
	sent map[string]int
}

func (s *eraServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
	}
	s.mu.Lock()
	s.sent[m.Method]++
	n := s.sent[m.Method]
	s.mu.Unlock()
	status, header, body := http.StatusOK, "", ""
	switch {
	case m.Method == "server/discover":
		status, header, body = s.discover(n)
	case m.Method == "initialize" && s.refuses:
		status = http.StatusBadRequest
	case m.Method == "initialize":
		body = `"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"old","version":"1"}}`
	case m.ID != nil:
		body = `"error":{"code":-32601,"message":"unknown"}`
	case r.Method == http.MethodGet:
		status = http.StatusMethodNotAllowed
	default:
		status = http.StatusAccepted
	}
	res := &http.Response{StatusCode: status, Request: r, Header: http.Header{"Content-Type": {"application/json"}}}
	if name, value, ok := strings.Cut(header, ": "); ok {
		res.Header.Set(name, value)
	}
	if body != "" {
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, body)
	}
	switch res.Body = io.NopCloser(strings.NewReader(body)); status {
	case lostResponse:
		return nil, io.ErrUnexpectedEOF
	case brokenResponse:
		res.StatusCode, res.Body = http.StatusOK, io.NopCloser(io.MultiReader(strings.NewReader(body[:8]),
			iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	return res, nil
}

// What comes in place of a response.
const (
	lostResponse = iota + 1
	brokenResponse
)

func TestTheEraOfAServer(t *testing.T) {
	found := `"result":` + discovered
	always := func(status int, header, body string) func(int) (int, string, string) {
		return func(int) (int, string, string) { return status, header, body }
	}
	failed := func(code int, data string) string {
		return fmt.Sprintf(`"error":{"code":%d,"message":"no","data":%s}`, code, data)
	}
	busy := func(status int, header string) func(int) (int, string, string) {
		return func(n int) (int, string, string) {
			if n <= 3 {
				return status, header, ""
			}
			return 200, "", found
		}
	}
	once := func(status int) func(int) (int, string, string) {
		return func(n int) (int, string, string) {
			if n == 1 {
				return status, "", found
			}
			return 200, "", found
		}
	}
	for name, test := range map[string]struct {
		discover      func(int) (int, string, string)
		probes, begun int
		least, most   time.Duration
		older         bool
		want, want2   string
	}{
		"modern":   {discover: always(200, "", found), probes: 1},
		"busy":     {discover: busy(503, ""), probes: 4, least: time.Second, most: 3 * time.Second},
		"broken":   {discover: busy(500, ""), probes: 4, least: time.Second, most: 3 * time.Second},
		"too many": {discover: busy(429, "Retry-After: 3"), probes: 4, least: 9 * time.Second, most: 10 * time.Second},
		"much too long": {
			discover: busy(503, "Retry-After: 86400"), probes: 3, begun: 1, older: true, most: 21 * time.Second},
		"never there": {discover: always(502, "", ""), probes: 5, begun: 1, older: true, most: 5 * time.Second},
		"lost once":   {discover: once(lostResponse), probes: 2, most: time.Second},
		"lost":        {discover: always(lostResponse, "", ""), probes: 3, want: "EOF", most: 5 * time.Second},
		"cut off":     {discover: always(brokenResponse, "", found), probes: 1, want: "EOF"},
		"older":       {discover: always(200, "", failed(-32601, `{}`)), probes: 1, begun: 1, older: true},
		"older, 400":  {discover: always(400, "", ""), probes: 1, begun: 1, older: true},
		"another version": {discover: always(400, "", failed(-32022, `{"supported":["2031-01-01","2030-01-01"]}`)),
			probes: 1, want: "2031-01-01, 2030-01-01"},
		"one other version": {discover: always(400, "", failed(-32022, `{"supported":["2031-01-01"]}`)), probes: 1,
			want: "2031-01-01"},
		"no version": {discover: always(400, "", failed(-32022, `{"supported":7}`)), probes: 1, want: "no"},
		"a version with sessions": {discover: always(400, "", failed(-32022, `{"supported":["2025-06-18"]}`)),
			probes: 1, begun: 1, older: true},
		"capabilities": {discover: always(400, "", failed(-32021, `{}`)), probes: 1, want: "no"},
		"headers":      {discover: always(400, "", failed(-32020, `{}`)), probes: 1, want: "no"},
		"credentials": {discover: always(401, `WWW-Authenticate: Bearer scope="all"`, ""), probes: 1, want: "401",
			want2: `scope "all"`},
		"forbidden": {discover: always(403, "", ""), probes: 1, want: "403"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &eraServer{discover: test.discover, sent: make(map[string]int)}
				began := time.Now()
				session, err := client.New(nil).Connect(t.Context(), &mcp.StreamableClientTransport{
					Endpoint: "http://server.example/mcp", HTTPClient: &http.Client{Transport: s},
				}, nil)
				took := time.Since(began)
				if err == nil {
					defer session.Close()
				}
				switch {
				case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) ||
					!strings.Contains(err.Error(), test.want2)):
					t.Errorf("connecting: %v, want an error with %q and %q", err, test.want, test.want2)
				case test.want == "" && err != nil:
					t.Error(err)
				case test.want == "" && test.older != (session.SDK().InitializeResult().ProtocolVersion < "2026"):
					t.Errorf("the session speaks %s", session.SDK().InitializeResult().ProtocolVersion)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if got := s.sent; got["server/discover"] != test.probes || got["initialize"] != test.begun {
					t.Errorf("the server got %v, want %d probes and initialize %d times", maps.Clone(got), test.probes, test.begun)
				}
				if took < test.least || took > test.most {
					t.Errorf("connecting took %v, want between %v and %v", took, test.least, test.most)
				}
			})
		})
	}
}

func TestASilentProgramIsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		program := scripted(t, func(_ context.Context, req *jsonrpc.Request, write func(jsonrpc.Message)) {
			mu.Lock()
			got = append(got, req.Method)
			mu.Unlock()
			if req.Method == "initialize" {
				write(&jsonrpc.Response{ID: req.ID, Result: json.RawMessage(
					`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"old","version":"1"}}`)})
			}
		})
		session := expect.Must(client.New(nil).Connect(t.Context(), program, nil))(t)
		defer session.Close()
		synctest.Wait()
		expect.Equal(t, "the program", strings.Join(got, " "), "server/discover initialize notifications/initialized")
	})
}

// A client remembers that an endpoint is older, and probes it again when it begins no session any more.
func TestTheEraOfAnEndpointIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		modern := false
		s := &eraServer{sent: make(map[string]int), discover: func(int) (int, string, string) {
			if modern {
				return 200, "", `"result":` + discovered
			}
			return 404, "", ""
		}}
		c := client.New(nil)
		connect := func(want string) {
			t.Helper()
			session := expect.Must(c.Connect(t.Context(), &mcp.StreamableClientTransport{
				Endpoint: "http://server.example/mcp", HTTPClient: &http.Client{Transport: s},
			}, nil))(t)
			defer session.Close()
			expect.Equal(t, "the session speaks", session.SDK().InitializeResult().ProtocolVersion, want)
		}
		connect("2025-11-25")
		connect("2025-11-25")
		expect.Equal(t, "an older server was probed times", s.sent["server/discover"], 1)
		modern, s.refuses = true, true
		connect("2026-07-28")
		connect("2026-07-28")
		expect.Equal(t, "initialize was sent times", s.sent["initialize"], 3)
	})
}
