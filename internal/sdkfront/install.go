package sdkfront

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// Install adds the front's middleware to the SDK's server.
func (f *Front) Install() error {
	f.receiving = receivingHandler(f.Server)
	pristine := receivingHandler(mcp.NewServer(&mcp.Implementation{Name: "askback"}, nil))
	f.before = !f.receiving.IsValid() || !pristine.IsValid() || f.receiving.Pointer() != pristine.Pointer()
	handle := mcp.MethodHandler(f.handle)
	f.handler.Store(&handle)
	f.own = reflect.ValueOf(f.receive).Pointer()
	if f.receiving.IsValid() && f.receiving.Pointer() == f.own {
		return errors.New("askback: there is a Server on this mcp.Server already")
	}
	var err error
	f.lists = !hasCacheableHook(f.Server)
	if f.registered.session, err = listingSession(f.Server); err != nil {
		return fmt.Errorf("askback: opening a session for lists: %w", err)
	}
	f.Server.AddSendingMiddleware(f.sending)
	f.Server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		f.registered.next = next
		return f.receive
	})
	if f.Tasks == nil {
		return nil
	}
	// So that requests about tasks and events pass all middleware, as all others do.
	methods := wire.TaskMethods
	if f.Tasks.Events != nil {
		methods = slices.Concat(methods, wire.EventMethods)
	}
	for _, method := range methods {
		err := mcp.AddReceivingCustomMethod(f.Server, method, func(ctx context.Context, _ *mcp.ServerSession,
			p *rawParams) (*rawResult, error) {
			if p == nil || p.serve == nil {
				return nil, tasks.MethodNotFound(method)
			}
			return p.serve(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// receivingHandler is the field of an SDK's server that holds its handler of received
// requests, around which middleware is. The SDK has no other way to tell whether there is any.
func receivingHandler(m *mcp.Server) reflect.Value {
	field := reflect.ValueOf(m).Elem().FieldByName("receivingMethodHandler_")
	if field.IsValid() && field.Kind() != reflect.Func {
		return reflect.Value{}
	}
	return field
}
