package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/ending"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// wait waits until the task has ended or enough returns true of it, but no longer than [Desk.Wait], the server and the
// client allow. The request holds no shares meanwhile. It returns the task as it is then.
func (f *fetching) wait(ctx context.Context, enough func(*task.Task) bool) *task.Task {
	r, t := f.call.Request, f.task
	waiting, stop := ending.Follow(ctx, errEnding)
	defer stop()
	waiting, resume := gate.Leave(waiting, r.Principal)
	defer resume()
	began, before := time.Now(), r.Reported()
	waiting, stopWaiting := context.WithTimeout(waiting, f.Desk.Wait)
	defer stopWaiting()
	report := func(message string) { // a client that does not take it is told at the end
		_ = r.Report(waiting, before+time.Since(began).Seconds(), 0, message)
	}
	for !t.Status.Terminal() && !enough(t) {
		now, err := f.waitOnce(waiting, t)
		switch {
		case err == nil:
			if now.Message != t.Message && !now.Status.Terminal() {
				report(f.message(now))
			}
			t = now
		case waiting.Err() != nil:
			return t
		case errors.Is(err, context.DeadlineExceeded):
			report(f.message(t))
		default: // the call goes on without its client
			_ = f.storeFailed(ctx, "waiting for a task", err)
			return t
		}
	}
	return t
}

// waitOnce waits for a change of a task until it is time to tell its client.
func (f *fetching) waitOnce(ctx context.Context, t *task.Task) (*task.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, call.ReportsEvery)
	defer cancel()
	now, err := f.Engine.Wait(ctx, t.Principal, t.ID, t.Version)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return now, err
}

// asksClient reports whether a task waits for answers of its client.
func asksClient(t *task.Task) bool { return t.Status == task.InputRequired && len(t.Pending) > 0 }

// callResult returns the outcome of a task that has ended as its call would have.
func callResult(t *task.Task) (*mcp.CallToolResult, error) {
	switch t.Status {
	case task.Failed:
		return nil, stored.DecodeFault(t.Outcome, t.Message)
	case task.Cancelled:
		result := new(mcp.CallToolResult)
		result.SetError(errors.New("the call was cancelled"))
		return result, nil
	}
	result := new(mcp.CallToolResult)
	if err := json.Unmarshal(t.Outcome, result); err != nil {
		return nil, fmt.Errorf("the stored result: %w", err)
	}
	if structured := strictjson.Get(t.Outcome, "structuredContent"); structured != nil {
		result.StructuredContent = json.RawMessage(structured) // with its numbers as they are
	}
	return result, nil
}

// handle is the name under which the caller of a task gets its outcome. An anonymous caller is told from other ones by
// nothing but the task's ID.
func handle(t *task.Task) string {
	if t.Principal == "" {
		return t.ID
	}
	return task.Name(t.ID)
}

// words tells a client that cannot take a task what its call waits for, and how to get the outcome.
func (f *fetching) words(ctx context.Context) *mcp.CallToolResult {
	r, t := f.call.Request, f.task
	tool := f.Handlers.Lookup(wire.CallTool, ResultTool)
	hasTool := tool != nil && tool.Fetches // and not the author's own
	text := []string{}
	if f.note != "" {
		text = append(text, f.note)
	}
	awaited, equal := f.awaited(ctx, t)
	text = append(text, awaited)
	switch name := handle(t); {
	case !hasTool:
		text = append(text, fmt.Sprintf("The call goes on by itself, under the name %q.", name))
	case asksClient(t) && !canAnswer(r, t):
		text = append(text, fmt.Sprintf("This client cannot show it: to answer it, call the tool %s with the name %q from "+
			"one that can.", ResultTool, name))
	case asksClient(t):
		text = append(text, fmt.Sprintf("To answer it, call the tool %s with the name %q.", ResultTool, name))
	default:
		text = append(text, fmt.Sprintf("The call goes on by itself; do not repeat it. "+
			"To get its result, call the tool %s with the name %q.", ResultTool, name))
	}
	if f.Events != nil && r.Can&wire.Events != 0 && !t.Status.Terminal() {
		text = append(text, fmt.Sprintf("The event call.ended with the argument taskId=%s tells when it has ended.", t.ID))
	}
	if len(equal) > 0 {
		text = append(text, "An identical call waits already: "+strings.Join(equal, ", ")+".")
	}
	result := &mcp.CallToolResult{}
	if r.Handler.Structured { // its clients expect structured content of everything but an error
		text = slices.Insert(text, 0, "Not failed: waiting.")
		result.IsError = true
	}
	result.Content = []mcp.Content{&mcp.TextContent{Text: strings.Join(text, " ")}}
	return result
}

