package httpfront

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// visit is one HTTP request: what is known of its caller, what it holds of the limits until it is served, and the
// memory for serving it, which is allocated in one piece.
type visit struct {
	pacedWriter
	principal string
	extra     mcp.RequestExtra // what the transport says of the caller
	request   bound.Hold       // of Requests or, once it stays open, of Streams
	body      bound.Hold

	stream  eventStream
	outline strictjson.Outline // of the body
	params  wire.Params
	call    call.Request
	home    home.Carried
}

// admit names the caller of a request and takes its share of those in progress, before its body is read.
func (h *handler) admit(v *visit, r *http.Request) (err error) {
	v.extra = mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header}
	if v.principal, err = h.SDK.Gate.Principal(r.Context(), call.Access{Extra: &v.extra}); err != nil {
		return err
	}
	v.request, err = h.SDK.Gate.Take(r.Context(), h.SDK.Gate.Shares.Requests, v.principal, 1)
	return err
}

// turnAway answers a request that was not admitted, or to no share of the limits.
func (h *handler) turnAway(v *visit, r *http.Request, err error) {
	h.SDK.Gate.TurnAway(r.Context(), call.Origin{Transport: call.TransportHTTP}, err)
	fail(v, nil, err)
}

func (v *visit) release() {
	v.request.Release()
	v.body.Release()
}

// stayOpen makes a request one of those that stay open, which are not counted as in progress.
func (h *handler) stayOpen(ctx context.Context, v *visit) error {
	stream, err := h.SDK.Gate.Take(ctx, h.SDK.Gate.Shares.Streams, v.principal, 1)
	if err != nil {
		return err
	}
	v.request.Release()
	v.request = stream
	return nil
}

type visitKey struct{}

// in returns the request with its visit, for when the edge of the drafts brings it back.
func (v *visit) in(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
}

func visitOf(r *http.Request) *visit { return r.Context().Value(visitKey{}).(*visit) }
