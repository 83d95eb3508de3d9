package planted

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// A state holds a call between its rounds.
type state struct {
	Call      string            `json:"call"`
	Principal string            `json:"principal,omitempty"`
	Request   string            `json:"request,omitempty"` // a digest
	Expires   int64             `json:"expires,omitempty"` // in milliseconds since 1970
	Step      int               `json:"step"`              // the number of the question that is open
	Answers   map[string]string `json:"answers,omitempty"`
	Token     string            `json:"token,omitempty"`

	Received map[string]json.RawMessage `json:"received,omitempty"` // all answers as they came, by a fault
}

var errState = errors.New("the state does not verify")

func (s *states) newState(r *request) *state {
	st := &state{Call: newID(), Request: s.digest(r), Answers: map[string]string{}}
	if s.isPlain() {
		st.Call = "call"
	}
	if !s.has("principal-unbound") {
		st.Principal = s.principal(r)
	}
	if !s.has("never-expires") {
		st.Expires = time.Now().Add(s.TTL).UnixMilli()
	}
	if s.has("token-in-state", "token-in-gzip") {
		st.Token = r.token
	}
	if s.has("plain-arguments") {
		for name, value := range r.arguments {
			st.Answers[name], _ = value.(string)
		}
	}
	return st
}

// principal is whom the state is bound to.
func (s *states) principal(r *request) string {
	if s.has("principal-claimed") {
		claimed, _ := r.meta["example.com/user"].(string)
		return claimed
	}
	return r.principal
}

// isPlain reports whether nothing in a state may look like a signature, because there is none.
func (s *states) isPlain() bool { return strings.HasPrefix(s.Fault, "plain-") || s.has("checksum") }

// digest identifies the request that a state belongs to.
func (s *states) digest(r *request) string {
	parts := []any{r.Method, r.target, r.arguments}
	if s.has("method-unbound") {
		parts[0] = nil
	}
	if s.has("target-unbound") {
		parts[1] = nil
	}
	if s.has("arguments-unbound", "plain-arguments") {
		parts[2] = nil
	}
	if s.has("arguments-names") {
		names := map[string]bool{}
		for name := range r.arguments {
			names[name] = true
		}
		parts[2] = names
	}
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // the arguments were decoded from JSON
	}
	if s.isPlain() {
		return string(text)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (s *states) sealed(st *state) string {
	text, err := json.Marshal(st)
	if err != nil {
		panic(err)
	}
	return s.codec.seal(text)
}

// opened returns the state that a request presents, if it belongs to the request.
func (s *states) opened(r *request, token string) (*state, error) {
	st := new(state)
	text, ok := s.codec.open(token)
	if !ok || json.Unmarshal(text, st) != nil {
		if s.has("any-state") || s.has("any-length") && len(token) >= 16 {
			return s.newState(r), nil
		}
		return nil, errState
	}
	if st.Answers == nil {
		st.Answers = map[string]string{}
	}
	if want := s.principal(r); st.Principal != want && !s.has("principal-unbound", "principal-ignored") {
		return nil, errState
	}
	if st.Request != s.digest(r) {
		return nil, errState
	}
	if st.Expires < time.Now().UnixMilli() && !s.has("never-expires", "expiry-ignored") {
		return nil, errState
	}
	return st, nil
}

// end records that a call which must happen once has ended. It returns false if it had.
func (s *states) end(st *state, token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := st.Call
	switch {
	case s.has("twice"):
		return true
	case s.has("once-by-state"):
		id = token
	}
	if s.ended[id] {
		return false
	}
	s.ended[id] = true
	return true
}

func (s *states) hasEnded(st *state) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[st.Call]
}

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // crypto/rand.Read never fails
	return hex.EncodeToString(b)
}
