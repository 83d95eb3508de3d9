package tap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// ResponseTime is the time for which [Exchange.Timer] waits for a response.
const ResponseTime = 30 * time.Second

// Exchange is one request and its result, as the tap sees them.
type Exchange struct {
	// Answers, State and Task are added to the parameters of a call. Nil adds nothing.
	Answers map[string]json.RawMessage
	State   *string
	Task    json.RawMessage

	// Meta is added to the _meta of the parameters, over members of the same names.
	Meta map[string]string

	// Sent is the ID of a request that went past the SDK.
	Sent string

	// Method is the method of a request that the SDK sends as [CustomMethod], and Name the Mcp-Name of one that goes past
	// the SDK. They are empty for a call.
	Method, Name string

	// Notify takes the notifications about tasks that the request subscribes to. Nil means
	// that it is no subscription. Calls to it do not overlap.
	Notify func(method string, params []byte)

	// Timer ends the request. The tap starts it again whenever it sends the request, and
	// stops it while the user authorizes the client. It may be nil.
	Timer *time.Timer

	// Hello is set if the exchange begins a session. The tap then keeps the result of initialize, and shows it to the SDK
	// as it came.
	Hello *Hello

	// Cancelled is closed when the server was told that the request is cancelled. It may be nil.
	Cancelled chan struct{}
	once      sync.Once

	// Delivery notes how far the request came.
	Delivery Delivery

	mu     sync.Mutex // the tap may still be reading when a cancelled call returns
	id     []byte     // the request's id as it stands in the request
	result []byte
	fault  *jsonrpc.Error // the server's response
	err    error
}

type exchangeKey struct{}

// Context returns a context that carries the exchange. It is for one call of the SDK.
func (x *Exchange) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// ExchangeOf returns the exchange that a context carries, or nil.
func ExchangeOf(ctx context.Context) *Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return x
}

// Result returns the result as it came, or why there is none.
func (x *Exchange) Result() ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.result, x.err
}

func (x *Exchange) keep(result []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.result = bytes.Clone(result)
}

func (x *Exchange) fail(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.err = err
	return err
}

// Answered reports whether the server has answered with an error.
func (x *Exchange) Answered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.fault != nil
}

// answer notes that the server has answered with an error.
func (x *Exchange) answer(fault *jsonrpc.Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fault = fault
}

// Failure returns why there is no result, given the error of the SDK's client. A *jsonrpc.Error in it is the server's;
// the SDK makes such errors itself, too.
func (x *Exchange) Failure(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, made := errors.AsType[*jsonrpc.Error](err)
	switch {
	case x.err != nil:
		return x.err
	case x.fault != nil:
		return x.fault
	case made:
		return x.Delivery.failure(err)
	}
	return x.Delivery.Reason(err)
}

// failure returns the response that shows the SDK an error.
func (x *Exchange) failure(err error) []byte {
	return wire.AppendError(nil, x.requestID(), wire.Errorf(jsonrpc.CodeInternalError, "%v", x.fail(err)))
}

// SentID returns the ID of the JSON-RPC request, a string or a number, or "" if none was sent.
func (x *Exchange) SentID() string {
	return cmp.Or(x.Sent, wire.IDText(x.requestID()))
}

func (x *Exchange) requestID() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.id
}

// setRequestID notes the ID under which the request is sent, perhaps for a second time.
func (x *Exchange) setRequestID(id []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.id, x.result, x.fault, x.err = id, nil, nil, nil
}

// markCancelled notes that the server was told that the request is cancelled.
func (x *Exchange) markCancelled() {
	if x.Cancelled != nil {
		x.once.Do(func() { close(x.Cancelled) })
	}
}

// sends reports whether a request of this method is the exchange's own. Other messages come
// with its context too, such as the notification that cancels it.
func (x *Exchange) sends(method string) bool {
	switch {
	case x.Hello != nil:
		return method == methodInitialize
	case x.Method != "":
		return method == CustomMethod
	}
	return wire.MayAsk(method)
}

// Inject adds answers, state, the request for a task and members of _meta to the parameters of a request.
func (x *Exchange) Inject(params []byte) ([]byte, error) {
	if len(x.Meta) > 0 {
		var err error
		if params, err = withMeta(params, x.Meta); err != nil {
			return nil, err
		}
	}
	if x.Answers == nil && x.State == nil && x.Task == nil {
		return params, nil
	}
	added, err := json.Marshal(struct {
		Answers map[string]json.RawMessage `json:"inputResponses,omitzero"`
		State   *string                    `json:"requestState,omitzero"`
		Task    json.RawMessage            `json:"task,omitzero"`
	}{x.Answers, x.State, x.Task})
	if err != nil {
		return nil, err
	}
	// The SDK's parameters of a call are never empty: they name what is called.
	return slices.Concat(bytes.TrimSuffix(params, []byte("}")), []byte(","), added[1:]), nil
}

