package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/wire"
)

// probeTime is how long a program may take to answer server/discover. One that takes longer does not know the method:
// some are silent then. (basic/transports/stdio, "Backward Compatibility")
const probeTime = 10 * time.Second

// sessionVersions are the revisions that begin with initialize.
var sessionVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// codeHeaderMismatch is an error of 2026-07-28 alone, for which the SDK has no name.
const codeHeaderMismatch = -32020

// probe is middleware of the SDK's client, which sends initialize after every failure of server/discover. A server that
// has answered as one of 2026-07-28 gets no initialize, and neither does one that wants authorization: its error would
// hide the one that tells the user what to do.
func probe(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		x := tap.ExchangeOf(ctx)
		if x == nil || x.Hello == nil {
			return next(ctx, method, req)
		}
		hello := x.Hello
		switch method {
		case "initialize":
			if hello.Modern != nil {
				return nil, hello.Modern
			}
		case tap.MethodDiscover:
			bounded, cancel := ctx, func() {}
			if !hello.Web {
				bounded, cancel = context.WithTimeout(ctx, probeTime)
			}
			defer cancel()
			res, err := next(bounded, method, req)
			if err != nil {
				hello.Modern = isModern(hello, err)
			}
			return res, err
		}
		return next(ctx, method, req)
	}
}

// isModern returns the error with which connecting ends because the server refused the probe as one of 2026-07-28 does,
// or because no response to it came, or nil.
func isModern(hello *tap.Hello, err error) error {
	if reason := cmp.Or(hello.Unauthorized(err), hello.Lost()); reason != nil {
		return reason
	}
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return nil
	}
	switch fault.Code {
	case codeHeaderMismatch, mcp.CodeMissingRequiredClientCapabilities:
		return err
	case mcp.CodeUnsupportedProtocolVersion:
		var data struct{ Supported []string }
		_ = json.Unmarshal(fault.Data, &data)
		for _, version := range sessionVersions {
			if slices.Contains(data.Supported, version) && !slices.Contains(data.Supported, wire.Version) {
				return nil // initialize begins a session of it
			}
		}
		if len(data.Supported) == 0 {
			return err
		}
		return fmt.Errorf("%w: it speaks %s", err, wire.Cut(strings.Join(data.Supported, ", "), 200))
	}
	return nil
}

// olderEndpoints remembers the endpoints whose servers do not speak 2026-07-28, because the next connection would only
// probe them in vain. The zero value is ready to use.
type olderEndpoints struct {
	mu  sync.Mutex
	all map[string]bool
}

// mostOlder bounds them. The client probes a forgotten endpoint again.
const mostOlder = 256

func (o *olderEndpoints) has(endpoint string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[endpoint]
}

func (o *olderEndpoints) set(endpoint string, older bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !older {
		delete(o.all, endpoint)
		return
	}
	if o.all == nil || len(o.all) >= mostOlder {
		o.all = make(map[string]bool)
	}
	o.all[endpoint] = true
}
