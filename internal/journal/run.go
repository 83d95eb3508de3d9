package journal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/turn"
)

// Ask is a question as the engine sees it.
type Ask struct {
	Key    string
	Digest Digest
	// Accept checks a client's raw answer and returns what to record. It is pure, and its error repeats nothing of the
	// answer.
	Accept func(raw []byte) ([]byte, error)
	// Correctable is set if somebody can correct an answer that Accept refuses. The question is then asked again.
	Correctable bool
	// Within is the time for which the question waits for an answer. Zero means as long as the call lives.
	Within time.Duration
	// Apart is set if the client is not asked: the question waits for others, or only for its deadline.
	Apart bool
	// Sleep is set if nobody is asked: the question waits only for its deadline.
	Sleep bool
	// Fallback makes the question Apart once its client has not shown it: see [ErrNotShown].
	Fallback bool
	// Unable, if set, is the reason why the question cannot be sent. [Run.Ask] returns it instead of asking.
	Unable error
	// Request is handed back by [Run.Finish]; the engine does not look at it.
	Request any
}

// Screen looks at the answers to questions, whose [Ask.Request] it gets. Accepted is nil for an answer that does not
// fit. It is pure, as [Ask.Accept] is.
type Screen interface {
	Screen(request any, raw, accepted []byte) ([]byte, error)
}

// Run is one execution of a handler against a journal. Its methods may be called
// from several goroutines of that handler.
type Run struct {
	// Commit, if set before the run is used, makes each entry durable as it is recorded. If
	// it fails, the entry is not recorded, and its error is returned.
	Commit func(ctx context.Context, e *Entry) error
	// Live, if set before the run is used, returns the reason why the run may do nothing more. It is asked before each
	// step, and by the Err of a step's context.
	Live func() error
	// Outlive, if set before the run is used, returns the context of a step of [Run.StepOnce], which is not cut off where
	// it can be helped.
	Outlive func(context.Context) (_ context.Context, done func())
	// Halt, if set before the run is used, is the error for everything that is not recorded
	// yet: the run goes as far as an earlier one came, and no further.
	Halt error
	// Numbered, if set before the run is used, means that the journal has the wire key of every answer. A number then
	// tells the wire keys of questions under one key apart, and otherwise their digest.
	Numbered bool
	// Decided, if set before the run is used, returns the entry that settles a question which an earlier run has put
	// apart from the client's, under the key row, or nil. It is committed like any other. After an error the run is
	// void.
	Decided func(key, row string, d Digest) (*Entry, error)
	// Screen, if set before the run is used, sees each answer once Accept has taken it, and returns what to record.
	Screen Screen

	limits *bound.Limits

	mu      turn.Lock // also while Commit and Decided are called
	journal *Journal
	before  []Question        // those pending when the run began
	next    int               // the entry that is probably asked for next
	read    []bool            // which entries are answers that were asked for, or checkpoints that were reached
	reads   [64]bool          // the first of read
	bare    map[string][]byte // answers of a retry without a state
	asked   []Ask
	refused []Refusal
	marks   []Entry // record the refused answers
	parked  bool    // a checkpoint was reached
	broken  error   // the failure of Commit, after which nothing is recorded
	over    bool    // the handler has returned
	detach  bool    // the call becomes a task at its checkpoint
	steps   map[string]bool
	by      map[string][]input.Provenance // who gave the answers that the run has read, by key, unless it is the last
	active  int                           // steps that run now
	stepped bool                          // a step has begun

	running sync.WaitGroup // of the steps
}

// Begin starts a run on j, which the run extends. Responses are the client's answers by wire key. Those to questions
// that are pending in j are recorded, and all others ignored. A limit of zero means no limit.
func Begin(j *Journal, responses map[string][]byte, limits *bound.Limits) *Run {
	r := new(Run)
	r.Begin(j, responses, limits)
	return r
}

// Begin is the function of this name, for a zero Run that is a part of something else.
func (r *Run) Begin(j *Journal, responses map[string][]byte, limits *bound.Limits) {
	j.receiveAll(responses)
	r.journal, r.before, r.limits = j, j.Pending, limits
	r.read = r.reads[:0]
	j.Pending = nil
}

