// Package stored encodes what Askback keeps in the store of tasks, and decodes it again. To the store these bytes are
// opaque:
//
//	the call of the journal       [Call]
//	the entries of the journal    [EncodeEntries], [DecodeJournal]
//	Pending of a parked task      [EncodeQuestions], [DecodeQuestions], [Asked]
//	Outcome of a completed task   [EncodeResult], [DecodeResult]
//	Outcome of a failed task      [EncodeFault], [DecodeFault]
//	Outcome of a cancelled task   [EncodeCancellation], [DecodeCancellation]
//	a question for people         [Asking], [Ballot], [Decision]
//
// Instances of two releases may share a store. The call says which version a task is of: an instance that does not know
// it leaves the task to the others.
package stored

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// version is in each stored call. A change of what is stored of a task gets another one, if instances that do not know
// it could not run the task.
const version = 1

// Call is the call that a task begins with. The store has it as an object with the members version, call, trace, can,
// plain, desk and params.
type Call struct {
	ID         string // the call's secret ID
	Trace      string // the journal's; empty if there is none, and then its member is missing
	Can        wire.Capability
	PlainForms bool   // the journal's
	Desk       bool   // the call's server has a desk, which the task may need
	Params     []byte // the parameters of the request, an object: name, arguments and _meta; any of them may be missing
}

