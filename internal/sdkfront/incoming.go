package sdkfront

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// Request is a request of the 2026-07-28 revision over HTTP, outside of sessions, with the memory for serving it. Its
// front has checked the message.
type Request struct {
	wire.Request
	Args      wire.Params      // all of them, if the request may ask; otherwise Target and Meta
	Handler   *call.Handler    // set if the request is for one of our handlers
	Task      tasks.Request    // set if the request is about tasks
	Principal string           // as [gate.Gate.Principal] named the caller
	Extra     mcp.RequestExtra // what the transport says of the caller
	Client    Client           // takes notifications
	Ran       atomic.Bool      // the author's function has run for the request
	refusal   error            // why the gate refused the request, if the SDK carries it
	origin    context.Context  // the context over HTTP, if the SDK carries the request

	call call.Request
	home home.Carried
}

// Client is where a request came from.
type Client interface {
	// TakesEvents reports whether the client takes notifications before the response.
	TakesEvents() bool
	Notify(method string, params []byte) error
}

type requestKey struct{ *Front }

// Context returns the context of a request that the SDK's server or receiving middleware has to see. The request holds
// its share of the limits.
func (f *Front) Context(ctx context.Context, r *Request) context.Context {
	return context.WithValue(f.Gate.Named(ctx, r.Principal), requestKey{f}, r)
}

// requestOf returns the request of a context, or nil if it came in a session or on a connection of whole messages.
func (f *Front) requestOf(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{f}).(*Request)
	return r
}

// ran is Ran of a request, or nil if there is none.
func (r *Request) ran() *atomic.Bool {
	if r == nil {
		return nil
	}
	return &r.Ran
}

// progress tells the client how far the call is, if it asked to be told and takes notifications; else it is nil.
func (r *Request) progress() call.ProgressFunc {
	token := r.Args.Meta.ProgressToken
	if token == nil || !r.Client.TakesEvents() {
		return nil
	}
	return func(ctx context.Context, progress, total float64, message string) error {
		params, err := json.Marshal(struct {
			Token    json.RawMessage `json:"progressToken"`
			Progress float64         `json:"progress"`
			Total    float64         `json:"total,omitempty"`
			Message  string          `json:"message,omitempty"`
		}{token, progress, total, message})
		if err != nil {
			return fmt.Errorf("progress: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return r.Client.Notify("notifications/progress", params)
	}
}

// refuse keeps an error of the gate whose status differs from the status of an error: the SDK does not return it.
func (r *Request) refuse(err error) {
	if class := fault.Of(err); r != nil && (class == fault.Refused || class.Busy()) {
		r.refusal = err
	}
}

// during returns ctx, which the SDK and middleware derived, for as long as the HTTP request lasts.
func (r *Request) during(ctx context.Context) (context.Context, context.CancelFunc) {
	if r == nil || r.origin == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.origin, func() { cancel(context.Cause(r.origin)) })
	return followed{ctx, r.origin}, func() { stop(); cancel(nil) }
}

// followed is done as soon as the request is: a step that ends in the same moment must know that nobody hears of it.
type followed struct {
	context.Context
	origin context.Context
}

func (f followed) Err() error {
	if err := f.Context.Err(); err != nil {
		return err
	}
	return f.origin.Err()
}