// BeginBare starts the run of a retry that carries answers but no state, the form in which a first round needs none:
// any question of this run takes the answer under its key. A question apart from the client's never takes one, and a
// question with a deadline needs the state that has the deadline.
func (r *Run) BeginBare(j *Journal, responses map[string][]byte, limits *bound.Limits) {
	r.Begin(j, nil, limits)
	r.bare = maps.Clone(responses)
}

// errOver is the error for goroutines that a handler left running when it returned. By then
// the journal may already be on its way to the client.
var errOver error = fault.Mistakef("the handler has returned: let it wait for what it starts")

// ErrInStep is the error for a question inside a step. The step does not run again once it
// is recorded: the question would be asked in some runs and not in others.
var ErrInStep error = fault.Mistakef("a step cannot ask: ask before it, outside of the function that Do gets")

var stepFrame = FrameOf((*Run).step)

// Ask returns the recorded answer to a, as Accept returned it. Without one the
// question joins this round and the error is [ErrInputRequired]. A recorded answer
// that Accept refuses is forgotten, and the question asked again. A step cannot ask, and a run asks a question once.
func (r *Run) Ask(a Ask) ([]byte, error) {
	if a.Key == "" {
		return nil, fault.Mistakef("a question needs a key: the empty string is not one")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, errOver
	}
	if r.active > 0 && stepFrame.OnStack() {
		return nil, ErrInStep
	}
	if a.Fallback && r.journal.notShown(a.Key, a.Digest) {
		a.Apart, a.Unable = true, nil
	}
	if raw, ok := r.bare[a.Key]; ok && !a.Apart && a.Within == 0 {
		delete(r.bare, a.Key)
		r.journal.receive(a.Key, a.Digest, raw)
	}
	answers := func(e *Entry) bool { return e.isAnswer() && e.Key == a.Key && e.Digest == a.Digest }
	for i := r.recorded(answers); i >= 0; i = r.recorded(answers) {
		if r.accept(&a, i) {
			if !r.markRead(i) {
				return nil, askedTwice(a.Key)
			}
			return r.settle(&r.journal.Entries[i])
		}
	}
	if r.Halt != nil {
		return nil, r.Halt
	}
	if e, err := r.decided(&a); e != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return r.settle(e)
	}
	if a.Unable != nil {
		return nil, a.Unable
	}
	if i := slices.IndexFunc(r.asked, func(b Ask) bool { return b.Key == a.Key }); i >= 0 {
		if r.asked[i].Digest != a.Digest {
			return nil, fault.Mistakef("two different questions with the key %q are open at once: give each its own key",
				a.Key)
		}
		return nil, askedTwice(a.Key)
	}
	if r.limits.Questions > 0 && len(r.asked) == r.limits.Questions {
		return nil, &fault.LimitError{Limit: "questions per round", Max: int64(r.limits.Questions)}
	}
	r.asked = append(r.asked, a)
	if i := slices.IndexFunc(r.journal.Entries, func(e Entry) bool { return e.isAnswer() && e.Key == a.Key }); i >= 0 {
		r.refused = append(r.refused, Refusal{Key: a.Key, Reason: ErrReworded})
	}
	return nil, ErrInputRequired
}

// ErrAskedTwice reports that a run has asked a question before: one answer would silently stand for two.
var ErrAskedTwice = errors.New("is asked twice in one run")

func askedTwice(key string) error {
	return fault.Mistakef("the question %q %w: give each question its own key, such as fmt.Sprintf(%q, i), "+
		"and keep an answer that is used again in a variable", key, ErrAskedTwice, key+" %d")
}

// markRead notes that the run has come by entry i. It returns false if the run has done so before.
func (r *Run) markRead(i int) bool {
	for len(r.read) <= i {
		r.read = append(r.read, false)
	}
	first := !r.read[i]
	r.read[i] = true
	return first
}

