package call

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/wire"
)

// TaskSupport says how the calls of a tool become tasks: see askback.TaskSupport.
type TaskSupport struct {
	Required, AtDetach, Always bool
	PollInterval               time.Duration
}

// Handler is a registered tool, prompt or resource.
type Handler struct {
	Method  string
	Tool    *mcp.Tool // the definition of a tool, which nobody changes; nil if it is not known
	Headers []wire.ParamHeader
	Tasks   *TaskSupport // of a tool whose calls may be tasks, or nil
	// Structured says that the tool declares an output schema.
	Structured bool
	// Fetches says that the tool fetches the outcomes of other calls. It cannot become a task, and its questions depend on
	// those calls.
	Fetches bool
	Sealed  atomic.Bool // arguments of its calls have been sealed, and probably will be
	// Template is the URI template of a resource template; Matches reads it.
	Template string
	Matches  func(uri string) bool
	// Invoke decodes the request's arguments and runs the author's function. It returns the errors of the handler, or a
	// *jsonrpc.Error.
	Invoke func(ctx context.Context, c *Call, params *wire.Params) (mcp.Result, error)
	// Fail turns the handler's error into a result, for tools.
	Fail func(error) mcp.Result

	mistakes mistakes

	defined sync.Once
	listed  string // see definition
}

// ProgressFunc tells the client how far a call is.
type ProgressFunc func(ctx context.Context, progress, total float64, message string) error

// Request is a request for a handler that has passed the gate, from any front.
type Request struct {
	Handler   *Handler
	Params    *wire.Params
	Raw       []byte // the parameters as they came
	Can       wire.Capability
	InSession bool // the request is the whole call, in a session before 2026-07-28
	Principal string
	Watch     *report.Watch
	// Crowded waits a moment for a share of the calls that run at once, and reports whether there is still none: then
	// the call is to be handed back to the client, if it can be. It is nil if the call has its share.
	Crowded  func(context.Context) bool
	Progress ProgressFunc
	Session  *mcp.ServerSession // nil outside of sessions
	// Task is the name of the task that the call is, or has become: see [task.Name]. It is empty outside of tasks.
	Task string
	// Fence and Nonce belong to the claim under which a task runs. They are zero outside of tasks.
	Fence int64
	Nonce string
	Extra *mcp.RequestExtra // nil in a task
	// As makes the SDK's view of the request for a handler that is registered on the SDK's server; else it is nil.
	As func(Manual) mcp.Request
	// Ran, if set, becomes true once the author's function has run for the request. From then on no HTTP status may say
	// that nothing ran.
	Ran *atomic.Bool

	mu   sync.Mutex
	last float64 // the last progress that was sent
	sent bool
}

// ReportsEvery is how often a client is told that a call waits for a person, if it asked to be told.
const ReportsEvery = 5 * time.Second

// Report tells the client how far the call is, if it asked to be told. Progress that does not grow is left out.
func (r *Request) Report(ctx context.Context, progress, total float64, message string) error {
	if r.Progress == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent && progress <= r.last {
		return nil
	}
	r.sent, r.last = true, progress
	return r.Progress(ctx, progress, total, message)
}

// Reported returns the last progress that the client was told of.
func (r *Request) Reported() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// view returns the SDK's view of the request.
func (r *Request) view(m Manual) mcp.Request {
	if r.As != nil {
		return r.As(m)
	}
	return View(r.Handler.Method, r.Raw, r.Session, r.Extra, m)
}
