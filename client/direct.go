package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/streamable"
	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// direct sends the requests of calls and those about tasks past the SDK's client, straight over HTTP. A session has one
// if its server is of 2026-07-28 and its transport is the SDK's for Streamable HTTP. The SDK's client sends all else:
// discovery, lists, subscriptions of the host, and everything in other sessions.
//
// It is there because the SDK's client (1.8.0) does not know the methods of tasks. It would send them as one custom
// method, so that the header Mcp-Method contradicts the body, and a server has to refuse them (basic/transports,
// "Server Validation"). It also saves three quarters of a call's processor time.
//
// No middleware of a host is passed by: nobody can add any, because nothing of [Client] gives out its mcp.Client.
type direct struct {
	endpoint      *streamable.Endpoint
	inline        *inlineState
	notifications notificationQueue
	encoded       []byte            // The _meta of every request, as JSON.
	members       map[string][]byte // of it, as JSON
	names         []string          // of members
}

// newDirect returns the direct way to an endpoint for a client with these options. The notifications of a request go to
// deliver.
func newDirect(
	endpoint *streamable.Endpoint, opts *Options, state *inlineState, deliver func(method string, params []byte),
) *direct {
	d := &direct{endpoint: endpoint, inline: state}
	meta := map[string]any{
		mcp.MetaKeyProtocolVersion:    wire.Version,
		mcp.MetaKeyClientInfo:         opts.implementation(),
		mcp.MetaKeyClientCapabilities: encodable(opts.capabilities()),
	}
	d.encoded, _ = json.Marshal(meta) // strings and types of the SDK
	d.members = make(map[string][]byte, len(meta))
	for name, value := range meta {
		d.members[name], _ = json.Marshal(value)
		d.names = append(d.names, name)
	}
	d.notifications.deliver = deliver
	return d
}

// cached returns the result of a resource that is still fresh, or nil.
func (d *direct) cached(method, target string) json.RawMessage {
	if method != wire.ReadResource {
		return nil
	}
	return d.inline.resources.get(target)
}

// call sends one round of a call and returns its result. The tool's arguments may go into headers, too.
func (d *direct) call(
	ctx context.Context, x *tap.Exchange, method, target string, params, arguments json.RawMessage,
) (json.RawMessage, error) {
	params, err := x.Inject(params)
	if err != nil {
		return nil, err
	}
	x.Delivery.Once = true // a call may have effects: a redirect or a retry of HTTP/2 must not repeat it
	r := &streamable.Request{Method: method, Name: target, Params: params, Notify: d.notifications.add,
		Delivery: &x.Delivery}
	if method == wire.CallTool {
		r.Header = d.inline.headers(target, arguments)
	}
	result, err := d.endpoint.Send(ctx, r)
	if x.Meta != nil { // it is observed
		x.Sent = r.ID()
	}
	if away, ok := errors.AsType[*tap.AwayError](err); ok {
		// The tap sends other requests again. A call may have run, so the host gets the cause and decides.
		x.Delivery.Broke(away.Cause)
		err = x.Delivery.Reason(away.Cause)
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("calling %q: %w", method, err)
	}
	if method == wire.ReadResource && err == nil {
		d.inline.resources.put(target, result)
	}
	return result, err
}

// request sends a request about a task, or a subscription to one, and returns its result.
func (d *direct) request(ctx context.Context, x *tap.Exchange, params any, meta mcp.Meta) (json.RawMessage, error) {
	data, err := d.encode(params, meta)
	if err != nil {
		return nil, err
	}
	if data, err = x.Inject(data); err != nil {
		return nil, err
	}
	r := &streamable.Request{Method: x.Method, Name: x.Name, Params: data, Notify: d.notifications.add, Timer: x.Timer}
	if x.Notify != nil {
		r.Listens = true
		r.Notify = func(method string, params []byte) error { x.Notify(method, params); return nil }
	}
	result, err := d.endpoint.Send(ctx, r)
	if x.Meta != nil { // it is observed
		x.Sent = r.ID()
	}
	return result, err
}

// encode returns the parameters of a request as JSON. Their _meta has the caller's members, and those of every request.
func (d *direct) encode(params any, given mcp.Meta) ([]byte, error) {
	data, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return d.withMeta(data, given)
}

// withMeta adds the _meta to parameters, an object without one and without space around it.
func (d *direct) withMeta(data []byte, given mcp.Meta) (_ []byte, err error) {
	meta := d.encoded
	if len(given) > 0 {
		if meta, err = d.merged(given); err != nil {
			return nil, err
		}
	}
	members := bytes.TrimSuffix(data, []byte("}"))
	comma := ""
	if len(members) > 1 {
		comma = ","
	}
	return slices.Concat(members, []byte(comma+`"_meta":`), meta, []byte("}")), nil
}

// merged returns the _meta of a request as JSON. The caller's members replace those of every request, except the
// version, which must agree with the header. JSON is not encoded again: a bridge does this for each call.
func (d *direct) merged(given mcp.Meta) ([]byte, error) {
	names := append(make([]string, 0, 16), d.names...)
	for name := range given {
		if d.members[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	all := append(make([]byte, 0, len(d.encoded)+256), '{')
	for i, name := range names {
		encoded := d.members[name]
		if value, ok := given[name]; ok && name != mcp.MetaKeyProtocolVersion {
			raw, ok := value.(json.RawMessage)
			if !ok || strictjson.Check(raw, strictjson.MaxDepth) != nil {
				var err error
				if raw, err = json.Marshal(value); err != nil {
					return nil, err
				}
			}
			encoded = raw
		}
		if i > 0 {
			all = append(all, ',')
		}
		all = append(append(wire.AppendString(all, name), ':'), encoded...)
	}
	return append(all, '}'), nil
}