// accept reports whether the answer in entry i counts. One that does not is forgotten, so that its question is asked
// again.
func (r *Run) accept(a *Ask, i int) bool {
	e := &r.journal.Entries[i]
	if e.Kind != Unread {
		return true
	}
	value, err := a.Accept(e.Value)
	if r.Screen != nil {
		if err != nil {
			value = nil
		}
		screened, unshown := r.Screen.Screen(a.Request, e.Value, value)
		if value = screened; unshown != nil {
			err = unshown
		}
	}
	if err == nil {
		e.Kind, e.Value = Answer, value
		return true
	}
	raw := e.Value
	r.journal.Entries = slices.Delete(r.journal.Entries, i, i+1)
	if i < len(r.read) {
		r.read = slices.Delete(r.read, i, i+1)
	}
	if errors.Is(err, ErrNotShown) {
		if !r.journal.notShown(a.Key, a.Digest) { // else an earlier run has found it
			mark := Entry{Kind: NotShown, Key: a.Key, Digest: a.Digest}
			r.journal.Entries, r.marks = append(r.journal.Entries, mark), append(r.marks, mark)
		}
		a.Apart, a.Unable = true, nil
		return false
	}
	refusal, mark := r.journal.Refuse(a.Key, a.Digest, raw, a.Correctable, err)
	r.refused, r.marks = append(r.refused, refusal), append(r.marks, mark)
	return false
}

// ErrNotShown is the error of an Accept for the answer of a client that has shown the question to nobody. The question
// is asked again, apart from its client's.
var ErrNotShown = errors.New("the client has shown the question to nobody")

func (j *Journal) notShown(key string, d Digest) bool {
	return slices.ContainsFunc(j.Entries, func(e Entry) bool {
		return e.Kind == NotShown && e.Key == key && e.Digest == d
	})
}

// settle returns the outcome that an entry records of its question.
func (r *Run) settle(e *Entry) ([]byte, error) {
	if e == r.journal.lastAnswer(e.Key) {
		delete(r.by, e.Key)
	} else if r.by == nil {
		r.by = map[string][]input.Provenance{e.Key: e.By}
	} else {
		r.by[e.Key] = e.By
	}
	if e.Kind == Unanswered {
		return nil, e.unanswered()
	}
	return e.Value, nil
}

// decided records the entry that settles a question apart from the client's, if there is one, and returns it.
func (r *Run) decided(a *Ask) (*Entry, error) {
	if r.Decided == nil || !a.Apart && a.Within == 0 {
		return nil, nil
	}
	row, known := r.journal.row(a.Key, a.Digest, a.Apart)
	if !known {
		return nil, nil
	}
	if r.broken != nil {
		return nil, r.broken
	}
	e, err := r.Decided(a.Key, row, a.Digest)
	if err == nil && e != nil && r.Commit != nil {
		err = r.Commit(context.Background(), e)
	}
	if err != nil {
		r.broken = err
		return nil, fmt.Errorf("the decision of the question %q was not recorded: %w", a.Key, err)
	}
	if e != nil {
		r.journal.Entries = append(r.journal.Entries, *e)
		r.markRead(len(r.journal.Entries) - 1)
	}
	return e, nil
}

// Refusal is an answer that did not count, and the reason, which repeats nothing of the answer.
type Refusal struct {
	Key    string // the key of the question, which is asked again unless Final
	Reason error
	Final  bool // the call ends with the refusal
}

// Err returns the error that ends a call with a final refusal.
func (r *Refusal) Err() error {
	return fmt.Errorf("the answer to the question %q does not fit, and to ask again would not help: %w", r.Key, r.Reason)
}

// LimitReached adds the reason of a refusal to the error of a limit that a call has reached because of it.
func (r *Refusal) LimitReached(limit error) error {
	return fmt.Errorf("%w; the last answer to the question %q does not fit: %v", limit, r.Key, r.Reason)
}

// ErrReworded is the reason of a Refusal where the question is another one, which its client has not answered before.
var ErrReworded = errors.New("it answers another question under the same key: " +
	"what the client sees of the question has changed since")

