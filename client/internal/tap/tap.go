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
// A request's [Exchange] has the members to add, and receives the result. It travels in the request's context.
//
// Requests of calls and those about tasks do not come here if they go to a server of 2026-07-28 over HTTP: see package
// streamable.
package tap

import "context"

// CustomMethod is the SDK's name for every request that it does not know.
const CustomMethod = "tasks"

// MetaParams is the member of _meta in which the parameters of a server's question travel past the SDK's types, as a
// string. The tap makes that _meta anew, so a server's own member of this name does not get there.
const MetaParams = "io.github.askback-mcp/params"

// Methods that the tap reads.
const (
	MethodAcknowledged = "notifications/subscriptions/acknowledged"
	MethodTask         = "notifications/tasks"

	methodInitialize = "initialize"
	methodCancelled  = "notifications/cancelled"
)

// Config bounds what a connection reads, and makes the errors that say so.
type Config struct {
	MessageBytes int64 // bytes of one message
	Depth        int   // nesting of a result's JSON
	Questions    int   // states that are kept for a session's unanswered questions
	Unanswered   int64 // bytes of a server's requests that wait for their answers, unless one message may have more

	Limit  func(limit string, most int64) error // makes the error for what exceeds a limit
	Broken func(reason string) error            // makes the error for a message that breaks the protocol

	// Life ends with the session: then nothing more is sent.
	Life context.Context

	// Echo returns the state of each question inside a session with its answer, over HTTP.
	Echo bool
}

// BytesOfMessage names the limit of [Config.MessageBytes].
const BytesOfMessage = "bytes of a message"

// bound returns the error for a response of more bytes than a message may have.
func (c *Config) bound() error { return c.tooLarge(c.MessageBytes) }

// tooLarge returns the error for a message of more than most bytes.
func (c *Config) tooLarge(most int64) error { return c.Limit(BytesOfMessage, most) }

// AwayError reports that the server did not answer a request, which may be sent again. It does
// not wrap its cause: the end of an HTTP connection is not the end of the session.
type AwayError struct {
	Reason string
	Cause  error // may be nil
}

func (e *AwayError) Error() string { return "the server did not answer: " + e.Reason }
