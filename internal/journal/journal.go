// Package journal is the interaction engine: it remembers what a call has learned so far, and lets a handler that
// runs again from the top find its answers and finished steps instead of asking and doing them twice.
//
// A [Journal] is what a call carries from one round to the next. A [Run] is one execution of the handler against it:
//
//	run := journal.Begin(j, responses, limits)
//	value, err := run.Ask(question)        // a recorded answer, or ErrInputRequired
//	value, err  = run.Step("pay", charge)  // a recorded result, or run and record
//	out, err := run.Finish(handlerErr)     // done, or what to ask the client
//
// The package is pure: no network, no clock, no randomness and no JSON. Where a journal lives between rounds (sealed
// in a requestState, in memory, in a database) is the caller's business.
//
// The law that everything rests on: however a call is cut into rounds, and whatever is lost or repeated in between,
// its result equals that of running the handler once with all answers at hand, and no step that a journal recorded
// runs again under that journal.
package journal

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/input"
)

// ErrInputRequired says that the call has to be suspended: a question is open or
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

// Journal is what a call must remember between rounds.
type Journal struct {
	ID      string    // the call's id, a secret: 128 random bits in text form
	Started time.Time // when the first round began, to the millisecond
	Round   int       // rounds that ended with input required
	Pending []Question
	Entries []Entry
	// Manual is the state of a handler that keeps its own, in the SDK's manual style.
	Manual string
	// Trace is what the operator's observer wants to find in every round. Empty means nothing.
	Trace string
	// PlainForms says that the client shows nothing but text, yes or no, and single choices.
	PlainForms bool

	// By is recorded with each answer that the journal receives. It is no part of what is kept between rounds.
	By []input.Provenance
}

// Derived returns an ID for one purpose, derived from the secret ID of a call. It reveals
// neither the secret ID nor the IDs for other purposes.
func Derived(purpose, id string) string {
	sum := sha256.Sum256([]byte("askback " + purpose + "\x00" + id))
	return base32.StdEncoding.EncodeToString(sum[:])[:26] // 130 bits
}

// Question is a question that the last response asked the client.
type Question struct {
	Key    string `json:"key"`  // the author's key
	Wire   string `json:"wire"` // the key on the wire
	Digest Digest `json:"digest"`
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
	// Checkpoint says that a checkpoint was passed.
	Checkpoint Kind = 'c'
	// Delivered says that the client has answered under the wire key in the entry's
	// Key, which is therefore never used again. Only tasks have such entries.
	Delivered Kind = 'd'
)

// Entry is one recorded fact.
type Entry struct {
	Kind   Kind
	Key    string
	Digest Digest // zero unless Kind is Answer or Unread
	Value  []byte
	// By says who gave the answer; empty if that was not recorded. It changes the version of the entry: see attributed.
	By []input.Provenance
}

// answer returns the index of the entry with the answer to a question, or -1.
func (j *Journal) answer(key string, d Digest) int {
	return slices.IndexFunc(j.Entries, func(e Entry) bool { return e.isAnswer() && e.Key == key && e.Digest == d })
}

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

// handedBack is the key of the checkpoint at which a server hands a call back by itself. Older releases treat it like
// any other checkpoint.
const handedBack = "(handed back)"

// HandBack ends a round in which no handler runs: the client's answers are recorded, and it only has to come back.
func (j *Journal) HandBack(responses map[string][]byte) {
	j.Receive(responses)
	j.Round++
	j.Entries = append(j.Entries, Entry{Kind: Checkpoint, Key: handedBack})
}

// MayHandBack reports whether another round may end without a question. Two rounds of a call may: clients of the Go SDK
// give up at the third of a call, and clients of mcp-go at the third in a row.
func (j *Journal) MayHandBack() bool { return j.checkpoints() < maxHandBacks }

// HandedBackTooOften reports whether more rounds have ended without a question than MayHandBack allows.
func (j *Journal) HandedBackTooOften() bool { return j.checkpoints() > maxHandBacks }

const maxHandBacks = 2

func (j *Journal) checkpoints() (n int) {
	for i := range j.Entries {
		if j.Entries[i].Kind == Checkpoint {
			n++
		}
	}
	return n
}

// unfit begins the keys of entries that record an answer that did not fit. Their kind is Delivered, so that older
// releases can read them.
const unfit = "(unfit) "

// Refuse records that an answer does not fit its question, and returns the entry. The rule is the same in every home: a
// question is asked again, unless nobody can correct its answer, or the same answer came twice in a row.
func (j *Journal) Refuse(key string, d Digest, raw []byte, correctable bool, reason error) (Refusal, Entry) {
	sum := sha256.Sum256(append(d[:], raw...))
	prefix := unfit + key + " "
	e := Entry{Kind: Delivered, Key: prefix + hex.EncodeToString(sum[:8])}
	r := Refusal{Key: key, Reason: reason, Final: !correctable}
	for _, before := range slices.Backward(j.Entries) {
		if before.Kind == Delivered && strings.HasPrefix(before.Key, prefix) && len(before.Key) == len(e.Key) {
			r.Final = r.Final || before.Key == e.Key
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

func (e *Entry) isAnswer() bool { return e.Kind == Answer || e.Kind == Unread }

// WireKey returns the key under which to send a question: the author's key, or a fresh one if that was used before.
func (j *Journal) WireKey(key string) string {
	wire := key
	used := func(q Question) bool { return q.Wire == wire }
	for n := 2; j.find(Delivered, wire) != nil || slices.ContainsFunc(j.Pending, used); n++ {
		wire = fmt.Sprintf("%s#%d", key, n)
	}
	return wire
}

func (j *Journal) find(kind Kind, key string) *Entry {
	for i := range j.Entries {
		if e := &j.Entries[i]; e.Kind == kind && e.Key == key {
			return e
		}
	}
	return nil
}
