package chat

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/task"
)

const (
	// mostBody bounds a request. A click can have the message in it that was clicked.
	mostBody = 1 << 20
	// answerTime bounds the work on a click. Slack waits for 3 seconds, and then tells the person to try again.
	answerTime = 2500 * time.Millisecond
	// personTime bounds the time to find out whose account it is. The rest is for the reply.
	personTime = 2 * time.Second
	// afterTime bounds what is done after the response.
	afterTime = 10 * time.Second
	// usedKept is how long a request is remembered. It is longer than a service accepts one.
	usedKept = 15 * time.Minute
)

// ServeHTTP takes what people press. A request that the [Service] refuses has no effect and gets the status 401, one
// that has come before 409. A status of 503 means that the answer may not have been taken: the chat shows an error, and
// the person presses the button again. The same answer twice is one vote.
func (c *Chat) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "this is where the chat posts what people press", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	// A peer that sends slowly is not the chat. Without the deadline, the server's own one holds.
	_ = http.NewResponseController(w).SetReadDeadline(clock.Now(ctx).Add(answerTime))
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	click, err := c.service.Receive(r.WithContext(ctx))
	if err != nil {
		c.opts.Log.Warn("chat: a request was refused", "error", err)
		http.Error(w, "the request cannot be verified", http.StatusUnauthorized)
		return
	}
	if click == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	default:
		http.Error(w, "too many people answer at once: try again", http.StatusServiceUnavailable)
		return
	}
	fresh, err := c.opts.Store.SwapState(ctx, c.stateID("request", click.ID), "", nil, []byte("1"),
		clock.Now(ctx).Add(usedKept))
	if err == nil && !fresh {
		http.Error(w, "the request has come before", http.StatusConflict)
		return
	}
	var reply *Reply
	var q *desk.Question
	if err == nil {
		reply, q, err = c.take(ctx, click)
	}
	if err != nil {
		c.opts.Log.Warn("chat: a click failed", "name", click.Name, "error", err)
		http.Error(w, "the answer may not have been recorded: try again", http.StatusServiceUnavailable)
		return
	}
	// The response leaves before the rest is done, and the next request must not wait for it.
	w.Header().Set("Connection", "close")
	if reply.Ask == nil {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(context.WithoutCancel(ctx), afterTime)
		defer done()
	}
	if err := click.Reply(ctx, w, reply); err != nil {
		c.opts.Log.Warn("chat: replying to a click failed", "name", click.Name, "error", err)
	}
	if q != nil && q.Status != task.QuestionOpen {
		_ = http.NewResponseController(w).Flush() // the chat does not wait for what it is sent now
		c.showAt(ctx, click, q)
	}
}

// showAt shows how a question has ended in the message that was clicked, which need not be the one of the record.
func (c *Chat) showAt(ctx context.Context, click *Click, q *desk.Question) {
	latest, err := c.read(ctx, q) // what an answer returns lacks the arguments
	if err == nil {
		q, err = latest, c.show(ctx, latest, false)
	}
	if err == nil && click.Ref != "" {
		_, r, failed := c.load(ctx, q)
		if err = failed; err == nil && r != nil && r.Ref != click.Ref {
			err = c.service.Update(ctx, click.Ref, c.message(q))
		}
	}
	if err != nil && !errors.Is(err, ErrGone) {
		c.opts.Log.Warn("chat: changing the message that was clicked failed", "name", q.Name, "error", err)
	}
}

// take does what a click says. The question is as it is then, if it is known. An error means that the outcome is not
// known.
func (c *Chat) take(ctx context.Context, click *Click) (reply *Reply, q *desk.Question, err error) {
	person, err := c.person(ctx, click.Account)
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		c.opts.Log.Warn("chat: whose account was used cannot be told now", "workspace", click.Account.Workspace,
			"user", click.Account.User, "error", err)
		return &Reply{Invalid: true,
			Refused: "Nothing was answered: the server cannot tell now whose account this is. Try again in a while."}, nil, nil
	case person.Name == "":
		c.opts.Log.Info("chat: an account of nobody was used", "workspace", click.Account.Workspace,
			"user", click.Account.User)
		return &Reply{Refused: "Nothing was answered: your account here is not known to the server as a person's."}, nil, nil
	}
	if click.Ask {
		return c.ask(ctx, click, person)
	}
	answer := click.Answer
	answer.By, answer.Channel = person, c.opts.Name
	if q, err = c.desk.Answer(ctx, click.Name, click.Key, answer); q != nil && err == nil {
		return new(Reply), q, nil
	}
	reply, err = refusal(err)
	if err == nil {
		// So that the message shows how the question stands, if the person may see it.
		q, _ = c.desk.Question(ctx, click.Name, click.Key, &person)
	}
	return reply, q, err
}

// person returns whose account it is, or an error if that cannot be told now.
func (c *Chat) person(ctx context.Context, a Account) (p desk.Person, err error) {
	ctx, cancel := context.WithTimeout(ctx, personTime)
	defer cancel()
	err = fault.Safely(func() (err error) {
		p, err = c.opts.Person(ctx, a)
		return err
	})
	return p, err
}

// ask opens a form for a person who may answer.
func (c *Chat) ask(ctx context.Context, click *Click, person desk.Person) (*Reply, *desk.Question, error) {
	q, err := c.desk.Question(ctx, click.Name, click.Key, &person)
	if err == nil {
		err = q.May(person)
	}
	if err == nil && q.Status != task.QuestionOpen {
		err = &desk.ClosedError{Decision: q.Decision}
	}
	if err != nil {
		reply, err := refusal(err)
		return reply, q, err
	}
	return &Reply{Ask: c.message(q)}, q, nil
}

// refusal tells the person why an answer was not taken. An error means that nobody knows whether it was.
func refusal(err error) (*Reply, error) {
	if closed, ok := errors.AsType[*desk.ClosedError](err); ok {
		return &Reply{Refused: "Nothing was answered: " + line(closed.Error()) + "."}, nil
	}
	if invalid, ok := errors.AsType[*desk.InvalidError](err); ok {
		return &Reply{Refused: "Nothing was answered: " + line(invalid.Reason) + ".", Invalid: true}, nil
	}
	switch {
	case errors.Is(err, desk.ErrOwnCall):
		return &Reply{Refused: "Nothing was answered: the call is your own, so somebody else must answer."}, nil
	case errors.Is(err, task.ErrNotFound):
		return &Reply{Refused: "Nothing was answered: the question is not for you, or it is gone."}, nil
	case err == nil:
		return nil, io.ErrUnexpectedEOF // the desk returns a question or an error
	}
	return nil, err
}
