// Package tap stands between the client of the official Go SDK and its transports.
//
// The SDK's types lose what package client needs: the order of a form's fields, the digits
// of large numbers, results with a state and no questions, and questions of kinds that the
// SDK does not know. A tap therefore rewrites messages on their way:
//
//   - It adds answers and state to the requests of a call.
//   - It sends requests that the SDK does not know, those about tasks, under their own
//     methods. The SDK knows all of them as [CustomMethod].
//   - It keeps each result as it came, and shows the SDK only complete results.
//   - It bounds what is read.
//
// A request's [Exchange] says what to add, and receives the result. It travels in the
// request's context.
package tap

import "github.com/modelcontextprotocol/go-sdk/mcp"

// Tap is the tap of one connection.
type Tap struct {
	config *Config
	hello  *Exchange // keeps the result of initialize
	echoes *echoes   // nil where no states are returned
}

// New returns the tap of a connection that is about to be made.
func New(c Config) *Tap {
	t := &Tap{config: &c, hello: &Exchange{quiet: true}}
	if c.Echo {
		t.echoes = &echoes{most: c.Questions, depth: c.Depth}
	}
	return t
}

// Transport returns a transport that speaks through the tap. An HTTP transport of the SDK
// must have an HTTPClient; it is copied.
func (t *Tap) Transport(below mcp.Transport) mcp.Transport {
	web, ok := below.(*mcp.StreamableClientTransport)
	if !ok {
		return &transport{below, t.config, t.hello}
	}
	tapped, httpClient := *web, *web.HTTPClient
	httpClient.Transport = &roundTripper{config: t.config, hello: t.hello, echoes: t.echoes,
		base: httpClient.Transport, authorizes: web.OAuthHandler != nil}
	tapped.HTTPClient, tapped.MaxEventSize = &httpClient, int(t.config.MessageBytes)
	return &tapped
}

// Initialized returns the result of initialize as it came, or nil if the connection began
// without that method.
func (t *Tap) Initialized() []byte {
	result, _ := t.hello.Result()
	return result
}
