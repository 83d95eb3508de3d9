package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/internal/bound"
)

// asked is what tells one question of a call from another.
type asked struct {
	key    string
	digest Digest
}

// kept is the home of a journal in a store, with the rows of the questions that were put there.
type kept struct {
	entries []Entry
	pending []Question
	rows    map[string]*keptRow
	names   map[string]asked // what each wire key has named
}

type keptRow struct {
	asked
	apart, decided bool
}

// run runs a handler that asks these questions, as its release words them, and keeps what comes of it. If the task is
// not parked, because it was changed meanwhile, that is only what was recorded.
func (k *kept) run(asks []Ask, parks bool) (ended bool, err error) {
	j := &Journal{ID: "call", Entries: slices.Clone(k.entries), Pending: slices.Clone(k.pending)}
	r := Begin(j, nil, new(bound.Limits))
	r.Numbered = true
	var wrong error
	r.Decided = func(key, row string, d Digest) (*Entry, error) {
		q := k.rows[row]
		if q == nil || !q.decided {
			return nil, nil
		}
		if q.asked != (asked{key, d}) {
			wrong = fmt.Errorf("the decision of %v is taken for %q with the digest %v", q.asked, key, d)
		}
		return &Entry{Kind: Answer, Key: key, Digest: d, Value: []byte("decided")}, nil
	}
	var open error
	for _, a := range asks {
		if _, err := r.Ask(a); err != nil {
			open = errors.Join(open, err)
		}
	}
	if open != nil && !errors.Is(open, ErrInputRequired) {
		return false, open
	}
	_, suspended, err := r.Finish(open)
	if err != nil || wrong != nil {
		return false, errors.Join(err, wrong)
	}
	if k.entries = j.Entries; !suspended || !parks {
		return !suspended, nil
	}
	k.pending = nil
	for _, q := range slices.Concat(j.Pending, j.Apart) {
		if before, named := k.names[q.Wire]; named && before != (asked{q.Key, q.Digest}) {
			return false, fmt.Errorf("the wire key %q named %v, and names %q with the digest %v", q.Wire, before, q.Key,
				q.Digest)
		}
		k.names[q.Wire] = asked{q.Key, q.Digest}
		if !q.Apart {
			k.pending = append(k.pending, Question{Key: q.Key, Wire: q.Wire, Digest: q.Digest, Row: q.Row})
		}
		if !q.Apart && q.Within == 0 {
			continue
		}
		row := k.rows[q.Row]
		if row != nil && (row.asked != (asked{q.Key, q.Digest}) || row.apart != q.Apart) {
			return false, fmt.Errorf("the row %q is of %v, and was to be of %q with the digest %v", q.Row, row.asked, q.Key,
				q.Digest)
		}
		if row == nil {
			k.rows[q.Row] = &keptRow{asked: asked{q.Key, q.Digest}, apart: q.Apart}
		}
		if !q.Known {
			k.entries = append(k.entries, q.Put())
		}
	}
	return false, nil
}

// answered records what a client says to a pending question. An answer that does not fit makes the question pending
// again under another wire key.
func (k *kept) answered(i int, fits bool) {
	q := k.pending[i]
	k.pending = slices.Delete(k.pending, i, i+1)
	e := Entry{Kind: Unread, Key: q.Key, Digest: q.Digest, Value: []byte("answered")}
	if q.Within = 0; !fits {
		j := &Journal{Entries: k.entries}
		_, e = j.Refuse(q.Key, q.Digest, fmt.Append(nil, len(k.entries)), true, errors.New("unfit"))
	}
	k.entries = append(slices.Clip(k.entries), e, Entry{Kind: Delivered, Key: q.Wire})
	if !fits {
		j := &Journal{Entries: k.entries, Pending: k.pending}
		q.Wire = j.WireKey(q.Key)
		k.names[q.Wire] = asked{q.Key, q.Digest}
		k.pending = append(slices.Clip(k.pending), q)
	}
}

