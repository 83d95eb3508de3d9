package tap

import (
	"errors"
	"net/http"
	"sync"
)

// Hello belongs to the exchange that begins a session, with a probe of the server and with initialize, and notes how
// the server refuses them.
type Hello struct {
	// Web is set if the server is at a URL, and Modern is the reason why no initialize is sent. The tap does not use them.
	Web    bool
	Modern error

	mu           sync.Mutex
	refused      *StatusError // the response to initialize, if that is no message
	spent        bool         // the probe was sent as often as it may be
	lost         error        // why the probe had no response the last time
	unauthorized error        // the probe was refused, for lack of authorization
	authorizes   bool         // the SDK asks the user then
}

// Spent reports whether the probe of a server was sent as often as it may be, in vain.
func (h *Hello) Spent() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spent
}

// Lost returns why no response to the probe has come, or nil.
func (h *Hello) Lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

func (h *Hello) markSpent(lost error) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spent, h.lost = true, lost
}

// Unauthorized returns why the server refused the probe for lack of authorization, or nil. If the SDK authorizes
// requests, it returns the SDK's own error err.
func (h *Hello) Unauthorized(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unauthorized != nil && h.authorizes {
		return err
	}
	return h.unauthorized
}

// setUnauthorized notes whether the response to the probe is such a refusal, and whether the SDK had an answer to it.
func (h *Hello) setUnauthorized(res *http.Response, err error, authorizes bool) {
	var refused error
	status, ok := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err)
	switch {
	case ok && unauthorized(status.HTTPStatus()):
		refused = err
	case err == nil && unauthorized(res.StatusCode):
		refused = ReadStatus(res)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unauthorized, h.authorizes = refused, authorizes
}

func unauthorized(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// setRefused notes the response to initialize.
func (h *Hello) setRefused(status *StatusError) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = status
}

// Refusal returns the status with which the server refused to begin, or err.
func (h *Hello) Refusal(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused == nil {
		return err
	}
	return h.refused
}
