package httpfront

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/sdkfront"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// visit is one HTTP request: what is known of its caller, what it holds of the limits until it is served, and the
// memory for serving it, which is allocated in one piece. While the server waits for the client to send a body or to
// read a response, the visit's shares give way to others. A request that stays open waits all the time.
type visit struct {
	pacedWriter
	gate      *gate.Gate
	principal string
	extra     mcp.RequestExtra // what the transport says of the caller
	request   bound.Hold       // of Requests or, once it stays open, of Streams
	body      bound.Hold       // of BodyBytes, if the body is not small
	size      int              // of body
	reader    *bytes.Reader    // of the body, for the edge of the drafts
	open      atomic.Bool      // it stays open
	cancel    context.CancelCauseFunc
	waits     gate.Waits  // of a call that can wait for others than its client
	ran       atomic.Bool // the author's function has, for the request

	called  []byte // the id of the only request in the body, in a session
	stream  eventStream
	outline strictjson.Outline // of the body
	params  wire.Params
	call    call.Request
	home    home.Carried
	task    tasks.Request
}

// admit names the caller of a request and takes its share of those in progress, before its body is read.
func (v *visit) admit(r *http.Request) (err error) {
	v.extra = mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header}
	if v.principal, err = v.gate.Principal(r.Context(), gate.Access{Extra: &v.extra}); err != nil {
		return err
	}
	v.request, err = v.gate.Shares.Take(r.Context(), v.gate.Shares.Requests, v.principal, 1)
	return err
}

// named returns the context for where the gate would ask once more who the caller is.
func (v *visit) named(ctx context.Context) context.Context { return v.gate.Named(ctx, v.principal) }

// beside returns the context for a request that the SDK's server or middleware has to see.
func (v *visit) beside(ctx context.Context, sdk *sdkfront.Front) context.Context {
	return sdk.WithRan(v.named(ctx), &v.ran)
}

// turnAway answers a request that was not admitted, or to no share of the limits.
func (v *visit) turnAway(r *http.Request, err error) {
	v.gate.TurnAway(r.Context(), gate.Origin{Transport: report.TransportHTTP}, err)
	fail(v, nil, err)
}

func (v *visit) release() {
	v.end()
	v.request.Release()
	v.body.Release()
	v.waits.Release()
}

// Wait implements [gate.Holder].
func (v *visit) Wait() {
	if !v.open.Load() {
		v.wait()
	}
}

// Leave implements [gate.Holder]. From now on the request stays open, and counts as one that waits.
func (v *visit) Leave(w bound.Waiter) {
	v.open.Store(true)
	v.request.Release()
	v.body.Wait(w)
}

// Resume implements [gate.Holder].
func (v *visit) Resume() error {
	if v.open.Load() {
		return nil
	}
	return v.resume(context.Background())
}

// wait says that the server waits for the client.
func (v *visit) wait() {
	v.request.Wait(v)
	v.body.Wait(v)
}

// resume ends the wait. The error says that the request has given way, or that there is no room for it to continue.
func (v *visit) resume(ctx context.Context) error {
	err := v.request.Resume()
	if err == nil {
		err = v.body.Resume()
	}
	return v.gate.Shares.GaveWay(ctx, err)
}

// GiveWay implements [bound.Waiter].
func (v *visit) GiveWay(because *bound.FullError) {
	if v.cancel != nil {
		v.cancel(v.gate.Shares.GaveWay(context.Background(), because))
	}
	v.cutOff()
}

// WriteHeader implements [http.ResponseWriter], for the SDK's statuses as for ours. With a status of 4xx a server
// refuses a request before anything runs, and clients tell people so. Once the author's function has run, an error
// therefore has the status 200, which is also that of a tool's error, or 503 where the request may be sent again.
func (v *visit) WriteHeader(status int) {
	if v.ran.Load() {
		switch {
		case status == http.StatusTooManyRequests:
			status = http.StatusServiceUnavailable
		case status >= 400 && status < 500:
			status = http.StatusOK
		}
	}
	v.pacedWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter]. Output beyond the buffer of net/http waits for the client to read.
func (v *visit) Write(p []byte) (n int, err error) {
	if v.open.Load() || v.written+len(p) <= buffered {
		return v.pacedWriter.Write(p)
	}
	v.wait()
	n, err = v.pacedWriter.Write(p)
	return n, cmp.Or(v.resume(context.Background()), err)
}

// FlushError implements what [http.ResponseController] looks for.
func (v *visit) FlushError() error {
	if v.open.Load() {
		return v.pacedWriter.FlushError()
	}
	v.wait()
	err := v.pacedWriter.FlushError()
	return cmp.Or(v.resume(context.Background()), err)
}

// stayOpen counts a request as a stream instead of a request in progress. It returns the request with a context that
// ends when the stream gives way.
func (v *visit) stayOpen(r *http.Request) (*http.Request, error) {
	stream, err := v.gate.Shares.Take(r.Context(), v.gate.Shares.Streams, v.principal, 1)
	if err != nil {
		return r, err
	}
	var ctx context.Context
	ctx, v.cancel = context.WithCancelCause(r.Context())
	v.request.Release()
	v.request = stream
	v.open.Store(true)
	return r.WithContext(ctx), nil
}

// keep copies what req, a request that stays open, needs of its body into a smaller body, and gives back the memory of
// the original. It returns the smaller body. From now on the request waits.
func (v *visit) keep(req *wire.Request, body []byte, depth int) []byte {
	defer v.wait()
	if len(body) <= bound.Small {
		return body
	}
	var params bytes.Buffer
	if req.Params != nil {
		_ = json.Compact(&params, req.Params) // checked JSON
		req.Params = params.Bytes()
	}
	body = wire.AppendRequest(nil, *req)
	if v.reader != nil {
		v.reader.Reset(nil)
	}
	*req, _ = wire.ParseRequest(body, depth, &v.outline, false)
	v.params = wire.Params{Target: v.params.Target}
	v.params.Meta, _ = wire.ParseMeta(strictjson.Get(req.Params, "_meta")) // checked before
	if len(body) <= bound.Small {
		v.body.Release()
	} else {
		_ = v.body.Resize(min(len(body), v.size)) // giving back always succeeds
	}
	return body
}

type visitKey struct{}

// in returns the request with its visit, for when the edge of the drafts brings it back.
func (v *visit) in(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
}

func visitOf(r *http.Request) *visit { return r.Context().Value(visitKey{}).(*visit) }

// owns reports whether the caller of a request may send messages in the session that it names.
func owns(r *http.Request) bool {
	v := visitOf(r)
	return v.gate.Sessions.Owns(v.principal, r.Header.Get("Mcp-Session-Id"))
}
