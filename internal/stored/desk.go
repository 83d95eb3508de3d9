package stored

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// What a store keeps of a question for people, in a task.Question:
//
//	Content    [Asking]
//	Notice     [Announcement]
//	Votes      [Ballot]
//	Decision   [Decision]

// Asking is what is asked at a desk. It never changes.
type Asking struct {
	Key    string          `json:"key"`    // the author's
	Digest []byte          `json:"digest"` // as long as a journal.Digest
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	// Votes is how many must accept alike, at least 1. It is 0 for a question that only waits for its deadline.
	Votes int `json:"votes,omitempty"`
	// Call is the public ID of the call.
	Call string `json:"call,omitempty"`
	// Preview is what the author shows of the call beside its arguments.
	Preview string `json:"preview,omitempty"`
	// Markdown says that the message and Preview are Markdown.
	Markdown bool `json:"markdown,omitempty"`
	// Fallback says that the question is for the caller, whose host could not ask it.
	Fallback bool `json:"fallback,omitempty"`
	// Shown is the SHA-256 of all that people are shown: see [Asking.SetShown]. It is nil if an older release has put the
	// question, or if it only waits for its deadline.
	Shown []byte `json:"shown,omitempty"`
	// Tool is the SHA-256 of the tool's definition, nil if the server did not know it.
	Tool []byte `json:"tool,omitempty"`
}

// definition is what a server tells of a tool, as tools/list has it.
type definition struct {
	Name        string               `json:"name"`
	Description string               `json:"description,omitempty"`
	InputSchema any                  `json:"inputSchema"`
	Annotations *mcp.ToolAnnotations `json:"annotations,omitempty"`
}

// SetShown sets the digests of what people are shown of a question, which desk.Question describes. Arguments are those
// of the call, a checked value or nil. To lists who may answer. Tool is nil if the server has no definition of it.
func (a *Asking) SetShown(arguments []byte, to []string, tool *mcp.Tool) error {
	if arguments == nil {
		arguments = []byte("{}")
	}
	var known *definition
	if tool != nil {
		known = &definition{tool.Name, tool.Description, tool.InputSchema, tool.Annotations}
	}
	shown, err := json.Marshal(struct {
		Method    string          `json:"method"`
		Params    json.RawMessage `json:"params"`
		Preview   string          `json:"preview"`
		Markdown  bool            `json:"markdown"`
		For       []string        `json:"for"`
		Votes     int             `json:"votes"`
		Arguments json.RawMessage `json:"arguments"`
		Tool      *definition     `json:"tool,omitempty"`
	}{a.Method, a.Params, a.Preview, a.Markdown, to, a.Votes, arguments, known})
	if err == nil {
		err = strictjson.Check(shown, strictjson.MaxDepth) // the definition may be a stranger's
	}
	if err != nil {
		return fmt.Errorf("what people are shown cannot be digested: %w", err)
	}
	digest := sha256.Sum256(strictjson.AppendJCS(nil, shown))
	a.Shown = digest[:]
	if tool != nil {
		digest := sha256.Sum256(strictjson.AppendJCS(nil, strictjson.Get(shown, "tool")))
		a.Tool = digest[:]
	}
	return nil
}

// Vote is what one person said to a question.
type Vote struct {
	Who     string          `json:"who"`
	Groups  []string        `json:"groups,omitempty"` // the members of For that let the person vote
	When    time.Time       `json:"when"`             // to the millisecond
	Channel string          `json:"channel"`
	Why     string          `json:"why,omitempty"`
	Action  string          `json:"action"`            // "accept", "decline" or "cancel"
	Content json.RawMessage `json:"content,omitempty"` // of the accept that began a count, as its question recorded it
}

// Provenance returns the record of the vote in a journal.
func (v *Vote) Provenance() input.Provenance {
	return input.Provenance{Who: v.Who, When: v.When, Channel: v.Channel, Why: v.Why}
}

// Event is something other than a vote that has happened to a question.
type Event struct {
	Kind string    `json:"kind"` // such as "claimed"
	Who  string    `json:"who"`
	When time.Time `json:"when"`
	Text string    `json:"text,omitempty"`
}

// Ballot is what people have said and done so far.
type Ballot struct {
	Votes []Vote `json:"votes,omitempty"` // in the order in which they came
	// From is the index in Votes at which the count began: an accept with another content begins a new one.
	From   int        `json:"from,omitempty"`
	Claim  *DeskClaim `json:"claim,omitempty"`
	Events []Event    `json:"events,omitempty"`
}

