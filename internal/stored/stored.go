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
// Instances of several releases share a store, so each function that decodes reads what every release has written, and
// refuses what it does not know.
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

// Call is the call that a task begins with. The store has it as an object with the members call, trace, can, more and
// params.
type Call struct {
	ID    string // the call's secret ID
	Trace string // the journal's; empty if there is none, and then its member is missing
	// Can is stored in the member can, which has 8 bits in every release. The rest is in the member more, if there is any.
	Can wire.Capability
	// PlainForms is the journal's. It is stored as a bit of the member can that no capability has.
	PlainForms bool
	Params     []byte // the parameters of the request, an object: name, arguments and _meta; any of them may be missing
}

const (
	canBits    = 8
	plainForms = 1 << 6
)

// Append appends the stored form of c to dst. Of c.Params, which must be checked JSON, it leaves out all members that
// do not belong there.
func (c *Call) Append(dst []byte) []byte {
	dst = wire.AppendString(append(dst, `{"call":`...), c.ID)
	if c.Trace != "" {
		dst = wire.AppendString(append(dst, `,"trace":`...), c.Trace)
	}
	can := uint64(c.Can) & (1<<canBits - 1) &^ plainForms
	if c.PlainForms {
		can |= plainForms
	}
	dst = strconv.AppendUint(append(dst, `,"can":`...), can, 10)
	if more := uint64(c.Can) >> canBits; more != 0 {
		dst = strconv.AppendUint(append(dst, `,"more":`...), more, 10)
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

// DecodeCall reads what [Call.Append] wrote. Params aliases data.
func DecodeCall(data []byte) (Call, error) {
	if err := strictjson.Check(data, strictjson.MaxDepth); err != nil {
		return Call{}, fmt.Errorf("the stored call: %w", err)
	}
	id, hasID := strictjson.String(strictjson.Get(data, "call"))
	can, err := strconv.ParseUint(string(strictjson.Get(data, "can")), 10, canBits)
	more, moreErr := uint64(0), error(nil)
	if member := strictjson.Get(data, "more"); member != nil {
		more, moreErr = strconv.ParseUint(string(member), 10, 32-canBits)
	}
	params := strictjson.Get(data, "params")
	if !hasID || err != nil || moreErr != nil || strictjson.TypeOf(params) != strictjson.TypeObject {
		return Call{}, errors.New("the stored call is not laid out as this program stores calls: " +
			"a newer one may have stored it")
	}
	trace, _ := strictjson.String(strictjson.Get(data, "trace"))
	return Call{
		ID: id, Trace: trace, Params: params,
		Can: wire.Capability(can&^plainForms | more<<canBits), PlainForms: can&plainForms != 0,
	}, nil
}

// methodAtDesk is the method of the tasks of a server with a desk, whose journals a release that knows no desk cannot
// read. Such a release leaves tasks of methods that MCP does not have alone, without spending attempts on them.
const methodAtDesk = "tools/call at a desk"

// TaskMethod returns the method under which the task of a call is stored.
func TaskMethod(method string, desk bool) string {
	if desk && method == wire.CallTool {
		return methodAtDesk
	}
	return method
}

// AtDesk reports whether a task with this method is of a server with a desk.
func AtDesk(stored string) bool { return stored == methodAtDesk }

// CallMethod returns the method of the call of a stored task.
func CallMethod(stored string) string {
	if AtDesk(stored) {
		return wire.CallTool
	}
	return stored
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
	// Asked is when the client was first asked, in milliseconds since 1970. Zero means that nobody knows.
	Asked int64 `json:"asked,omitempty"`
}

// AskedAt returns when the client was first asked, or the zero time.
func (q *Question) AskedAt() time.Time {
	if q.Asked == 0 {
		return time.Time{}
	}
	return time.UnixMilli(q.Asked)
}

// SetAsked says when the client was first asked; the zero time is now.
func (q *Question) SetAsked(at time.Time) {
	if at.IsZero() {
		at = time.Now()
	}
	q.Asked = at.UnixMilli()
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
// them, or nil if that is missing or empty. It leaves out a resultType that another release has stored.
func DecodeResult(outcome []byte) (members, meta []byte, err error) {
	if strictjson.TypeOf(outcome) != strictjson.TypeObject {
		return nil, nil, errors.New("the stored result is not a JSON object")
	}
	for name, value := range strictjson.Members(outcome) {
		switch string(name) {
		case "resultType":
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

// EncodeCancellation encodes who cancelled a task. A release before desks keeps these bytes and never shows them: it
// reads the outcome of completed and failed tasks only.
func EncodeCancellation(c Cancellation) ([]byte, error) { return json.Marshal(cancelled{&c}) }

// DecodeCancellation reads what [EncodeCancellation] wrote, and reports whether there is such a thing.
func DecodeCancellation(outcome []byte) (Cancellation, bool) {
	var read cancelled
	if err := json.Unmarshal(outcome, &read); err != nil || read.Cancelled == nil {
		return Cancellation{}, false
	}
	return *read.Cancelled, true
}
