package httpfront

import (
	"context"
	"net/http"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
)

// visit is an HTTP request with what it holds of the limits until it is served.
type visit struct {
	principal string
	request   bound.Hold // of Requests or, once it stays open, of Streams
	body      bound.Hold
}

type visitKey struct{}

// visitOf returns the visit of a request that was admitted. In a session the context is that of the request that
// opened it: ask only for the request at hand.
func visitOf(r *http.Request) *visit { return r.Context().Value(visitKey{}).(*visit) }

// admit names the caller of a request and takes its share of those in progress, before its body is read.
func (h *handler) admit(r *http.Request) (v *visit, err error) {
	v = new(visit)
	if v.principal, err = h.SDK.Gate.Principal(r.Context(), call.Access{Extra: requestExtra(r)}); err != nil {
		return v, err
	}
	v.request, err = h.SDK.Gate.Take(r.Context(), h.SDK.Gate.Shares.Requests, v.principal, 1)
	return v, err
}

func (v *visit) release() {
	v.request.Release()
	v.body.Release()
}

func (v *visit) in(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
}

// stayOpen makes a request one of those that stay open, which are not counted as in progress.
func (h *handler) stayOpen(r *http.Request) error {
	v := visitOf(r)
	stream, err := h.SDK.Gate.Take(r.Context(), h.SDK.Gate.Shares.Streams, v.principal, 1)
	if err != nil {
		return err
	}
	v.request.Release()
	v.request = stream
	return nil
}