// Whatever is answered, decided, refused and reworded in between, also before anybody has answered: no wire key names
// two questions of a call, and no decision is taken for another question's. Keys of an author may look like wire keys.
func TestNoKeyNamesTwoQuestions(t *testing.T) {
	keys := []string{"a", "a#2", "a#3", "a#2#2", "b"}
	rapid.Check(t, func(t *rapid.T) {
		k := &kept{rows: make(map[string]*keptRow), names: make(map[string]asked)}
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			var asks []Ask
			for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 1, 4, rapid.ID).Draw(t, "keys") {
				a := Ask{Key: key, Digest: Digest{rapid.ByteRange(1, 3).Draw(t, "wording")}}
				a.Accept = func(raw []byte) ([]byte, error) { return raw, nil }
				switch rapid.IntRange(0, 3).Draw(t, "kind") {
				case 0:
					a.Apart = true
				case 1:
					a.Within = 1
				case 2:
					a.Within, a.Fallback = 1, true
					a.Accept = func(raw []byte) ([]byte, error) {
						if string(raw) == "answered" {
							return nil, ErrNotShown
						}
						return raw, nil
					}
				}
				a.Digest[1] = byte(a.Within) // who may answer is a part of it, and the deadline only here
				a.Digest[2] = map[bool]byte{true: 1}[a.Apart]
				asks = append(asks, a)
			}
			if ended, err := k.run(asks, rapid.IntRange(0, 4).Draw(t, "parks") > 0); err != nil {
				t.Fatal(err)
			} else if ended {
				return
			}
			for i := len(k.pending) - 1; i >= 0; i-- {
				if what := rapid.IntRange(0, 3).Draw(t, "client"); what < 2 {
					k.answered(i, what == 0)
				}
			}
			for _, row := range slices.Sorted(maps.Keys(k.rows)) {
				k.rows[row].decided = k.rows[row].decided || rapid.IntRange(0, 3).Draw(t, "decided") == 0
			}
		}
	})
}

// A decision is copied when its question is asked again. A handler that then asks something new has not strayed.
func TestACopiedDecisionHasBeenAskedFor(t *testing.T) {
	accept := func(raw []byte) ([]byte, error) { return raw, nil }
	approve := Ask{Key: "approve", Apart: true, Accept: accept}
	escalate := Ask{Key: "escalate", Apart: true, Accept: accept}
	j := &Journal{ID: "call"}
	r := Begin(j, nil, new(bound.Limits))
	_, open := r.Ask(approve)
	if _, suspended, err := r.Finish(open); !suspended || err != nil {
		t.Fatalf("suspended: %v, %v", suspended, err)
	}
	j.Entries = append(j.Entries, j.Apart[0].Put())

	r = Begin(j, nil, new(bound.Limits))
	r.Decided = func(key, _ string, d Digest) (*Entry, error) {
		e := (&Question{Key: key, Digest: d}).Unanswered()
		return &e, nil
	}
	_, err := r.Ask(approve)
	if _, late := errors.AsType[*UnansweredError](err); !late {
		t.Fatalf("got %v, want that nobody has answered", err)
	}
	r.Decided = nil
	_, open = r.Ask(escalate)
	if _, suspended, err := r.Finish(open); !suspended || err != nil {
		t.Fatalf("suspended: %v, %v", suspended, err)
	}
	if strayed := r.Strayed(); strayed != nil {
		t.Errorf("the handler has not asked for %q", strayed)
	}
}

// That the key of a withdrawn question is used up is made durable, as its entry in the journal is.
func TestAWithdrawnKeyIsCommitted(t *testing.T) {
	j := &Journal{Pending: []Question{{Key: "a", Wire: "a", Digest: question("a", "?").Digest}}}
	run := Begin(j, nil, new(bound.Limits))
	var marks []Entry
	run.Commit = func(_ context.Context, e *Entry) error { marks = append(marks, *e); return nil }
	_, err := run.Ask(question("b", "?"))
	if _, suspended, err := run.Finish(err); err != nil || !suspended {
		t.Fatal(suspended, err)
	}
	if err := run.CommitRefused(t.Context()); err != nil || len(marks) != 1 || marks[0].Kind != Delivered ||
		marks[0].Key != "a" {
		t.Errorf("committed %v, %v", marks, err)
	}
}
