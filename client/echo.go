package client

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// echoes are the states of the server's requests in a session that are not answered yet:
// each goes back beside the result, exactly as it came (the state proposal, "Client
// Behavior"). A nil *echoes keeps none.
type echoes struct {
	limits Limits

	mu     sync.Mutex
	states map[string][]byte // raw, by the request's id
}

// hear keeps the state of a message that is a request with one.
func (e *echoes) hear(message []byte) {
	if e == nil || strictjson.Check(message, e.limits.Depth+2) != nil {
		return
	}
	id, state := strictjson.Get(message, "id"), strictjson.Get(message, "state")
	if id == nil || state == nil || strictjson.Get(message, "method") == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for old := range e.states {
		if len(e.states) < e.limits.Questions {
			break
		}
		delete(e.states, old) // of a question that was withdrawn, or one that goes on without
	}
	if e.states == nil {
		e.states = make(map[string][]byte)
	}
	e.states[string(strictjson.AppendCanonical(nil, id))] = bytes.Clone(state)
}

// tell adds the state to a message that is the response to its request. The server's
// response to it goes to answered, which is nil for any other message.
func (e *echoes) tell(req *http.Request) (told *http.Request, answered func(*http.Response), err error) {
	if e == nil || req.Method != http.MethodPost || req.Body == nil {
		return req, nil, nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, nil, err
	}
	req.Body.Close()
	message := bytes.TrimSpace(body)
	if id := strictjson.Get(message, "id"); id != nil && strictjson.Get(message, "method") == nil {
		key := string(strictjson.AppendCanonical(nil, id))
		e.mu.Lock()
		state := e.states[key]
		e.mu.Unlock()
		if state != nil {
			body = append(message[:len(message)-1:len(message)-1], `,"state":`...)
			body = append(append(body, state...), '}')
			answered = func(res *http.Response) { e.answered(key, res) }
		}
	}
	req = req.Clone(req.Context())
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return req, answered, nil
}

// answered forgets the state that the server has taken; until then its message may be sent
// again. A response that is a message comes from a server that does not hold the session, and
// went on from the state: it becomes what such a server says without drafts, because the SDK
// would drop it and wait for the rest of the call where nothing comes any more.
func (e *echoes) answered(key string, res *http.Response) {
	if res.StatusCode < 300 {
		e.mu.Lock()
		delete(e.states, key)
		e.mu.Unlock()
	}
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if mediaType != "application/json" || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusBadRequest {
		return
	}
	res.Body.Close()
	res.StatusCode, res.Status, res.Body, res.ContentLength = http.StatusNotFound, "404 Not Found", http.NoBody, 0
}
