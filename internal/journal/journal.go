// Package journal is the interaction engine: it remembers what a call has learned so far, and lets a handler that
// runs again from the top find its answers and finished steps instead of asking and doing them twice.
//
// A [Journal] goes with a call from one round to the next. A [Run] is one execution of the handler against it:
//
//	run := journal.Begin(j, responses, limits)
//	value, err := run.Ask(question)        // a recorded answer, or ErrInputRequired
//	value, err  = run.Step("pay", charge)  // a recorded result, or run and record
//	out, err := run.Finish(handlerErr)     // done, or what to ask the client
//
// The package is pure: no network, no clock, no randomness and no JSON. Where a journal lives between rounds (sealed
// in a requestState, in memory, in a database) is the caller's business.
//
// The law that everything rests on: for every way to cut a call into rounds, and for every loss or repetition in
// between, its result equals the result of running the handler once with all answers at hand, and no step that a
// journal recorded runs again under that journal.
package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askback-mcp/askback/input"
)

// ErrInputRequired reports that the call has to be suspended: a question is open or
// a checkpoint was reached. The handler returns it.
var ErrInputRequired = errors.New("input required: return this error to suspend the call")

// Digest identifies a question by its content, where the key may stay the same.
type Digest [16]byte

// String returns the digest in hexadecimal. It is empty for a question without one, which a handler in the SDK's manual
// style asks.
func (d Digest) String() string {
	if d == (Digest{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}

// MarshalText makes the JSON of a digest its String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Journal holds everything that a call must remember between rounds.
type Journal struct {
	ID      string    // the call's id, a secret: 128 random bits in text form
	Started time.Time // when the first round began, to the millisecond
	Round   int       // rounds that ended with input required
	Pending []Question
	Entries []Entry
	// Manual is the state of a handler that keeps its own, in the SDK's manual style.
	Manual string
	// Trace is the trace context that the operator's observer gets in every round. Empty means none.
	Trace string
	// PlainForms is set if the client shows only text, yes or no, and single choices.
	PlainForms bool
	// Moved is set if the call has become a task. The journal then belongs to the client, which follows the task.
	Moved bool

	// By is recorded with each answer that the journal receives. It is not kept between rounds.
	By []input.Provenance
	// Apart holds the questions of the last run that its client is not asked. They are not kept between rounds either.
	Apart []Question
	// Asleep is set if sleeps alone suspended the last run. A home that parks the call keeps that as [Slept].
	Asleep bool
}

// Follow returns the journal of a client that from now on follows the task which its call has become.
func (j *Journal) Follow(now time.Time) *Journal {
	return &Journal{
		ID: j.ID, Started: time.UnixMilli(now.UnixMilli()), Round: j.Round, Trace: j.Trace, PlainForms: j.PlainForms,
		Moved: true,
	}
}

// Derived returns an ID for one purpose, derived from the secret ID of a call. It does not reveal the secret ID or the
// IDs for other purposes.
func Derived(purpose, id string) string {
	sum := sha256.Sum256([]byte("askback " + purpose + "\x00" + id))
	return base32.StdEncoding.EncodeToString(sum[:])[:26] // 130 bits
}

// Question is a question that the last response asked the client.
type Question struct {
	Key    string `json:"key"`  // the author's key
	Wire   string `json:"wire"` // the key on the wire
	Digest Digest `json:"digest"`
	// Asked is when the question was put, and Deadline when its wait ends; zero means that there is no deadline. A journal
	// that is carried has the two only of questions with a deadline.
	Asked, Deadline time.Time `json:"-"`
	// Within is the time from Asked to Deadline. It is zero in a journal that was kept.
	Within time.Duration `json:"-"`
	// Apart is set if the client is not asked.
	Apart bool `json:"-"`
	// Known is set if an earlier run has put the question in its home, under the key Row.
	Known bool   `json:"-"`
	Row   string `json:"-"`
}

// Kind tells what an [Entry] records.
type Kind byte

const (
	// Answer is a client's answer, checked against its question.
	Answer Kind = 'a'
	// Unread is a client's answer that no run has asked for yet: it is checked
	// when a handler asks (a rolling upgrade may ask on another instance).
	Unread Kind = 'u'
	// Step is the result of a finished step.
	Step Kind = 's'
	// Begun records that a step of [Run.StepOnce] begins. Its Value has the time and the process.
	Begun Kind = 'b'
	// Failed records that a step of [Run.StepOnce] returned an error. Its Value has whether it did not happen, and the
	// error.
	Failed Kind = 'f'
	// Checkpoint records that a checkpoint was passed.
	Checkpoint Kind = 'c'
	// Delivered records that the wire key in the entry's Key is never used again: the client has answered under it, or its
	// question was withdrawn.
	Delivered Kind = 'd'
	// Unanswered records that the deadline of a question has passed. Its Value has the times: see [Journal.Expire].
	Unanswered Kind = 'x'
	// HandedBack records that a server has handed the call back by itself. It has no key.
	HandedBack Kind = 'h'
	// Refused records that an answer did not fit its question. Its Value is a digest of the answer, so that the same
	// wrong answer is known the second time without storing what somebody wrote.
	Refused Kind = 'r'
	// NotShown records that the client has shown the question to nobody.
	NotShown Kind = 'n'
	// Put records that the question was put in its home, apart from the client's. Its Value is the question's key there,
	// which is a wire key that no other question gets.
	Put Kind = 'p'
	// Timed is Put for a question to the client with a deadline.
	Timed Kind = 't'
	// Slept records that sleeps alone ended a round. It has no key.
	Slept Kind = 'z'
)

// has lists the fields that the entries of a kind have beside their key.
type has struct{ digest, value, by bool }

func (k Kind) fields() (h has, known bool) {
	switch k {
	case Answer, Unread:
		return has{digest: true, value: true, by: true}, true
	case Unanswered, Refused, Put, Timed:
		return has{digest: true, value: true}, true
	case NotShown:
		return has{digest: true}, true
	case Step, Begun, Failed:
		return has{value: true}, true
	case Checkpoint, HandedBack, Delivered, Slept:
		return has{}, true
	}
	return has{}, false
}

// Entry is one recorded fact.
type Entry struct {
	Kind   Kind
	Key    string
	Digest Digest // of the question, if the entry is about one
	Value  []byte
	By     []input.Provenance // who gave the answer; empty if that was not recorded
	// Receipt is a signed statement of how people decided, with an Answer that they gave. Nil means none.
	Receipt []byte
}

// answer returns the index of the entry with the answer to a question, or -1.
func (j *Journal) answer(key string, d Digest) int {
	return slices.IndexFunc(j.Entries, func(e Entry) bool { return e.isAnswer() && e.Key == key && e.Digest == d })
}

// lastAnswer returns the last answer under a key that a run has read, or nil.
func (j *Journal) lastAnswer(key string) *Entry {
	for i := len(j.Entries) - 1; i >= 0; i-- {
		if e := &j.Entries[i]; e.Kind == Answer && e.Key == key {
			return e
		}
	}
	return nil
}

// Settled reports whether a question is answered, or its deadline has passed.
func (j *Journal) Settled(q *Question) bool { return j.answer(q.Key, q.Digest) >= 0 }

// receive records a client's answer, unless there is one.
func (j *Journal) receive(key string, d Digest, raw []byte) {
	if j.answer(key, d) < 0 {
		j.Entries = append(j.Entries, Entry{Kind: Unread, Key: key, Digest: d, Value: raw, By: j.By})
	}
}

// Receive records the client's answers, by wire key, to questions that are pending. They are pending no more.
func (j *Journal) Receive(responses map[string][]byte) {
	j.receiveAll(responses)
	j.Pending = slices.DeleteFunc(j.Pending, func(q Question) bool { return responses[q.Wire] != nil })
}

// HandBack ends a round in which no handler runs: the client's answers are recorded, and it only has to come back.
func (j *Journal) HandBack(responses map[string][]byte) {
	j.Receive(responses)
	j.Round++
	j.Entries = append(j.Entries, Entry{Kind: HandedBack})
}

// MayHandBack reports whether another round may end without a question. Two rounds of a call may: clients of the Go SDK
// give up at the third of a call, and clients of mcp-go at the third in a row.
func (j *Journal) MayHandBack() bool { return j.checkpoints() < maxHandBacks }

// HandedBackTooOften reports whether more rounds have ended without a question than MayHandBack allows.
func (j *Journal) HandedBackTooOften() bool { return j.checkpoints() > maxHandBacks }

const maxHandBacks = 2

func (j *Journal) checkpoints() (n int) {
	for i := range j.Entries {
		if kind := j.Entries[i].Kind; kind == Checkpoint || kind == HandedBack {
			n++
		}
	}
	return n
}

// Counted returns how many rounds count against the limit: all but those that sleeps alone ended. Nobody is asked in
// these, and a watch may sleep as often as it likes.
func (j *Journal) Counted() int {
	n := j.Round
	for i := range j.Entries {
		if j.Entries[i].Kind == Slept {
			n--
		}
	}
	return n
}

// Refuse records that an answer does not fit its question, and returns the entry. The rule is the same in every home: a
// question is asked again, unless nobody can correct its answer, or the same answer came twice in a row.
func (j *Journal) Refuse(key string, d Digest, raw []byte, correctable bool, reason error) (Refusal, Entry) {
	sum := sha256.Sum256(raw)
	e := Entry{Kind: Refused, Key: key, Digest: d, Value: sum[:8:8]}
	r := Refusal{Key: key, Reason: reason, Final: !correctable}
	for _, before := range slices.Backward(j.Entries) {
		if before.Kind == Refused && before.Key == key {
			r.Final = r.Final || before.Digest == d && bytes.Equal(before.Value, e.Value)
			break
		}
	}
	j.Entries = append(j.Entries, e)
	return r, e
}

func (j *Journal) receiveAll(responses map[string][]byte) {
	for _, q := range j.Pending {
		if raw, ok := responses[q.Wire]; ok {
			j.receive(q.Key, q.Digest, raw)
		}
	}
}

// IsManual reports whether the handler of the call keeps its own state, in the SDK's manual style: its questions have
// no digests.
func (j *Journal) IsManual() bool {
	return j.Manual != "" || slices.ContainsFunc(j.Pending, func(q Question) bool { return q.Digest == Digest{} })
}

// isAnswer reports whether the entry settles a question.
func (e *Entry) isAnswer() bool { return e.Kind == Answer || e.Kind == Unread || e.Kind == Unanswered }

// Expire records of each pending question whose deadline is not after now that nobody has answered it, and returns
// these questions. They are pending no more. The questions with an answer in the responses, by wire key, were answered
// in time.
func (j *Journal) Expire(now time.Time, inTime map[string][]byte) (expired []Question) {
	j.Pending = slices.DeleteFunc(j.Pending, func(q Question) bool {
		late := !q.Deadline.IsZero() && !now.Before(q.Deadline) && inTime[q.Wire] == nil
		if late {
			expired = append(expired, q)
			j.Entries = append(j.Entries, q.Unanswered())
		}
		return late
	})
	return expired
}

// Unanswered returns the entry that records that the deadline of q has passed.
func (q *Question) Unanswered() Entry {
	times := binary.AppendUvarint(nil, uint64(q.Asked.UnixMilli()))
	times = binary.AppendUvarint(times, uint64(q.Deadline.UnixMilli()))
	return Entry{Kind: Unanswered, Key: q.Key, Digest: q.Digest, Value: times}
}

// ErrRecorded is wrapped by errors that are in the journal: every run gets them.
var ErrRecorded = errors.New("the journal has it")

// UnansweredError reports that a question was not decided before its deadline.
type UnansweredError struct {
	Key             string
	Asked, Deadline time.Time
}

func (e *UnansweredError) Error() string {
	return fmt.Sprintf("the question %q was not decided within %v, until %s", e.Key,
		e.Deadline.Sub(e.Asked).Round(time.Second), e.Deadline.UTC().Format(time.RFC3339))
}

// Unwrap returns [ErrRecorded].
func (e *UnansweredError) Unwrap() error { return ErrRecorded }

// unanswered returns the error that an entry of this kind records.
func (e *Entry) unanswered() *UnansweredError {
	d := decoder{data: e.Value}
	return &UnansweredError{e.Key, time.UnixMilli(int64(d.uvarint())), time.UnixMilli(int64(d.uvarint()))}
}

// Start sets the times of the pending questions that have a deadline and are put now.
func (j *Journal) Start(now time.Time) {
	for i := range j.Pending {
		if q := &j.Pending[i]; q.Within > 0 && q.Deadline.IsZero() {
			q.Asked = now.Truncate(time.Millisecond)
			q.Deadline = q.Asked.Add(q.Within)
		}
	}
}

// Put returns the entry that records that a question was put in its home, under the key Row.
func (q *Question) Put() Entry {
	return Entry{Kind: placed(q.Apart), Key: q.Key, Digest: q.Digest, Value: []byte(q.Row)}
}

func placed(apart bool) Kind {
	if apart {
		return Put
	}
	return Timed
}

// row returns the key under which a question was put in its home, if it was.
func (j *Journal) row(key string, d Digest, apart bool) (row string, known bool) {
	kind := placed(apart)
	for i := range j.Entries {
		if e := &j.Entries[i]; e.Kind == kind && e.Key == key && e.Digest == d {
			return string(e.Value), true
		}
	}
	return "", false
}

// reserved reports whether a wire key names a question that was put in its home.
func (j *Journal) reserved(wire string) bool {
	return slices.ContainsFunc(j.Entries, func(e Entry) bool {
		return (e.Kind == Put || e.Kind == Timed) && string(e.Value) == wire
	})
}

// WireKey returns the key under which to send a question: the author's key, or a fresh one if that was used before. The
// keys of other questions are used, too.
func (j *Journal) WireKey(key string, other ...Question) string {
	wire := key
	used := func(q Question) bool { return q.Wire == wire }
	for n := 2; j.find(Delivered, wire) != nil || j.reserved(wire) || slices.ContainsFunc(j.Pending, used) ||
		slices.ContainsFunc(j.Apart, used) || slices.ContainsFunc(other, used); n++ {
		wire = fmt.Sprintf("%s#%d", key, n)
	}
	return wire
}

func (j *Journal) find(kind Kind, key string) *Entry {
	if i := j.index(kind, key); i >= 0 {
		return &j.Entries[i]
	}
	return nil
}

// index returns the index of that entry, or -1.
func (j *Journal) index(kind Kind, key string) int {
	return slices.IndexFunc(j.Entries, func(e Entry) bool { return e.Kind == kind && e.Key == key })
}