// Refused returns the answers that did not count in this run.
func (r *Run) Refused() []Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// CommitRefused makes the refused answers of Ask durable. It is called after Finish.
func (r *Run) CommitRefused(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.marks {
		if r.Commit == nil || r.broken != nil {
			break
		}
		r.broken = r.Commit(ctx, &r.marks[i])
	}
	r.marks = nil
	return r.broken
}

// Strayed returns the keys of recorded answers that a run which asks something new has not asked for: its handler does
// not depend on its arguments and answers alone, or it is another release. It is called after Finish.
func (r *Run) Strayed() (unread []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	isNew := func(a Ask) bool {
		return !slices.ContainsFunc(r.before, func(q Question) bool { return q.Key == a.Key && q.Digest == a.Digest })
	}
	if !slices.ContainsFunc(r.asked, isNew) {
		return nil
	}
	for i, e := range r.journal.Entries {
		if e.isAnswer() && (i >= len(r.read) || !r.read[i]) {
			unread = append(unread, e.Key)
		}
	}
	return unread
}

// Step returns the recorded result of the step, or runs it and records what it
// returns. While the call is being suspended no step runs: the error is
// [ErrInputRequired]. A step that fails records nothing and runs again next time.
func (r *Run) Step(ctx context.Context, key string, step func(context.Context) ([]byte, error)) ([]byte, error) {
	return r.step(ctx, key, nil, step)
}

// step runs a step, one that never runs twice if begun is what records its beginning.
func (r *Run) step(
	ctx context.Context, key string, begun *Entry, step func(context.Context) ([]byte, error),
) ([]byte, error) {
	value, recorded, err := r.startStep(ctx, key)
	if recorded || err != nil {
		return value, err
	}
	defer r.endStep()
	own := ctx
	if begun != nil {
		if err := r.add(ctx, *begun); err != nil {
			return nil, fmt.Errorf("step %q does not run, because its beginning was not recorded: %w", key, err)
		}
		var done func()
		own, done = r.outlive(ctx)
		defer done()
		if own.Err() != nil { // the record took long
			return nil, context.Cause(own)
		}
	} else if r.Live != nil {
		own = live{ctx, r.Live}
	}
	value, err = step(own)
	switch {
	case err != nil && begun != nil:
		return nil, r.failed(ctx, begun, err)
	case err != nil:
		return nil, err
	}
	if err := r.add(ctx, Entry{Kind: Step, Key: key, Value: value}); err != nil {
		return nil, fmt.Errorf("step %q ran, but its result was not recorded: %w", key, err)
	}
	return value, nil
}

// add records an entry of a step that runs.
func (r *Run) add(ctx context.Context, e Entry) error {
	if r.Commit != nil {
		if err := r.Commit(ctx, &e); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.broken = err
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errOver
	}
	r.journal.Entries = append(r.journal.Entries, e)
	return nil
}

func (r *Run) startStep(ctx context.Context, key string) (value []byte, recorded bool, err error) {
	if key == "" {
		return nil, false, fault.Mistakef("a step needs a name: the empty string is not one")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, false, errOver
	}
	// A second step under a name would silently get the first one's result.
	if r.steps[key] {
		return nil, false, fault.Mistakef("the step name %q is used twice in one run: give each step its own", key)
	}
	if r.steps == nil {
		r.steps = make(map[string]bool)
	}
	r.steps[key] = true
	if i := r.recorded(func(e *Entry) bool { return e.Kind == Step && e.Key == key }); i >= 0 {
		return r.journal.Entries[i].Value, true, nil
	}
	if begun := r.journal.find(Begun, key); begun != nil {
		return nil, true, begun.failure(r.journal.find(Failed, key))
	}
	if r.suspended() {
		return nil, false, ErrInputRequired
	}
	if err := r.mayGoOn(ctx); err != nil {
		return nil, false, err
	}
	r.active++
	r.stepped = true
	r.running.Add(1)
	return nil, false, nil
}

// Recorded reports whether the result of a step is recorded.
func (r *Run) Recorded(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.journal.index(Step, key) >= 0
}