// DeskClaim says who is about to answer.
type DeskClaim struct {
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// Unanswered is the action of a [Decision] that a deadline has made.
const Unanswered = "unanswered"

// Decision is the end of a question. It is written once, with all the votes that made it.
type Decision struct {
	Action  string             `json:"action"`            // "accept", "decline", "cancel" or Unanswered
	Content json.RawMessage    `json:"content,omitempty"` // of an accept
	By      []input.Provenance `json:"by,omitempty"`      // who made it, in the order of their votes; nobody if Unanswered
	When    time.Time          `json:"when"`
}

// MostReceipt bounds a receipt, in bytes.
const MostReceipt = 64 << 10

// Salt returns the salt of the digests in the receipt of a question. Nobody knows it who does not know the task's ID.
func Salt(task, question string) string {
	sum := sha256.Sum256([]byte("askback receipt\x00" + task + "\x00" + question))
	return hex.EncodeToString(sum[:16])
}

// Salted returns the digest of a content in a receipt, in hexadecimal digits. What tells what the content is.
func Salted(salt, what string, content []byte) string {
	sum := sha256.Sum256(append([]byte(salt+"\x00"+what+"\x00"), content...))
	return hex.EncodeToString(sum[:])
}

// Announcement is what notices tell of a question besides what its row has. They outlive the question, so it has
// neither the form nor the preview.
type Announcement struct {
	Message string `json:"message,omitempty"`
	Votes   int    `json:"votes,omitempty"`
	Call    string `json:"call,omitempty"`
}

// longestAnnounced bounds the bytes of a message that notices have, since thousands may wait for a receiver.
const longestAnnounced = 4 << 10

// Announce returns what notices tell of a question. A message that cannot be read is empty.
func (a *Asking) Announce() *Announcement {
	q := input.Question{Key: a.Key, Method: a.Method, Params: a.Params}
	_ = q.Parse()
	if len(q.Message) > longestAnnounced {
		q.Message = strings.ToValidUTF8(q.Message[:longestAnnounced-len("…")], "") + "…"
	}
	return &Announcement{q.Message, a.Votes, a.Call}
}

// DecodeAnnouncement reads what notices tell of a question.
func DecodeAnnouncement(data []byte) (*Announcement, error) {
	a, err := decode[Announcement]("notice", data)
	if err == nil && a.Votes < 0 {
		return nil, fmt.Errorf("the stored notice wants %d votes", a.Votes)
	}
	return a, err
}

// Encode encodes what [DecodeAsking], [DecodeAnnouncement], [DecodeBallot] and [DecodeDecision] read.
func Encode[T Asking | Announcement | Ballot | Decision](v *T) ([]byte, error) {
	return json.Marshal(v)
}

// DecodeAsking reads the content of a question.
func DecodeAsking(data []byte) (*Asking, error) {
	a, err := decode[Asking]("content", data)
	switch {
	case err != nil:
		return nil, err
	case len(a.Digest) != len(journal.Digest{}):
		return nil, fmt.Errorf("the stored question %.80q has no digest", a.Key)
	case len(a.Shown) != 0 && len(a.Shown) != sha256.Size:
		return nil, fmt.Errorf("the stored question %.80q has a damaged digest of what was shown", a.Key)
	case a.Votes < 0:
		return nil, fmt.Errorf("the stored question %.80q wants %d votes", a.Key, a.Votes)
	}
	return a, nil
}

// DecodeBallot reads the votes of a question, which may be empty.
func DecodeBallot(data []byte) (*Ballot, error) {
	if len(data) == 0 {
		return new(Ballot), nil
	}
	b, err := decode[Ballot]("votes", data)
	if err != nil {
		return nil, err
	}
	if b.From < 0 || b.From > len(b.Votes) {
		return nil, fmt.Errorf("the stored votes begin at %d of %d", b.From, len(b.Votes))
	}
	for i := range b.Votes {
		if err := checkAction(b.Votes[i].Action, b.Votes[i].Content); err != nil {
			return nil, fmt.Errorf("vote %d of a question: %w", i, err)
		}
	}
	return b, nil
}

// DecodeDecision reads the decision of a question. An unknown one is an error, and no decline.
func DecodeDecision(data []byte) (*Decision, error) {
	d, err := decode[Decision]("decision", data)
	if err != nil {
		return nil, err
	}
	if d.Action != Unanswered || d.Content != nil {
		if err := checkAction(d.Action, d.Content); err != nil {
			return nil, fmt.Errorf("the decision of a question: %w", err)
		}
	}
	return d, nil
}

// checkAction checks a stored answer. Only an accept has content, and content is an object.
func checkAction(action string, content json.RawMessage) error {
	switch action {
	case "accept":
		if content != nil && strictjson.TypeOf(content) != strictjson.TypeObject {
			return errors.New("the stored content of an answer is no object")
		}
		return nil
	case "decline", "cancel":
		if content != nil {
			return fmt.Errorf("the stored answer %q has content", action)
		}
		return nil
	}
	return fmt.Errorf("this program does not know the stored answer %.80q: a newer one may have stored it", action)
}

// mostDepth bounds the nesting of what a store keeps of a question. Forms are flat, and contents are at most 64 deep.
const mostDepth = 128

// decode reads what [Encode] wrote. It is checked as strictly as what a client sends, because desks compare what is in
// it.
func decode[T any](what string, data []byte) (*T, error) {
	v := new(T)
	err := strictjson.Check(data, mostDepth)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return nil, fmt.Errorf("the stored %s of a question: %w", what, err)
	}
	return v, nil
}
