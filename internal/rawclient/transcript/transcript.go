// Package transcript plays conversations against running servers. A conversation is a text with requests and the
// responses to expect: the package sends each request over HTTP and compares each response with the text.
//
//	t, err := transcript.Parse(name, data)
//	if err != nil {
//		return err // says file and line
//	}
//	err = t.Play(ctx, transcript.Player{URLs: map[string]string{"A": "http://127.0.0.1:8080/mcp"}})
//
// The form of the text is described in testdata/transcripts/README.md of this module.
//
// It trusts neither the text nor the servers: the text, the messages and their nesting, and the time of every step have
// limits.
package transcript

import (
	"net/http"
	"time"
)

// Transcript is one conversation, or several of one kind. Playing does not change it; it is safe for concurrent use.
type Transcript struct {
	Name     string // the name given to Parse, such as the file's
	Title    string
	Document string // the document that the messages are from
	Section  string // of Document
	Servers  []Server
	Parts    []*Part
}

// Server is one of the servers that a transcript is played against.
type Server struct {
	Name string
	Args []string // what 'askback serve' is started with, beyond what all servers of a transcript share
}

// Part is a conversation by itself: it shares no variables with other parts.
type Part struct {
	Title string
	Query string // the query of the URL of each request; may be empty
	steps []*step
}

type step struct {
	line   int
	kind   kind
	wait   time.Duration // how long a pause takes
	server string
	as     string // "second" is the other identity
	times  int    // how often to send it, at least 1
	header []header
	raw    bool
	body   []byte // with comments blanked, except in a raw request; nil if the request has no body
	expect []*expectation
}

type kind uint8

const (
	request kind = iota
	pause        // wait for a while
	drop         // close the newest stream
)

type header struct{ name, value string }

type expectation struct {
	line   int
	kind   expected
	status int           // of response
	within time.Duration // of response: how long to repeat the request until it matches; 0 means never
	header []header
	text   string // of body, as written
	body   any    // decoded
	empty  bool   // there must be no body
}

type expected uint8

const (
	response expected = iota // the status, and the first message
	event                    // the next message of the newest stream
	end                      // the newest stream ends
)

// Player says where and how to play.
type Player struct {
	// URLs are the addresses of the servers by their names. All must be there.
	URLs map[string]string

	// First and Second are the headers of the two identities. They go to the origins of URLs, which the user has named,
	// and into no report.
	First, Second http.Header

	// Part is the title of the only part to play. Empty means all parts.
	Part string

	// Report, if not nil, is called after each step that matched, from one goroutine at a time.
	Report func(Step)

	stepTime time.Duration // the limit of one step, apart from its "within"; 0 means 30 seconds
}

// Step is a step that matched the text.
type Step struct {
	Part     *Part
	Number   int    // in its part, from 1
	Server   string // empty for a step that sends nothing
	Title    string // such as "tools/call get_weather"
	Messages []Message
}

// Message is a message sent or received.
type Message struct {
	Head string // such as "--> A" or "<-- 200"
	Text string // JSON with indentation, if it was JSON
}

// Failure is the first mismatch between the text and the servers.
type Failure struct {
	File string
	Line int // the line of the expectation, or of the step
	Step     // the step that failed, without its messages

	Reason string // begins with the path of the value that differs, if there is one
	Sent   string
	Want   string // empty if Reason includes it
	Got    string // empty if no message came
}