// recorded returns the index of the entry that fits, or -1. A run comes by most entries in their order, so that it
// finds the next one where it found the last.
func (r *Run) recorded(fits func(e *Entry) bool) int {
	entries := r.journal.Entries
	for n := range entries {
		i := (r.next + n) % len(entries)
		if fits(&entries[i]) {
			r.next = i + 1
			return i
		}
	}
	return -1
}

func (r *Run) endStep() {
	r.mu.Lock()
	r.active--
	r.mu.Unlock()
	r.running.Done()
}

// mayGoOn returns the reason why a step or checkpoint that is not recorded must not begin.
func (r *Run) mayGoOn(ctx context.Context) error {
	switch {
	case r.Halt != nil:
		return r.Halt
	case r.broken != nil:
		return r.broken
	}
	if r.Live != nil {
		if err := r.Live(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// live is the context of a step in a run with a [Run.Live].
type live struct {
	context.Context
	live func() error
}

func (l live) Err() error {
	if err := l.live(); err != nil {
		return err
	}
	return l.Context.Err()
}

// Checkpoint suspends the call with [ErrInputRequired] when it is reached for the first
// time, without a question. After that it returns nil.
func (r *Run) Checkpoint(ctx context.Context, key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errOver
	}
	if i := r.journal.index(Checkpoint, key); i >= 0 {
		if !r.markRead(i) {
			return fault.Mistakef("the checkpoint %q is reached twice in one run: give each its own key", key)
		}
		if r.parked {
			return ErrInputRequired
		}
		return nil
	}
	if err := r.mayGoOn(ctx); err != nil {
		return err
	}
	e := Entry{Kind: Checkpoint, Key: key}
	if r.Commit != nil {
		if err := r.Commit(ctx, &e); err != nil {
			r.broken = err
			return fmt.Errorf("checkpoint %q was not recorded: %w", key, err)
		}
	}
	r.journal.Entries = append(r.journal.Entries, e)
	r.markRead(len(r.journal.Entries) - 1)
	r.parked = true
	return ErrInputRequired
}

// Detach suspends the call with [ErrInputRequired], to go on as a task, unless a question
// is open, which has to be answered first.
func (r *Run) Detach() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.suspended() {
		r.parked, r.detach = true, true
	}
	return ErrInputRequired
}

// Detached reports whether the run reached a [Run.Detach] before any question.
func (r *Run) Detached() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.detach
}

// Suspended reports whether a question is open or a checkpoint was reached.
func (r *Run) Suspended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspended()
}

// suspended is Suspended with the lock held. Once it is true it stays so.
func (r *Run) suspended() bool { return len(r.asked) > 0 || r.parked }

// Stepped reports whether a step has begun in this run. Steps of earlier runs do not count.
func (r *Run) Stepped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stepped
}

// Answered reports whether the journal holds a client's answer, so that the call's outcome depends on who answered.
func (r *Run) Answered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.journal.Entries, func(e Entry) bool { return e.Kind == Answer })
}

// By returns who gave the recorded answer under a key: the one that the run has read or, if it has read none, the last
// one.
func (r *Run) By(key string) []input.Provenance {
	r.mu.Lock()
	defer r.mu.Unlock()
	if by, read := r.by[key]; read {
		return slices.Clone(by)
	}
	if e := r.journal.lastAnswer(key); e != nil {
		return slices.Clone(e.By)
	}
	return nil
}

// Receipt returns the receipt of the last answer under a key, or nil.
func (r *Run) Receipt(key string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.journal.lastAnswer(key); e != nil {
		return e.Receipt
	}
	return nil
}

