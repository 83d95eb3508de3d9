// Package transcript plays conversations, written down as text, against servers that run: it sends each request over
// HTTP and compares what comes with what the text says must come.
//
//	t, err := transcript.Parse(name, data)
//	if err != nil {
//		return err // says file and line
//	}
//	err = t.Play(ctx, transcript.Player{URLs: map[string]string{"A": "http://127.0.0.1:8080/mcp"}})
//
// The form of the text is described in testdata/transcripts/README.md of this module.
//
// Neither the text nor the servers are trusted: text, messages, their nesting, and the time of every step are bounded.
package transcript

import (
	"net/http"
	"time"
)

// Transcript is one conversation, or several of one kind. It is not changed by playing, and safe for concurrent use.
type Transcript struct {
	Name     string // as Parse was told, such as that of the file
	Title    string
	Document string // whose messages these are
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
	Query string // of the URL, with each request; "" is none
	steps []*step
}

type step struct {
	line   int
	kind   kind
	wait   time.Duration // of pause
	server string
	times  int // how often it is sent, 1 unless it says more
	header []header
	raw    bool
	body   []byte // comments are blanked; of a request that is raw, as written; nil is none
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
	within time.Duration // of response: how long to repeat the request until it matches; 0 is not at all
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

	// Part, if not empty, is the title of the only part to play.
	Part string

	// Client sends the requests. Nil is one that follows no redirections.
	Client *http.Client

	// StepTime bounds the time of one step, but for that of "within". Zero is 30 seconds.
	StepTime time.Duration

	// Report, if not nil, is called after each step that went as written, one at a time.
	Report func(Step)
}

// Step is a step that went as written.
type Step struct {
	Part     *Part
	Number   int    // in its part, from 1
	Server   string // "" where none was spoken to
	Title    string // such as "tools/call get_weather"
	Messages []Message
}

// Message is what was sent or what came.
type Message struct {
	Head string // such as "--> A" or "<-- 200"
	Text string // JSON with indentation, if it was JSON
}

// Failure is the first thing that did not go as written.
type Failure struct {
	File string
	Line int // of what was expected, or of the step
	Step     // that failed; without messages

	Reason string // where it has to do with a value, it begins with its path
	Sent   string
	Want   string // "" if it is told by Reason
	Got    string // "" if nothing came
}
