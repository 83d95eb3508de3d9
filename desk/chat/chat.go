// Package chat lets people answer questions in a chat, where a message has the question and the buttons that answer it.
// It knows no chat by name: a [Service] is one, such as module slack.
//
//	people, err := desk.Open(store, nil)
//	talk, err := chat.Open(people, service, chat.Options{Name: "slack", Store: store, Person: person, Channel: channel})
//	…
//	opts.Desk = &askback.DeskOptions{Notify: talk.Notify} // posts questions, and shows how they end
//	http.Handle("/slack", talk)                           // what people press
//	go talk.Run(ctx)                                      // shows votes and claims as they come
//
// An account of the chat answers only as the person whom [Options].Person names for it, by a button or a form, and
// never by words. The desk has the last word: it refuses who is not asked, what does not fit the form, and what comes
// too late.
//
// Which message has a question is in a store that all instances share. So any of them can change it, also after a
// restart.
package chat

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/state"
)

// Service is a chat. Its methods are called concurrently, and return when their context is done. An error has no secret
// in it: it is logged. While the chat does not answer, Post and Update had better fail at once: notices to others wait
// for them.
type Service interface {
	// Post posts a message, and returns a reference by which any instance can change it, of at most 1 KB. If
	// [Message].Again is set, an earlier Post may have posted it although it returned an error.
	Post(ctx context.Context, m *Message) (ref string, err error)

	// Update replaces a message. The error is an [ErrGone] if the message is not there any more.
	Update(ctx context.Context, ref string, m *Message) error

	// Receive verifies that the chat has sent a request, when, and to whom, and returns what somebody pressed. The body of
	// the request is bounded. Nil means that there is nothing to do. An error refuses the request.
	Receive(r *http.Request) (*Click, error)
}

// ErrGone reports that a message is not there any more.
var ErrGone = errors.New("the message is gone")

// Message is what a chat shows of a question. Its texts are plain and of any length. Foreign characters that show
// nothing, or that turn the direction of writing, are spelled out. A service cuts and escapes the texts for its chat.
type Message struct {
	Channel   string // what Options.Channel returned
	Name, Key string // of the question; a button has them
	Asked     time.Time

	Title     string // one line, in words of this package and the name of the tool
	Text      string // the question
	Facts     []Fact
	Preview   string // the author's text about the call; may be empty
	Arguments string // of the call, or their beginning; their size and digest are among the facts
	Standing  string // how the question stands, in a sentence
	Link      string // the question's page, or empty

	// Open is set as long as people can answer.
	Open bool
	// Form is the schema of the form that an accept fills in, nil if there is nothing to fill in. Values has what
	// others have accepted, which an accept has to equal to count with theirs.
	Form, Values json.RawMessage
	// PageOnly is set if the question sends people to another page: then only Link leads on.
	PageOnly bool

	// ReplyTo is set for a reminder: a short message in reply to the one with this reference.
	ReplyTo string
	// Again is set if a Post of this message may have arrived although it failed.
	Again bool `json:"-"`
}

// Fact is one line of a table.
type Fact struct{ Name, Value string }

// Account is somebody in a chat, as the chat says.
type Account struct {
	Workspace string // such as the ID of the team in Slack
	User      string // the ID, which is not a name that people can choose
}

// Click is what somebody pressed.
type Click struct {
	// ID is different for every request, and the same if a request is replayed.
	ID        string
	Account   Account
	Name, Key string // of the question
	Ref       string // the message, if it is known
	// Answer has Action, Content and Reason.
	Answer desk.Answer
	// Ask is set if the person has to be asked for the rest of the answer first. Reply does that.
	Ask bool
	// Reply answers the request, once, with its Content-Length. It has until the end of its context, and answers the
	// request at once if it then has more to do.
	Reply func(ctx context.Context, w http.ResponseWriter, r *Reply) error
}

// Reply answers a [Click].
type Reply struct {
	// Ask is set for a click with Ask: the service opens a form with a place for the reason.
	Ask *Message
	// Refused tells the person, and nobody else, in a sentence why the answer was not taken. Empty means that it was.
	Refused string
	// Invalid is set if the person can send the form again, as Refused says: corrected, or as it is.
	Invalid bool
}

// Options configure a [Chat]. All fields are required, except as they say.
type Options struct {
	// Name is the channel in the record of an answer, such as "slack": at most 64 bytes.
	Name string
	// Store keeps which message has which question, and for ten minutes which requests have been received. All
	// instances share it: the stores of task/sqlite and task/postgres are one. A state.MemoryStore is for one process.
	Store state.Store
	// Person returns the person whose account it is, with the groups as they are now. The zero Person means that it is
	// nobody's. An error means that this cannot be told now, as when a directory does not answer: the account is asked to
	// try again. Both decide nothing. Person has 2 seconds, and is called for each click.
	Person func(ctx context.Context, a Account) (desk.Person, error)
	// Channel returns the channel in which a question is to be posted, such as an ID of Slack. Who reads the channel reads
	// the question and the arguments of the call. Empty means that the question is not posted.
	Channel func(q *desk.Question) string
	// Page is the URL of the page of package inbox. Empty means that messages have no link.
	Page string
	// Log gets what failed and is not told to anybody otherwise. Nil means slog.Default.
	Log *slog.Logger
}

// Chat shows the questions of a desk in a chat, and takes what people press. It is safe for concurrent use.
type Chat struct {
	desk    *desk.Desk
	service Service
	opts    Options
	busy    chan struct{} // a place for each click that is worked on
}

// mostClicks bounds the clicks that are worked on at once. More are refused, and the chat asks people to try again.
const mostClicks = 64

// Open returns the chat of a desk. The desk and the store stay the caller's. The error names the option that is wrong.
func Open(d *desk.Desk, s Service, opts Options) (*Chat, error) {
	switch {
	case d == nil || s == nil:
		return nil, errors.New("chat: Open needs a desk and a service")
	case opts.Name == "" || len(opts.Name) > 64:
		return nil, errors.New(`chat: Options.Name must have 1 to 64 bytes, such as "slack"`)
	case opts.Store == nil:
		return nil, errors.New("chat: Options.Store is required: give the store of the tasks, which all instances share")
	case opts.Person == nil:
		return nil, errors.New("chat: Options.Person is required: it says whose account somebody uses")
	case opts.Channel == nil:
		return nil, errors.New("chat: Options.Channel is required: it says where a question is posted")
	case opts.Page != "" && !question.IsPage(opts.Page):
		return nil, errors.New("chat: Options.Page must be the URL of a page, such as https://inbox.example.com/")
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	return &Chat{desk: d, service: s, opts: opts, busy: make(chan struct{}, mostClicks)}, nil
}