// Finish ends the run with the error that the handler returned. It must be called once.
//
// If suspended is true, the call goes on in a further round: the journal is ready to be kept, and asks are the
// questions of the journal: those Pending, for the client, and then those Apart. Without any the client only has to
// come back. Finish then waits for steps that still run in other goroutines, because their side effects happen and have
// to be recorded.
//
// Otherwise err is the handler's own outcome. If that is an error, asks are the questions that it leaves unasked.
func (r *Run) Finish(handlerErr error) (asks []Ask, suspended bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspended() {
		r.mu.Unlock()
		r.running.Wait() // no further step can begin
		r.mu.Lock()
	}
	r.over = true
	if handlerErr != nil && !errors.Is(handlerErr, ErrInputRequired) {
		return r.asked, false, handlerErr
	}
	if ends := fault.Ending(handlerErr); ends != nil {
		return r.asked, false, ends
	}
	if !r.suspended() {
		if handlerErr != nil {
			return nil, false, fault.Mistakef("the handler returned ErrInputRequired without having asked anything")
		}
		return nil, false, nil
	}
	r.journal.Asleep = !r.parked && !slices.ContainsFunc(r.asked, func(a Ask) bool { return !a.Sleep })
	if r.limits.Rounds > 0 && !r.journal.Asleep && r.journal.Counted() >= r.limits.Rounds {
		return nil, false, &fault.LimitError{Limit: "rounds per call", Max: int64(r.limits.Rounds)}
	}
	r.journal.Round++
	r.journal.Apart = nil
	slices.SortStableFunc(r.asked, func(a, b Ask) int {
		switch {
		case a.Apart == b.Apart:
			return 0
		case b.Apart:
			return -1
		}
		return 1
	})
	keys := wireKeys{journal: r.journal, before: r.before, numbered: r.Numbered}
	for _, a := range r.asked {
		if q := keys.pend(a); a.Apart {
			r.journal.Apart = append(r.journal.Apart, q)
		} else {
			r.journal.Pending = append(r.journal.Pending, q)
		}
	}
	r.marks = append(r.marks, keys.withdraw()...)
	return r.asked, true, nil
}

// wireKeys gives the questions of a round their keys on the wire.
type wireKeys struct {
	journal  *Journal
	before   []Question // those pending when the run began
	numbered bool       // see [Run.Numbered]
}

// pend returns the pending question that the journal remembers. Its wire key never names another question, so that a
// late answer cannot be taken for an answer to something else.
func (k *wireKeys) pend(a Ask) Question {
	q := Question{Key: a.Key, Digest: a.Digest, Within: a.Within, Apart: a.Apart}
	if a.Apart || a.Within > 0 {
		q.Row, q.Known = k.journal.row(a.Key, a.Digest, a.Apart)
	}
	for _, b := range k.before {
		if b.Key == a.Key && b.Digest == a.Digest {
			q.Wire, q.Asked, q.Deadline = b.Wire, b.Asked, b.Deadline
		}
	}
	if q.Wire == "" && q.Known && k.journal.find(Delivered, q.Row) == nil {
		q.Wire = q.Row
	}
	if q.Wire == "" {
		q.Wire = k.journal.WireKey(k.preferred(a), k.before...)
	}
	if !q.Known {
		q.Row = q.Wire
	}
	return q
}

// preferred returns the wire key for a question that is put for the first time, if that is still unused: the
// author's key for the first question under it, and a key of its own for each other.
func (k *wireKeys) preferred(a Ask) string {
	used := slices.ContainsFunc(k.before, func(q Question) bool { return q.Key == a.Key }) ||
		slices.ContainsFunc(k.journal.Entries, func(e Entry) bool { return e.Key == a.Key && e.isAnswer() })
	if !used || k.numbered {
		return a.Key
	}
	return a.Key + "#" + hex.EncodeToString(a.Digest[:])
}

// withdraw records the wire keys of questions that were pending and are asked no more, so that no other question gets
// one of them, and returns the new entries. If the keys are numbered, that goes for a question that was settled by its
// deadline, too: no entry has its wire key yet.
func (k *wireKeys) withdraw() (marks []Entry) {
	for _, q := range k.before {
		same := func(p Question) bool { return p.Wire == q.Wire }
		if slices.ContainsFunc(k.journal.Pending, same) || !k.numbered && k.journal.answer(q.Key, q.Digest) >= 0 ||
			k.journal.find(Delivered, q.Wire) != nil || (q.Digest == Digest{}) {
			continue
		}
		e := Entry{Kind: Delivered, Key: q.Wire}
		k.journal.Entries, marks = append(k.journal.Entries, e), append(marks, e)
	}
	return marks
}