// canAnswer reports whether the client of a request can be asked something that a task asks.
func canAnswer(r *call.Request, t *task.Task) bool {
	open, _ := stored.DecodeQuestions(t.Pending)
	return slices.ContainsFunc(open, func(q stored.Question) bool {
		asked, err := question.Stored(q.Method, q.Params, false)
		return err == nil && r.Can&asked.Need == asked.Need
	})
}

// The bounds of what words say.
const (
	mostAwaited = 16
	mostEqual   = 5
	mostMessage = 300 // characters
)

// awaited says what a task waits for, from whom and until when, and quotes the names of other tasks of the same
// principal that wait for the same call.
func (s *Service) awaited(ctx context.Context, t *task.Task) (text string, equal []string) {
	if asksClient(t) {
		return "The call has a question for you.", nil
	}
	rows, err := s.Engine.Questions(ctx, task.Name(t.ID))
	if err != nil && ctx.Err() == nil {
		_ = s.storeFailed(ctx, "reading what a task waits for", err)
	}
	var each []string
	key, people := "", false
	for _, q := range rows {
		if q.Status != task.QuestionOpen || len(each) == mostAwaited {
			continue
		}
		each = append(each, awaitedBy(q))
		people = people || len(q.For) > 0
		key = cmp.Or(key, q.Equal)
	}
	switch {
	case t.Status == task.InputRequired && len(each) > 0:
		text = "The call waits for " + strings.Join(each, "; and for ") + "."
		if people {
			text += s.where(text)
		}
		return text, s.equal(ctx, t, key)
	case t.Message != "" && !strings.HasPrefix(t.Message, question.Waits):
		said := shorten(t.Message)
		if end, _ := utf8.DecodeLastRuneInString(said); !strings.ContainsRune(".!?…", end) {
			said += "."
		}
		return "The call is running: " + said, nil
	}
	return "The call is running.", nil
}

// message is the message of a task as its client gets it.
func (s *Service) message(t *task.Task) string {
	if t.Status == task.InputRequired && strings.HasPrefix(t.Message, question.Waits) {
		return t.Message + s.where(t.Message)
	}
	return t.Message
}

// where says where people answer, after words that say who is awaited. The words in the store do not, because a page
// may move while a task waits.
func (s *Service) where(awaited string) string {
	switch {
	case s.Desk == nil:
		return ""
	case s.Desk.Page != "":
		return " Open " + s.Desk.Page + " to answer."
	case strings.Contains(awaited, question.AtDesk):
		return " Run 'askback inbox open' on the server's machine to answer."
	}
	return ""
}

// awaitedBy says what one question waits for.
func awaitedBy(q *task.Question) string {
	if len(q.For) == 0 {
		return "a time: " + q.Deadline.UTC().Format(question.TimeFormat)
	}
	what, votes, where := "an answer", 1, ""
	if asked, err := stored.DecodeAsking(q.Content); err == nil {
		what, votes = fmt.Sprintf("the answer %q", asked.Key), asked.Votes
		if asked.Fallback {
			where = question.AtDesk
		}
	}
	return what + " of " + question.Awaited(q.For, votes, q.Deadline) + where
}

// equal quotes the names of other tasks of the same principal that wait for the same call.
func (s *Service) equal(ctx context.Context, t *task.Task, key string) (names []string) {
	if key == "" || t.Principal == "" {
		return nil
	}
	rows, err := s.Engine.Waiting(ctx, task.QuestionFilter{Equal: key}, nil, 4*mostEqual)
	if err != nil && ctx.Err() == nil {
		_ = s.storeFailed(ctx, "looking for identical calls", err)
	}
	for _, q := range rows {
		name := fmt.Sprintf("%q", task.Name(q.Task))
		if q.Task != t.ID && q.Principal == t.Principal && !slices.Contains(names, name) && len(names) < mostEqual {
			names = append(names, name)
		}
	}
	return names
}

// shorten bounds a text.
func shorten(text string) string {
	if runes := []rune(text); len(runes) > mostMessage {
		return string(runes[:mostMessage]) + "…"
	}
	return text
}
