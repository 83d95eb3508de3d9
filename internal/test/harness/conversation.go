package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
)

// Conversation is an exchange of messages over a connection, a line or an event each.
type Conversation struct {
	t     *testing.T
	Write func(message string)
	Read  chan map[string]any
	Kept  []map[string]any
	End   func() error // of [Connect]: ends the input, and waits for the server
}

// Scan reads the messages after prefix on each line, or a batch of them, until r ends.
func (c *Conversation) Scan(r io.Reader, prefix string) {
	defer close(c.Read)
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		data, _ := strings.CutPrefix(scanner.Text(), prefix)
		if strings.HasPrefix(data, "{") {
			data = "[" + data + "]"
		}
		var messages []map[string]any
		_ = json.Unmarshal([]byte(data), &messages) // the other lines of an event are no messages
		for _, message := range messages {
			c.Read <- message
		}
	}
}

// Until returns the next message that accept takes, and keeps those before it for later.
func (c *Conversation) Until(what string, accept func(m map[string]any) bool) map[string]any {
	c.t.Helper()
	for i, m := range c.Kept {
		if accept(m) {
			c.Kept = append(c.Kept[:i], c.Kept[i+1:]...)
			return m
		}
	}
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case m, ok := <-c.Read:
			if !ok {
				c.t.Fatalf("the connection ended before %s; before it came %v", what, c.Kept)
			}
			if accept(m) {
				return m
			}
			c.Kept = append(c.Kept, m)
		case <-timeout:
			c.t.Fatalf("no %s; there is %v", what, c.Kept)
		}
	}
}

// Call sends a request and returns its response.
func (c *Conversation) Call(id int, method, members, capabilities string) map[string]any {
	c.t.Helper()
	c.Request(id, method, members, capabilities)
	return c.Response(id)
}

// Request sends a [Message].
func (c *Conversation) Request(id int, method, members, capabilities string) {
	c.t.Helper()
	c.Write(Message(id, method, members, capabilities))
}

// Answer sends the result of a request of the server.
func (c *Conversation) Answer(question map[string]any, result string) {
	id, _ := json.Marshal(question["id"]) // decoded JSON
	c.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

// Response returns the response to a request.
func (c *Conversation) Response(id int) map[string]any {
	c.t.Helper()
	return c.Until(fmt.Sprintf("response %d", id), func(m map[string]any) bool {
		return m["id"] == float64(id) && m["method"] == nil
	})
}

// NewConversation returns a conversation whose caller sets Write, and sends to Read what arrives.
func NewConversation(t *testing.T) *Conversation {
	return &Conversation{t: t, Read: make(chan map[string]any, 1000)}
}

// Pipe serves a server over standard input and output.
func Pipe(t *testing.T, srv *askback.Server) *Conversation {
	t.Helper()
	return Connect(t, func(ctx context.Context, line *mcp.IOTransport) error { return srv.Run(ctx, line) })
}

// Connect serves lines in both directions, until they or the test end.
func Connect(t *testing.T, serve func(ctx context.Context, line *mcp.IOTransport) error) *Conversation {
	t.Helper()
	in, client := io.Pipe()
	answers, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	ended := make(chan error, 1)
	all.Go(func() { ended <- serve(ctx, &mcp.IOTransport{Reader: in, Writer: out}); out.Close() })
	c := NewConversation(t)
	c.End = func() error { client.Close(); return <-ended }
	c.Write = func(message string) { _, _ = io.WriteString(client, strings.ReplaceAll(message, "\n", " ")+"\n") }
	all.Go(func() { c.Scan(answers, "") })
	t.Cleanup(func() { client.Close(); cancel(); all.Wait() })
	return c
}

// TaskPipe is [Pipe] for a new server that runs tasks on a store in memory.
func TaskPipe(t *testing.T, register ...func(*askback.Server)) *Conversation {
	t.Helper()
	srv := NewServer(t, &askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)}}, register...)
	RunTasks(t, srv)
	return Pipe(t, srv)
}

// Notification is what [Conversation.Until] waits for: a notification, of a task in this status
// unless status is empty.
func Notification(method, status string) (string, func(m map[string]any) bool) {
	return method + " " + status, func(m map[string]any) bool {
		return m["method"] == method && (status == "" || At(m, "params", "status") == status)
	}
}
