package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/task"
)

// record says which message has a question, and what it shows.
type record struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest"` // of the message; empty if that is not known
}

const (
	// openKept is how long a record is kept. A deadline can be moved by a year.
	openKept = 400 * 24 * time.Hour
	// closedKept is how long the record of a closed question is kept, in which notices can still come.
	closedKept = 7 * 24 * time.Hour
)

// stateID is the name of something of this chat in the store.
func (c *Chat) stateID(parts ...string) string {
	h := sha256.New()
	for _, part := range append([]string{"askback/desk/chat", c.opts.Name}, parts...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (c *Chat) load(ctx context.Context, q *desk.Question) (raw []byte, r *record, err error) {
	raw, err = c.opts.Store.GetState(ctx, c.stateID("message", q.Name, q.Key))
	if err != nil {
		return nil, nil, fmt.Errorf("chat: which message has the question: %w", err)
	}
	r = new(record)
	if raw == nil || json.Unmarshal(raw, r) != nil {
		return raw, nil, nil
	}
	return raw, r, nil
}

func (c *Chat) save(ctx context.Context, q *desk.Question, old []byte, r record) (raw []byte, saved bool, err error) {
	if raw, err = json.Marshal(r); err != nil {
		return nil, false, err
	}
	kept := openKept
	if q.Status != task.QuestionOpen {
		kept = closedKept
	}
	saved, err = c.opts.Store.SwapState(ctx, c.stateID("message", q.Name, q.Key), "", old, raw, clock.Now(ctx).Add(kept))
	if err != nil {
		return nil, false, fmt.Errorf("chat: keeping which message has the question: %w", err)
	}
	return raw, saved, nil
}

func digestOf(m *Message) string {
	raw, err := json.Marshal(m)
	if err != nil {
		return "" // the message is shown again
	}
	digest := sha256.Sum256(raw)
	return hex.EncodeToString(digest[:])
}

// Notify posts what is asked, reminds of what is due soon, and shows how a question has ended. It is a Notify of
// askback.DeskOptions: after an error the notice comes again. A message that the chat has posted, and whose
// response was lost, is posted twice only if the [Service] cannot find it.
func (c *Chat) Notify(ctx context.Context, n desk.Notice) error {
	q, err := c.desk.Question(ctx, n.Name, n.Key, nil)
	switch {
	case errors.Is(err, task.ErrNotFound):
		q = gone(n)
	case q == nil:
		return err
	}
	raw, r, err := c.load(ctx, q)
	switch {
	case err != nil:
		return err
	case r == nil && q.Status == task.QuestionOpen:
		// With another kind than NoticeAsked, the record has been lost or the question was not posted in three days.
		return c.post(ctx, q, raw, n.Kind != task.NoticeAsked || n.Attempt > 1)
	case r == nil:
		return nil // nobody has seen it
	}
	if err = c.show(ctx, q, true); err != nil || n.Kind != task.NoticeDueSoon || q.Status != task.QuestionOpen {
		return err
	}
	m := c.message(q)
	m.ReplyTo, m.Again = r.Ref, n.Attempt > 1
	_, err = c.service.Post(ctx, m)
	return err
}

// post posts an open question.
func (c *Chat) post(ctx context.Context, q *desk.Question, old []byte, again bool) error {
	m := c.message(q)
	m.Again = again
	if m.Channel == "" {
		return nil
	}
	ref, err := c.service.Post(ctx, m)
	if err != nil {
		return err
	}
	r := record{Ref: ref}
	if !again { // one that was found may show what was true then
		r.Digest = digestOf(m)
	}
	_, saved, err := c.save(ctx, q, old, r)
	if err != nil {
		return err
	}
	if !saved {
		return errors.New("chat: another process has posted the question at the same time")
	}
	return c.showAgain(ctx, q, again)
}

// showAgain shows what has changed since a question was read.
func (c *Chat) showAgain(ctx context.Context, q *desk.Question, force bool) error {
	latest, err := c.read(ctx, q)
	if err != nil {
		return err
	}
	return c.show(ctx, latest, force)
}

// read reads a question again. One whose task has been deleted stays as it was, and is closed.
func (c *Chat) read(ctx context.Context, q *desk.Question) (*desk.Question, error) {
	latest, err := c.desk.Question(ctx, q.Name, q.Key, nil)
	if latest != nil {
		return latest, nil
	}
	if errors.Is(err, task.ErrNotFound) {
		closed := *q
		if closed.Status == task.QuestionOpen {
			closed.Status = task.QuestionWithdrawn
		}
		return &closed, nil
	}
	return nil, err
}

// mostShown bounds how often a message is changed while its question changes.
const mostShown = 8

// show has the message of a question show how it stands. Without force it does nothing if the message does so.
//
// The digest is recorded before the message is changed, so of several instances one changes it. Two that show different
// states can reach the chat in the wrong order. So each reads the question again after it has changed the message, and
// changes it again unless that is what it has shown last.
func (c *Chat) show(ctx context.Context, q *desk.Question, force bool) error {
	for range mostShown {
		raw, r, err := c.load(ctx, q)
		if err != nil || r == nil {
			return err
		}
		m := c.message(q)
		digest := digestOf(m)
		if !force && r.Digest == digest {
			return nil
		}
		shown, saved, err := c.save(ctx, q, raw, record{r.Ref, digest})
		if err != nil {
			return err
		}
		if saved {
			if err := c.update(ctx, q, shown, r.Ref, m); err != nil {
				return err
			}
		}
		latest, err := c.read(ctx, q)
		if err != nil {
			return err
		}
		if saved && digestOf(c.message(latest)) == digest {
			return nil
		}
		q, force = latest, force || saved
	}
	return errors.New("chat: the question changes faster than its message can be changed")
}

// update changes a message of which the record says already that it has been changed.
func (c *Chat) update(ctx context.Context, q *desk.Question, shown []byte, ref string, m *Message) error {
	err := c.service.Update(ctx, ref, m)
	if err == nil {
		return nil
	}
	again := ref
	if errors.Is(err, ErrGone) {
		if !m.Open {
			return nil
		}
		if m.Channel != "" { // somebody has removed it, and nobody could answer
			if again, err = c.service.Post(ctx, m); err == nil {
				_, _, err = c.save(ctx, q, shown, record{again, digestOf(m)})
				return err
			}
			again = ref
		}
	}
	// The next one who looks must not believe the record.
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, _, failed := c.save(free, q, shown, record{Ref: again})
	return errors.Join(err, failed)
}

const (
	// mostDue bounds the questions that wait to be shown. Their ends come by Notify all the same.
	mostDue = 10_000
	// mostUpdates bounds the messages that Run changes at once.
	mostUpdates = 4
	// updateTimeout bounds one of them.
	updateTimeout = 10 * time.Second
)

// Run shows votes, claims and moved deadlines, which have no notices, about a second after they have come. Each
// instance runs one. It returns nil when ctx is done.
func (c *Chat) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	due := &dueList{all: make(map[[2]string]*desk.Question), more: make(chan struct{}, 1)}
	var follow sync.WaitGroup
	follow.Go(func() {
		for q, err := range c.desk.Changes(ctx, 0) {
			switch {
			case q != nil:
				due.add(q)
			case ctx.Err() == nil:
				c.opts.Log.Warn("chat: looking for changes of questions failed", "error", err)
			}
		}
	})
	defer follow.Wait()
	defer cancel()
	for wait := time.Duration(0); ; {
		select {
		case <-due.more:
		case <-ctx.Done():
			return nil
		}
		failed := c.showAll(ctx, due)
		if wait = min(2*wait+time.Second, time.Minute); !failed {
			wait = 0
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// showAll shows what is due, and keeps what fails.
func (c *Chat) showAll(ctx context.Context, due *dueList) (failed bool) {
	var group errgroup.Group
	group.SetLimit(mostUpdates)
	var mu sync.Mutex
	for _, q := range due.take() {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, updateTimeout)
			defer cancel()
			err := fault.Safely(func() error { return c.showAgain(ctx, q, false) })
			if err != nil && !errors.Is(err, context.Canceled) {
				c.opts.Log.Warn("chat: changing a message failed; it is tried again", "name", q.Name, "error", err)
				due.add(q)
				mu.Lock()
				defer mu.Unlock()
				failed = true
			}
			return nil
		})
	}
	_ = group.Wait() // they return nil
	return failed
}

// dueList has the questions that have changed.
type dueList struct {
	mu   sync.Mutex
	all  map[[2]string]*desk.Question
	more chan struct{}
}

func (d *dueList) add(q *desk.Question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id := [2]string{q.Name, q.Key}; len(d.all) < mostDue || d.all[id] != nil {
		d.all[id] = q
	}
	select {
	case d.more <- struct{}{}:
	default:
	}
}

func (d *dueList) take() (all map[[2]string]*desk.Question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, d.all = d.all, make(map[[2]string]*desk.Question)
	return all
}
