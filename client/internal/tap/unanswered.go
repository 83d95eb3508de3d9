package tap

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// maxUnanswered bounds the requests that a server may send while its earlier ones wait for their answers, beside
// [Config.Unanswered]. The SDK starts a goroutine for each request, and over HTTP each answer is a request of the
// client.
const maxUnanswered = 1024

// unanswered holds the sizes of a server's requests that are not answered yet, by their IDs.
type unanswered struct {
	config *Config

	mu    sync.Mutex
	sizes map[any]int
	bytes int
}

func newUnanswered(c *Config) *unanswered { return &unanswered{config: c, sizes: make(map[any]int)} }

// add adds a request, unless there are too many.
func (u *unanswered) add(id any, size int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.sizes[id]; ok {
		return nil // the SDK refuses a second request with the ID of an open one
	}
	most := max(u.config.Unanswered, u.config.MessageBytes)
	switch {
	case len(u.sizes) == maxUnanswered:
		return u.config.Limit("requests of the server at once", maxUnanswered)
	case int64(u.bytes+size) > most:
		return u.config.Limit("bytes of the server's requests at once", most)
	}
	u.sizes[id] = size
	u.bytes += size
	return nil
}

// remove removes a request that was answered.
func (u *unanswered) remove(id any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes -= u.sizes[id]
	delete(u.sizes, id)
}

// addMessage adds a message, if it is a request.
func (u *unanswered) addMessage(message []byte, depth int) error {
	if strictjson.Check(message, depth) != nil { // the SDK may read a request in it, and nobody knows its ID
		return u.add(new(byte), len(message))
	}
	if id := strictjson.Get(message, "id"); id != nil && strictjson.Get(message, "method") != nil {
		return u.add(idKey(id), len(message))
	}
	return nil
}

// idKey returns the key of a request's ID, independent of how the SDK writes a number.
func idKey(id []byte) string { return string(strictjson.AppendCanonical(nil, id)) }

// answerID returns the ID in a message of the client that answers a request, or nil.
func answerID(message []byte) []byte {
	if strictjson.Get(message, "method") != nil {
		return nil
	}
	return bytes.Clone(strictjson.Get(message, "id"))
}

// NoResponse is the error of a handler whose question gets no response at all.
var NoResponse = &jsonrpc.Error{Code: 1 << 40, Message: "no response"}

// isNoResponse reports whether an answer of the client is [NoResponse].
func isNoResponse(answer []byte) bool {
	return string(strictjson.Get(strictjson.Get(answer, "error"), "code")) == strconv.Itoa(1<<40)
}

// answering returns the context for sending an answer. The SDK gives it one without an end, and waits for it when the
// session is closed: a server that never takes an answer would hold the session open.
func (c *Config) answering(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, ResponseTime)
	stop := context.AfterFunc(c.Life, cancel)
	return ctx, func() { stop(); cancel() }
}

// closeBody is a body that releases the resources of its response at its end.
type closeBody struct {
	io.ReadCloser
	release func()
}

func (b *closeBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
