package inbox

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// The bounds of one person. No viewer can keep the others from being served.
const (
	mostAtOnce  = 16 // requests that run
	mostChanges = 10 // answers, claims and so on a second

	mostBody   = 1<<20 + 1<<16 // bytes: the largest answer of a desk, and the form around it
	mostSignIn = 1 << 16       // bytes from somebody who has not signed in
	bodyTime   = 10 * time.Second
)

// bounds count what each person does.
type bounds struct {
	mu      sync.Mutex
	running map[string]int
	second  int64
	changes map[string]int // in the second
}

// enter counts a request that begins, and reports whether the person may send it. Leave must follow if so.
func (b *bounds) enter(name string, change bool, now time.Time) (bool, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running == nil {
		b.running = make(map[string]int)
	}
	if s := now.Unix(); s != b.second {
		b.second, b.changes = s, make(map[string]int)
	}
	switch {
	case b.running[name] >= mostAtOnce:
		return false, "You have too many requests that are not done yet. Send this one again in a moment."
	case change && b.changes[name] >= mostChanges:
		return false, "You send too many answers. Send this one again in a moment."
	case change:
		b.changes[name]++
	}
	b.running[name]++
	return true, ""
}

func (b *bounds) leave(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running[name]--; b.running[name] == 0 {
		delete(b.running, name)
	}
}

// readBody reads the body of a request before anything is taken for it, so that somebody who sends slowly holds nothing
// but the connection.
func readBody(w http.ResponseWriter, r *http.Request, most int64) *problem {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // a connection without deadlines has them from its server
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		_ = control.SetReadDeadline(time.Time{}) // otherwise the server would wait for the rest of the body without end
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &problem{kind: "too-large", Status: http.StatusRequestEntityTooLarge,
			Title: "The request is too large: the content of an answer has at most 1 MiB."}
	}
	if err != nil {
		return &problem{kind: "slow", Status: http.StatusRequestTimeout, Title: "The request did not arrive in time."}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}
