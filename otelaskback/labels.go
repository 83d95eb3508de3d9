package otelaskback

import (
	"slices"
	"strconv"
	"sync"

	"github.com/askback-mcp/askback"
)

// other is the conventions' value for everything that the instrumentation does not know.
const other = "_OTHER"

// labels bounds the values of the attributes of metrics, because each value is a time series: a server chooses the
// names of its tools and the codes of its errors, and the user of a client may choose its servers. Spans keep all
// values.
type labels struct {
	mu    sync.Mutex
	names map[string]map[string]bool // the names seen of each server; in a server, and for pipes, that is ""
}

// The bounds of labels. Each server has its own number of names.
const (
	mostNames   = 1000 // The names of tools and prompts of one server.
	mostServers = 200
)

// server reports whether a client's server has attributes of its own.
func (l *labels) server(server string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen(server) != nil
}

// name returns the name of a tool or prompt as a metric has it.
func (l *labels) name(server, name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.seen(server)
	if seen == nil || !seen[name] && len(seen) >= mostNames {
		return other
	}
	seen[name] = true
	return name
}

// seen returns the names seen of a server, or nil if there are too many servers.
func (l *labels) seen(server string) map[string]bool {
	if l.names[server] == nil && len(l.names) < mostServers {
		if l.names == nil {
			l.names = make(map[string]map[string]bool)
		}
		l.names[server] = make(map[string]bool)
	}
	return l.names[server]
}

// knownCodes are the error codes of JSON-RPC and of the revisions of the protocol.
var knownCodes = []int64{
	-32700, -32600, codeMethodNotFound, codeInvalidParams, -32603, // JSON-RPC
	-32002, -32020, -32021, -32022, -32042,
}

// codeLabel returns an error code as a metric has it.
func codeLabel(code int64) string {
	if slices.Contains(knownCodes, code) {
		return strconv.FormatInt(code, 10)
	}
	return other
}

// outcomes are the outcomes of questions, of calls of the store and of notices. The outcome of a question was read from
// the store.
var outcomes = []string{
	"accept", "decline", "cancel", "unanswered", "completed", "failed", "cancelled", "given_up", "refused", "shutdown",
}

// outcomeLabel returns the outcome of such an operation as a metric has it.
func outcomeLabel(op *askback.Operation) string {
	if slices.Contains(outcomes, op.Outcome) {
		return op.Outcome
	}
	return other
}

// methods are the methods that operations have.
var methods = []string{
	"tools/call", "prompts/get", "resources/read", "subscriptions/listen",
	"tasks/get", "tasks/cancel", "tasks/update", "tasks/result", "tasks/input_response", "tasks/list",
	"events/list", "events/poll",
}

// methodLabel returns the method of an operation as a metric has it.
func methodLabel(op *askback.Operation) string {
	if slices.Contains(methods, op.Method) {
		return op.Method
	}
	return other
}
