package tap

import (
	"bytes"
	"net/http"
	"slices"
	"sync"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// echoes holds the states of a session's questions that are not answered yet. Each state returns beside the answer,
// exactly as it came (the state proposal, "Client Behavior"). A nil *echoes holds none.
type echoes struct {
	config *Config

	mu     sync.Mutex
	states map[string][]byte // raw JSON, by the question's id
}

// newEchoes returns nil where no states are returned.
func newEchoes(c *Config) *echoes {
	if !c.Echo {
		return nil
	}
	return &echoes{config: c, states: make(map[string][]byte)}
}

// collect keeps the state of a message that is a request with one.
func (e *echoes) collect(message []byte) {
	if e == nil || strictjson.Check(message, e.config.Depth+envelope) != nil {
		return
	}
	id, state := strictjson.Get(message, "id"), strictjson.Get(message, "state")
	if id == nil || state == nil || strictjson.Get(message, "method") == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for old := range e.states {
		if len(e.states) < e.config.Questions {
			break
		}
		delete(e.states, old) // Its question was withdrawn, or needs no state.
	}
	e.states[string(strictjson.AppendCanonical(nil, id))] = bytes.Clone(state)
}

// attach adds the state to a message that answers its question. It returns the message, and
// the key of that question for answered, or an empty key if nothing was added.
func (e *echoes) attach(message []byte) (_ []byte, key string) {
	if e == nil {
		return message, ""
	}
	id := strictjson.Get(message, "id")
	if id == nil || strictjson.Get(message, "method") != nil {
		return message, ""
	}
	key = string(strictjson.AppendCanonical(nil, id))
	e.mu.Lock()
	state := e.states[key]
	e.mu.Unlock()
	if state == nil {
		return message, ""
	}
	members := bytes.TrimSuffix(bytes.TrimSpace(message), []byte("}"))
	return slices.Concat(members, []byte(`,"state":`), state, []byte("}")), key
}

// answered forgets a state that the server has taken. Until then its message may be sent again.
//
// A response that holds a message comes from a server that does not hold the session and
// continued from the state. It becomes 404, as such a server says without drafts: the SDK
// would drop the message and wait for the rest of the call where nothing comes any more.
func (e *echoes) answered(key string, res *http.Response) {
	if res.StatusCode < 300 {
		e.mu.Lock()
		delete(e.states, key)
		e.mu.Unlock()
	}
	if mediaType(res) != typeJSON || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusBadRequest {
		return
	}
	res.Body.Close()
	res.StatusCode, res.Status, res.Body, res.ContentLength = http.StatusNotFound, "404 Not Found", http.NoBody, 0
}