// Append appends the stored form of c to dst. Of c.Params, which must be checked JSON, it leaves out all members that
// do not belong there.
func (c *Call) Append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"version":`...), version, 10)
	dst = wire.AppendString(append(dst, `,"call":`...), c.ID)
	if c.Trace != "" {
		dst = wire.AppendString(append(dst, `,"trace":`...), c.Trace)
	}
	dst = strconv.AppendUint(append(dst, `,"can":`...), uint64(c.Can), 10)
	if c.PlainForms {
		dst = append(dst, `,"plain":true`...)
	}
	if c.Desk {
		dst = append(dst, `,"desk":true`...)
	}
	dst = append(dst, `,"params":{`...)
	separator := ""
	for _, name := range []string{"name", "arguments", "_meta"} {
		if member := strictjson.Get(c.Params, name); member != nil {
			dst = append(append(dst, separator...), `"`+name+`":`...)
			dst, separator = append(dst, member...), ","
		}
	}
	return append(dst, "}}"...)
}

// DecodeCall reads what [Call.Append] wrote. Params aliases data. The error is [journal.ErrNewer] for a call of another
// version.
func DecodeCall(data []byte) (Call, error) {
	if err := strictjson.Check(data, strictjson.MaxDepth); err != nil {
		return Call{}, fmt.Errorf("the stored call: %w", err)
	}
	if v, err := strconv.ParseUint(string(strictjson.Get(data, "version")), 10, 32); err == nil && v != version {
		return Call{}, fmt.Errorf("a task of version %d, where this program knows version %d: %w", v, version,
			journal.ErrNewer)
	} else if err != nil {
		return Call{}, errors.New("the stored call has no version")
	}
	id, hasID := strictjson.String(strictjson.Get(data, "call"))
	can, err := strconv.ParseUint(string(strictjson.Get(data, "can")), 10, 32)
	params := strictjson.Get(data, "params")
	if !hasID || err != nil || strictjson.TypeOf(params) != strictjson.TypeObject {
		return Call{}, errors.New("the stored call is damaged: it has no ID, no capabilities, or no parameters")
	}
	trace, _ := strictjson.String(strictjson.Get(data, "trace"))
	return Call{
		ID: id, Trace: trace, Can: wire.Capability(can), Params: params,
		PlainForms: string(strictjson.Get(data, "plain")) == "true", Desk: string(strictjson.Get(data, "desk")) == "true",
	}, nil
}

// EncodeEntries encodes entries of a journal.
func EncodeEntries(entries []journal.Entry) [][]byte {
	var encoded [][]byte
	for i := range entries {
		encoded = append(encoded, entries[i].Append(nil))
	}
	return encoded
}

// DecodeJournal makes the journal of a call's task, which has come to this round, from its entries. Their values alias
// the given ones.
func DecodeJournal(callID string, round int, entries [][]byte) (*journal.Journal, error) {
	j := &journal.Journal{ID: callID, Round: round}
	for i, data := range entries {
		e, err := journal.DecodeEntry(data)
		if err != nil {
			return nil, fmt.Errorf("entry %d of the journal: %w", i, err)
		}
		j.Entries = append(j.Entries, e)
	}
	return j, nil
}

// Question is a question that a parked task waits for.
type Question struct {
	Wire   string          `json:"wire"`   // the key under which the client answers
	Key    string          `json:"key"`    // the author's
	Digest []byte          `json:"digest"` // as long as a journal.Digest
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	// Row is the key of the task.Question that has its deadline. Empty means that it has none.
	Row string `json:"row,omitempty"`
	// Asked is when the client was first asked, by the clock of the store, in milliseconds since 1970. Zero means that
	// nobody knows.
	Asked int64 `json:"asked,omitempty"`
}

// AskedAt returns when the client was first asked, or the zero time.
func (q *Question) AskedAt() time.Time {
	if q.Asked == 0 {
		return time.Time{}
	}
	return time.UnixMilli(q.Asked)
}

// SetAsked says when the client was first asked. The zero time means that nobody knows.
func (q *Question) SetAsked(at time.Time) {
	if q.Asked = 0; !at.IsZero() {
		q.Asked = at.UnixMilli()
	}
}

// EncodeQuestions encodes the questions that a task waits for.
func EncodeQuestions(open []Question) ([]byte, error) { return json.Marshal(open) }

// DecodeQuestions reads what [EncodeQuestions] wrote. A task that waits for nothing has no bytes and no questions.
func DecodeQuestions(pending []byte) ([]Question, error) {
	if len(pending) == 0 {
		return nil, nil
	}
	var open []Question
	if err := json.Unmarshal(pending, &open); err != nil {
		return nil, fmt.Errorf("the stored questions: %w", err)
	}
	for _, q := range open {
		if len(q.Digest) != len(journal.Digest{}) {
			return nil, fmt.Errorf("the stored question %q has no digest", q.Wire)
		}
	}
	return open, nil
}

// Asked reads what [EncodeQuestions] wrote as records of questions, under their authors' keys. An elicitation that is
// malformed, as a handler in the SDK's manual style may make it, has its method and parameters only.
func Asked(pending []byte) ([]input.Question, error) {
	open, err := DecodeQuestions(pending)
	if err != nil {
		return nil, err
	}
	asked := make([]input.Question, len(open))
	for i, q := range open {
		asked[i] = input.Question{Key: q.Key, Method: q.Method, Params: q.Params}
		_ = asked[i].Parse()
	}
	return asked, nil
}

// EncodeResult encodes the result of a call from the object that its type encodes to, and further members, each ending
// in a comma. A session's result has no resultType, so none is stored.
func EncodeResult(object []byte, members string) []byte {
	return slices.Concat([]byte("{"+members), object[1:])
}

// DecodeResult reads what [EncodeResult] wrote: the members of the result without braces, and its _meta apart from
// them, or nil if that is missing or empty.
func DecodeResult(outcome []byte) (members, meta []byte, err error) {
	if strictjson.TypeOf(outcome) != strictjson.TypeObject {
		return nil, nil, errors.New("the stored result is not a JSON object")
	}
	for name, value := range strictjson.Members(outcome) {
		switch string(name) {
		case "_meta":
			if strictjson.TypeOf(value) != strictjson.TypeObject {
				return nil, nil, errors.New("the _meta of the stored result is not an object")
			}
			if len(value) > len("{}") {
				meta = value
			}
		default:
			if len(members) > 0 {
				members = append(members, ',')
			}
			members = append(wire.AppendString(members, string(name)), ':')
			members = append(members, value...)
		}
	}
	return members, meta, nil
}

// EncodeFault encodes the error with which a call failed.
func EncodeFault(fault *jsonrpc.Error) []byte {
	return strictjson.Get(wire.AppendError(nil, nil, fault), "error")
}

// DecodeFault reads what [EncodeFault] wrote. If it cannot be read, the error is an internal one with the message of
// the task's row.
func DecodeFault(outcome []byte, message string) *jsonrpc.Error {
	fault := new(jsonrpc.Error)
	if err := json.Unmarshal(outcome, fault); err != nil || fault.Code == 0 {
		return wire.Errorf(jsonrpc.CodeInternalError, "%s", message)
	}
	return fault
}

// Cancellation is who cancelled a task in place of its client, and why. A task that its client cancelled has none.
type Cancellation struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// cancelled is the outcome of a cancelled task.
type cancelled struct {
	Cancelled *Cancellation `json:"cancelled"`
}

// EncodeCancellation encodes who cancelled a task.
func EncodeCancellation(c Cancellation) ([]byte, error) { return json.Marshal(cancelled{&c}) }

// DecodeCancellation reads what [EncodeCancellation] wrote, and reports whether there is such a thing.
func DecodeCancellation(outcome []byte) (Cancellation, bool) {
	var read cancelled
	if err := json.Unmarshal(outcome, &read); err != nil || read.Cancelled == nil {
		return Cancellation{}, false
	}
	return *read.Cancelled, true
}
