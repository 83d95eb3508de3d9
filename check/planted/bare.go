package planted

import (
	"encoding/json"
	"slices"
	"time"
)

// A bare state has no key and no record behind it: it says what the call is about, to anybody who reads it.
type bareState struct {
	About string    `json:"about"` // the city, or the address of a resource
	Tool  string    `json:"tool"`
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// isBare reports whether the server's states are bare. Such a server asks the last question of a target alone.
func (s *server) isBare() bool {
	return s.has("id", "id-compared", "bare-compared", "bare-expiry", "state-optional")
}

// bare answers a call of a server whose states are bare.
func (s *server) bare(r *request, t target) (map[string]any, error) {
	q := t.script[len(t.script)-1]
	about := r.URI
	if city, ok := r.arguments["city"].(string); ok {
		about = city
	}
	ask := func() (map[string]any, error) {
		if err := s.mayAsk(r, q); err != nil {
			return nil, err
		}
		return map[string]any{"resultType": "input_required", "requestState": s.bareText(r, t, about),
			"inputRequests": map[string]any{q.key: q.ask(nil)}}, nil
	}
	if r.State == nil && (!s.has("state-optional") || r.Answers == nil) {
		return ask()
	}
	if r.State != nil {
		var ok bool
		if about, ok = s.readBare(r, t, about); !ok {
			return s.refuse(r, t)
		}
	}
	text, outcome := s.readAnswer(q, r.Answers)
	switch outcome {
	case refused:
		return done(r, "Nothing was done, as the person wished."), nil
	case again:
		return ask()
	}
	if !s.mayAct(t, about) || !s.act(t, about) {
		return nil, invalid(about + " is not there, or is done already")
	}
	return done(r, "Done: "+t.name+" "+about+", "+text+"."), nil
}

func (s *server) bareText(r *request, t target, about string) string {
	switch s.Fault {
	case "id", "id-compared":
		return about
	case "state-optional":
		return s.aead(inBase64).seal([]byte(r.principal + " " + t.name + " " + about))
	case "bare-expiry":
		return "until=" + time.Now().UTC().Add(s.TTL).Format(time.RFC3339) + "&ask=" + t.name
	}
	text, err := json.Marshal(bareState{about, t.name, r.principal, time.Now().Add(s.TTL)})
	if err != nil {
		panic(err) // it has no values that JSON lacks
	}
	return encode(text)
}

// readBare returns what the call is about, and whether its state is taken.
func (s *server) readBare(r *request, t target, about string) (string, bool) {
	switch s.Fault {
	case "id":
		return *r.State, len(*r.State) < 200
	case "id-compared":
		return about, *r.State == about
	case "state-optional":
		text, ok := s.aead(inBase64).open(*r.State)
		return about, ok && string(text) == r.principal+" "+t.name+" "+about
	case "bare-expiry":
		var until string
		if n := len(*r.State) - len("&ask="+t.name); n > 6 && (*r.State)[n:] == "&ask="+t.name {
			until = (*r.State)[len("until="):n]
		}
		at, err := time.Parse(time.RFC3339, until)
		return about, err == nil && time.Now().Before(at)
	}
	var st bareState
	text, ok := decode(*r.State)
	if !ok || json.Unmarshal(text, &st) != nil {
		return "", false
	}
	return about, st.About == about && st.Tool == t.name && st.By == r.principal && time.Now().Before(st.Until)
}

// act records that a tool has acted on something. It is false if the server acts once, and has.
func (s *states) act(t target, about string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := "done " + t.method + t.name + " " + about
	if !s.ActsOnce || about == "" {
		return true
	}
	if s.ended[done] {
		return false
	}
	s.ended[done] = true
	return true
}

// mayAct reports whether a tool knows what it is to act on, and has not.
func (s *states) mayAct(t target, about string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.Known == nil || slices.Contains(s.Known, about)) && !s.ended["done "+t.method+t.name+" "+about]
}