// withMeta returns the parameters of a request with further members of their _meta.
func withMeta(params []byte, added map[string]string) ([]byte, error) {
	members, meta := make(map[string]json.RawMessage), make(map[string]json.RawMessage)
	if len(params) > 0 {
		if err := json.Unmarshal(params, &members); err != nil {
			return nil, err
		}
	}
	if given := members["_meta"]; given != nil {
		if err := json.Unmarshal(given, &meta); err != nil {
			return nil, err
		}
	}
	for name, value := range added {
		meta[name], _ = json.Marshal(value) // strings always marshal
	}
	members["_meta"], _ = json.Marshal(meta) // What was read marshals, too.
	return json.Marshal(members)
}

// envelope is the number of JSON levels that a response has around its result.
const envelope = 2

// complete is the result that the SDK gets for a round that is not the last. With the real one it would continue the
// rounds by itself.
const complete = `{"resultType":"complete","content":[],"messages":[],"contents":[]}`

// take keeps a result and returns the one that the SDK gets in its place.
func (x *Exchange) take(result []byte, c *Config) ([]byte, error) {
	if x.Hello != nil {
		if strictjson.Check(result, c.Depth) == nil {
			x.keep(result)
		}
		return result, nil
	}
	if int64(len(result)) > c.MessageBytes {
		return nil, c.bound()
	}
	if err := strictjson.Check(result, c.Depth); err != nil {
		return nil, c.Broken(fmt.Sprintf("its result is not valid: %v", err))
	}
	if strictjson.TypeOf(result) != strictjson.TypeObject {
		return nil, c.Broken("its result is not an object")
	}
	x.keep(result)
	if x.Method != "" {
		return []byte(`{}`), nil
	}
	has := func(name string) bool { return strictjson.Get(result, name) != nil }
	kind := strictjson.Get(result, "resultType")
	// the drafts' results have no type
	continues := x.Task != nil && !has("content") && (has("task") || has("inputRequests"))
	if continues || kind != nil && string(kind) != `"complete"` {
		return []byte(complete), nil
	}
	return result, nil
}

// message keeps the result in a JSON-RPC response and returns the response that the SDK is to see.
func (x *Exchange) message(data []byte, c *Config) []byte {
	err := strictjson.Check(data, c.Depth+envelope)
	if err != nil {
		if x.Hello != nil || !json.Valid(data) {
			return data // The SDK reports what is wrong.
		}
		err = c.Broken(fmt.Sprintf("its response is not valid: %v", err))
	} else if strictjson.TypeOf(data) != strictjson.TypeObject || strictjson.Get(data, "result") == nil {
		if failed := strictjson.Get(data, "error"); failed != nil && answers(data, x.requestID()) {
			fault := new(jsonrpc.Error)
			if json.Unmarshal(failed, fault) == nil {
				x.answer(fault)
			}
		}
		return data // an error, a notification or a request
	}
	id := strictjson.Get(data, "id")
	if err == nil {
		var shown []byte
		if shown, err = x.take(strictjson.Get(data, "result"), c); err == nil {
			return wire.AppendResult(nil, id, func(dst []byte) []byte { return append(dst, shown...) })
		}
	}
	return wire.AppendError(nil, id, wire.Errorf(jsonrpc.CodeInternalError, "%v", x.fail(err)))
}

// stray returns the error of a response that does not name the request. A server that could not read the request's ID
// leaves it out of its error.
func (x *Exchange) stray(data []byte, c *Config) error {
	if err := strictjson.Check(data, c.Depth+envelope); err != nil {
		return c.Broken(fmt.Sprintf("its response is not valid: %v", err))
	}
	id := strictjson.Get(data, "id")
	failed, fault := strictjson.Get(data, "error"), new(jsonrpc.Error)
	unnamed := id == nil || strictjson.TypeOf(id) == strictjson.TypeNull
	if unnamed && strictjson.TypeOf(failed) == strictjson.TypeObject && json.Unmarshal(failed, fault) == nil {
		return fault
	}
	return c.Broken("its response does not answer the request")
}

// answers reports whether a message is the response to the request with this id.
func answers(message, id []byte) bool {
	if strictjson.Check(message, strictjson.MaxDepth) != nil || !bytes.Equal(strictjson.Get(message, "id"), id) {
		return false
	}
	return strictjson.Get(message, "result") != nil ||
		strictjson.TypeOf(strictjson.Get(message, "error")) == strictjson.TypeObject
}
