// Package harness is what the tests of package askback have in common: servers over HTTP, standard input and output,
// and memory, requests to them and what to expect of the responses, and tools that ask. Each function that takes a
// [testing.TB] fails the test where it cannot do its work, and what it starts ends with the test.
package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/seal"
)

// NewServer makes a server with the handlers that register adds. Without options it has keys
// of its own and logs nothing.
func NewServer(t testing.TB, opts *askback.Options, register ...func(*askback.Server)) *askback.Server {
	t.Helper()
	return NewServerOn(t, mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil), opts, register...)
}

// NewServerOn is [NewServer] on a given server of the SDK.
func NewServerOn(
	t testing.TB, m *mcp.Server, opts *askback.Options, register ...func(*askback.Server),
) *askback.Server {
	t.Helper()
	own := askback.Options{}
	if opts != nil {
		own = *opts
	}
	own.Keys = cmp.Or(own.Keys, NewRing(t))
	own.Logger = cmp.Or(own.Logger, slog.New(slog.DiscardHandler))
	srv := expect.Must(askback.New(m, &own))(t)
	for _, f := range register {
		f(srv)
	}
	return srv
}

// NewRing returns a ring with a new key.
func NewRing(t testing.TB) *seal.Ring {
	t.Helper()
	return expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
}

// Logs returns a logger, and its log.
func Logs() (*slog.Logger, *Log) {
	log := new(Log)
	return slog.New(slog.NewTextHandler(log, nil)), log
}

// Log is a log that can be read while a server writes to it.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (s *Log) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// Reset forgets what was logged.
func (s *Log) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Reset()
}

// String returns all that was logged.
func (s *Log) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Has waits until a text is logged.
func (s *Log) Has(t *testing.T, what string) {
	t.Helper()
	Eventually(t, "log of "+what, func() bool { return strings.Contains(s.String(), what) })
}

// Eventually waits for a condition.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no " + what)
		}
	}
}

// JSONLogs returns a logger at debug, and a function that returns the lines of the log with this message.
func JSONLogs() (*slog.Logger, *Log, func(message string) []map[string]any) {
	log := new(Log)
	lines := func(message string) (found []map[string]any) {
		for line := range strings.Lines(log.String()) {
			var l map[string]any
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				panic(err)
			}
			if strings.HasPrefix(l["msg"].(string), message) {
				delete(l, "time")
				found = append(found, l)
			}
		}
		return found
	}
	return slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), log, lines
}

// NoSecrets requires that a log holds none of these texts, and nothing with MARK in it.
func NoSecrets(t *testing.T, log *Log, secrets ...string) {
	t.Helper()
	all := log.String()
	for _, secret := range append(secrets, "MARK") {
		if i := strings.Index(all, secret); i >= 0 {
			t.Errorf("%.20s is logged: %s", secret, all[max(0, i-200):min(len(all), i+100)])
		}
	}
}

// UserHeader takes the principal from a header. Only a test may do this.
func UserHeader(_ context.Context, extra *mcp.RequestExtra) (string, error) {
	return extra.Header.Get("X-User"), nil
}
