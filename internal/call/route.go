package call

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/wire"
)

// route decides who is asked: the client, or people apart from it. The error is one of the author.
func (c *Call) route(key string, q *question.Question) (*question.Question, error) {
	if err := c.check(key, q); err != nil {
		return nil, fmt.Errorf("question %q: %w", key, err)
	}
	fallback := c.desk != nil && c.desk.Fallback && c.waits && !c.Inline &&
		question.IsName(c.Principal) && question.IsKey(key)
	if fallback && len(q.For) == 0 && q.Method == input.MethodElicit && len(q.Params()) <= mostApart {
		own := *q
		own.For, own.Votes, own.Fallback = []string{question.UserPrefix + c.Principal}, 1, true
		return &own, nil
	}
	return q, nil
}

// check checks all of a question except its form.
func (c *Call) check(key string, q *question.Question) error {
	timed := c.Task != "" && q.Within > 0
	switch {
	case q.Within < 0:
		return fault.Mistakef("its Within of %v is negative: zero means as long as the call lives", q.Within)
	case c.within > 0 && q.Within > c.within:
		return fault.Mistakef("its Within of %v is more than Limits.Within, %v: ask for less, or raise the limit",
			q.Within, c.within)
	case q.Votes < 0:
		return fault.Mistakef("%d Votes are negative: zero means one", q.Votes)
	case q.Votes > 1 && len(q.For) == 0:
		return fault.Mistakef("%d Votes, but nobody to give them: say who may answer in For", q.Votes)
	case (timed || len(q.For) > 0) && !question.IsKey(key):
		return fault.Mistakef("its key of %d bytes is stored with its deadline, or for somebody else: it needs 1 to %d "+
			"bytes of UTF-8, without control characters", len(key), question.MaxName)
	case len(q.For) > 0:
		return c.checkAddress(q)
	}
	return nil
}

// mostApart bounds the message, form and preview of a question for people, in bytes. A list reads many of them at once.
const mostApart = 64 << 10

// mostFor bounds the users and groups of a question.
const mostFor = 64

// checkAddress checks who may answer a question, and whether it can wait for them.
func (c *Call) checkAddress(q *question.Question) error {
	if len(q.For) > mostFor {
		return fault.Mistakef("%d users and groups in For, and at most %d are taken: name a group that has them all",
			len(q.For), mostFor)
	}
	groups := false
	for _, who := range q.For {
		name, isUser := strings.CutPrefix(who, question.UserPrefix)
		if !isUser {
			isGroup := false
			if name, isGroup = strings.CutPrefix(who, question.GroupPrefix); !isGroup {
				return fault.Mistakef("%.80q in For is nobody: write askback.User(name) or askback.Group(name)", who)
			}
			groups = true
		}
		if !question.IsName(name) {
			return fault.Mistakef("%.80q in For: a name has 1 to %d bytes of UTF-8, without control characters, and no space "+
				"around it", who, question.MaxName)
		}
	}
	size := len(q.Params()) + len(q.Preview)
	switch {
	case size > mostApart:
		return fault.Mistakef("its message, form and preview have %d bytes: a question for somebody else has at most %d; "+
			"put what is long behind a link", size, mostApart)
	case !groups && q.Votes > len(q.For):
		return fault.Mistakef("%d Votes of %d users: nobody votes twice; lower Votes, or name more users in For", q.Votes,
			len(q.For))
	case groups && c.Principal == "":
		return fault.Mistakef("the caller is anonymous, and an anonymous caller's question cannot go to a group: " +
			"name callers in Options.Principal")
	case c.desk == nil:
		return fault.Mistakef("it is for somebody else than the caller, which needs Options.Desk")
	case c.Handler.Method != wire.CallTool:
		return fault.Mistakef("it is for somebody else than the caller, and only tools can wait for that")
	case !c.waits:
		return fault.Mistakef("it is for somebody else than the caller, which needs Options.Tasks")
	}
	return nil
}

// Screen implements [journal.Screen]. It marks an answer that came so fast that the client can have shown the question
// to nobody: see [Desk.NotShown]. A client that accepts a form and fills in nothing, or that answers nothing, has shown
// it to nobody, too, if somebody at the desk can be asked.
func (c *Call) Screen(request any, raw, record []byte) ([]byte, error) {
	q := request.(*question.Question)
	if c.desk == nil || c.Inline || q.Method != input.MethodElicit {
		return record, nil
	}
	if record == nil {
		if q.Fallback && question.IsBlank(raw) {
			return nil, journal.ErrNotShown
		}
		return nil, nil
	}
	after, _, measured := question.After(raw)
	switch action, _ := question.Action(record); {
	case action == "accept" || !measured:
		return record, nil
	case after >= c.desk.NotShown:
		return question.WithAfter(record, after), nil
	case q.Fallback:
		return nil, journal.ErrNotShown
	}
	return question.NotShown(record, after), nil
}

// Sleep suspends the call until a time has passed since the sleep was reached for the first time.
func (c *Call) Sleep(name string, d time.Duration) error { return c.Mistaken(c.sleep(name, d)) }

func (c *Call) sleep(name string, d time.Duration) error {
	switch {
	case name == "":
		return fault.Mistakef("a sleep needs a name: the empty string is not one")
	case d <= 0:
		return fault.Mistakef("sleep %q: a time of %v passes before it begins: it must be more than zero", name, d)
	case c.within > 0 && d > c.within:
		return fault.Mistakef("sleep %q: %v is more than Limits.Within, %v: sleep for less, or raise the limit", name, d,
			c.within)
	case !question.IsKey(sleepKey + name):
		return fault.Mistakef("the name of a sleep has 1 to %d bytes of UTF-8, without control characters",
			question.MaxName-len(sleepKey))
	case c.Task == "":
		return fault.Mistakef("sleep %q: only a task can sleep: call Detach before it, and add the tool with AddTaskTool",
			name)
	}
	_, err := c.askRun(c.ctx, sleepKey+name, question.Timer(d))
	if c.Probe != nil {
		c.Probe.Asked(sleepKey+name, err)
	}
	if _, passed := errors.AsType[*journal.UnansweredError](err); passed {
		return nil
	}
	if errors.Is(err, journal.ErrAskedTwice) {
		return fault.Mistakef("the sleep %q is reached twice in one run: give each its own name", name)
	}
	return err
}

// sleepKey begins the key of the question that a sleep is to its journal.
const sleepKey = "(sleep) "

// Answers returns who gave the recorded answer under a key.
func (c *Call) Answers(key string) []input.Provenance { return c.run.By(key) }

// Receipt returns the receipt of the answer under a key, or nothing.
func (c *Call) Receipt(key string) string { return string(c.run.Receipt(key)) }

// Measure notes in the responses of a client how long after their questions they came. Less than zero means that nobody
// knows.
func (a Answers) Measure(after func(key string) time.Duration) {
	for key, raw := range a.Responses {
		a.Responses[key] = question.WithAfter(raw, after(key))
	}
}
