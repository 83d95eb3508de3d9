package check

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	tasksExtension = "io.modelcontextprotocol/tasks"

	// taskCapabilities are all capabilities, with the extension.
	taskCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},` +
		`"extensions":{"io.modelcontextprotocol/tasks":{}}}`

	maxTaskID   = 500 // bytes
	maxPolls    = 30  // until a task asks or has ended
	cancelTries = 3   // for each task that is left, out of the requests of the run
	minPoll     = 50 * time.Millisecond
	maxPoll     = 2 * time.Second
)

// task is a task that the check has made.
type task struct {
	call     *call  // that has become the task
	id       string // empty if the call has not become one
	argument string // the canary in its free argument, if it has one
	newest   *reply // what its owner saw last
	seen     []*reply
	answered []question // that were answered, by the owner
	next     time.Time  // of the next tasks/get, as the server wishes
	polls    int        // since the last change
}

// owed is a task that has to be cancelled.
type owed struct {
	as, at, id string
}

// made notes a task. Until it is cancelled, a few requests are kept back to do so. One that nobody has declared the
// extension for is cancelled at once, since nothing follows it.
func (r *run) made(ctx context.Context, t *target, q request, id string) {
	r.hide(t, id)
	if !usableID(id) {
		return
	}
	o := owed{q.as, q.at, id}
	r.owed = append(r.owed, o)
	if q.as == "" && q.at == "" && !slices.Contains(r.taskIDs, id) {
		r.taskIDs = append(r.taskIDs, id)
	}
	if !strings.Contains(q.able, tasksExtension) {
		if _, err := r.send(ctx, o.cancel()); err == nil {
			r.ended(id)
		}
	}
}

// cancel is the request that cancels the task.
func (o owed) cancel() request {
	return request{as: o.as, at: o.at, method: "tasks/cancel", params: map[string]any{"taskId": o.id},
		able: taskCapabilities}
}

// usableID reports whether an ID can be sent in a header.
func usableID(id string) bool {
	return len(id) <= maxTaskID && !strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// ended forgets a task that needs no cancelling any more.
func (r *run) ended(id string) {
	r.owed = slices.DeleteFunc(r.owed, func(o owed) bool { return o.id == id })
}

// reserve is how many requests are kept back before q: those that cancel what is left, and what q may make.
func (r *run) reserve(q request) int {
	n := len(r.owed)
	if r.mayMake(q) {
		n++
	}
	return cancelTries * n
}

// mayMake reports whether a request may make a task.
func (r *run) mayMake(q request) bool { return r.declares && q.method == "tools/call" }

// cancelOwed cancels the tasks that are left, also when the run has stopped.
func (r *run) cancelOwed(ctx context.Context) {
	for _, o := range slices.Clone(r.owed) {
		for range cancelTries {
			if r.line.left == 0 || !r.line.turn(ctx, request{}) {
				return
			}
			res, err := r.exchange(ctx, o.cancel())
			if err == nil {
				if !isQuiet(res.status) {
					r.ended(o.id)
				}
				break
			}
		}
	}
}

// createTask makes a task: a call, and honest rounds until it is one. Its canaries occur in no other call.
func (r *run) createTask(ctx context.Context, t *target, s step) (*task, error) {
	return retried(func() (*task, error) { return r.tryToCreate(ctx, t, s) })
}

// tryToCreate is createTask as long as no response is lost. With an error it returns how far the call came.
func (r *run) tryToCreate(ctx context.Context, t *target, s step) (*task, error) {
	tk := &task{call: &call{target: t, as: s.As, at: s.At, able: taskCapabilities, canary: r.canary()}}
	if err := r.fill(tk.call); err != nil {
		return tk, err
	}
	if s.Capabilities == "no-tasks" {
		tk.call.able = allCapabilities
	}
	if t.free != "" {
		tk.argument = tk.call.text
	}
	honest := step{As: s.As, At: s.At}
	p, err := r.sendCall(ctx, tk.call, honest, nil, nil)
	for err == nil && t.ends && p.asks() && len(tk.call.replies) < maxRounds {
		p, err = r.answer(ctx, tk.call, honest)
	}
	if tk.newest = p; err == nil && usableID(p.taskID) {
		tk.id = p.taskID
	}
	return tk, err
}

// ask sends a request about a task, again while responses are lost: each of them may come twice.
func (r *run) ask(ctx context.Context, tk *task, q request) (*reply, error) {
	q.at = tk.call.at
	if q.able == "" {
		q.able = taskCapabilities
	}
	if q.params == nil {
		q.params = map[string]any{"taskId": tk.id}
	}
	res, err := retried(func() (*response, error) { return r.send(ctx, q) })
	if err != nil {
		return nil, err
	}
	p := r.readTask(res)
	last := len(tk.call.steps) - 1
	if before := tk.call.steps[last].request; q.method == "tasks/get" && before.method == q.method && before.as == q.as &&
		before.able == q.able && before.params["taskId"] == q.params["taskId"] {
		tk.call.steps = tk.call.steps[:last:last] // the newest of several is enough
	}
	tk.call.record(q, p, res.status)
	return p, nil
}

// get reads a task as its owner, when the server wishes it.
func (r *run) get(ctx context.Context, tk *task) (*reply, error) {
	select {
	case <-time.After(time.Until(tk.next)):
	case <-ctx.Done():
		return nil, r.line.stop(context.Cause(ctx).Error())
	}
	p, err := r.ask(ctx, tk, request{as: tk.call.as, method: "tasks/get"})
	if err != nil {
		return nil, err
	}
	if tk.next = time.Now().Add(r.pollPause(p.every)); p.class == refused {
		return p, nil
	}
	if tk.newest = p; len(tk.seen) < 2*maxPolls {
		tk.seen = append(tk.seen, p)
	}
	if p.class == done {
		r.ended(tk.id)
	}
	return p, nil
}

// pollPause is how long to wait between two requests for a task.
func (r *run) pollPause(millis float64) time.Duration {
	wish, most := time.Duration(min(max(millis, 0), 1e6))*time.Millisecond, maxPoll
	if r.local {
		most /= 8
	}
	if wish == 0 {
		wish = most / 2
	}
	return min(max(wish, minPoll), most)
}

// observe reads a task as its owner until it asks or has ended and, if there is a reply from before, has changed. It
// waits for a change so many requests long.
func (r *run) observe(ctx context.Context, tk *task, before *reply, polls int) (p *reply, err error) {
	for tk.polls = 1; ; tk.polls++ {
		if p, err = r.get(ctx, tk); err != nil || p.class == refused {
			return p, err
		}
		if before != nil && p.text != before.text {
			before, polls = nil, maxPolls
		}
		if before == nil && p.class != again || tk.polls >= polls {
			return p, nil
		}
	}
}

// update answers questions of a task as somebody.
func (r *run) update(ctx context.Context, tk *task, as, able string, asked []question, text string) (*reply, error) {
	answers := map[string]any{}
	for _, q := range asked {
		answers[q.key] = r.honest(tk.call.target, q, text)
	}
	return r.ask(ctx, tk, request{as: as, able: able, method: "tasks/update",
		params: map[string]any{"taskId": tk.id, "inputResponses": answers}})
}

// complete answers a task honestly to its end.
func (r *run) complete(ctx context.Context, tk *task) (p *reply, err error) {
	p = tk.newest
	for range maxRounds {
		if p.class != advanced {
			return p, nil
		}
		asked := p.questions
		if p, err = r.update(ctx, tk, tk.call.as, "", asked, tk.call.canary); err != nil || p.class == refused {
			return p, err
		}
		tk.answered = append(tk.answered, asked...)
		if p, err = r.observe(ctx, tk, tk.newest, maxPolls); err != nil || p.class == refused {
			return p, err
		}
		tk.call.target.lag = max(tk.call.target.lag, tk.polls)
	}
	return p, nil
}

// leave cancels a task that has not ended. What fails is done at the end of the run.
func (r *run) leave(ctx context.Context, tk *task) {
	if tk == nil || !slices.Contains(r.owed, owed{tk.call.as, tk.call.at, tk.id}) {
		return
	}
	if _, err := r.ask(ctx, tk, request{as: tk.call.as, method: "tasks/cancel"}); err == nil {
		r.ended(tk.id)
	}
}

// readTask makes a reply from a response to a request about a task: refused, advanced if the task asks, asked again
// while it works, and done when it has ended or when the response is an acknowledgement.
func (r *run) readTask(res *response) *reply {
	p := &reply{class: refused, result: res.result, raw: string(res.result)}
	if res.fault != nil {
		return p.refuse(res)
	}
	var result struct {
		TaskID, Status string
		InputRequests  map[string]inputRequest
		PollIntervalMs float64
		Result, Error  json.RawMessage
	}
	if err := json.Unmarshal(res.result, &result); err != nil {
		p.why = "the result cannot be read: " + cutText(err.Error())
		return p
	}
	if len(result.InputRequests) > maxQuestions {
		p.why = fmt.Sprintf("it asks %d questions at once, and this check reads %d", len(result.InputRequests), maxQuestions)
		return p
	}
	p.taskID, p.status, p.every = result.TaskID, result.Status, result.PollIntervalMs
	p.text = p.status + "\n" + r.mask(string(result.Result)+string(result.Error))
	switch p.status {
	case "input_required":
		p.class = advanced
	case "", "completed", "failed", "cancelled":
		p.class = done
	default:
		p.class = again
	}
	for _, q := range questionsOf(result.InputRequests) {
		p.questions = append(p.questions, q)
		p.text += r.mask(q.key + " " + q.method + " " + q.message + "\n")
	}
	return p
}

// exploreTask calls a tool with the extension, as far as it may be called. It looks for a tool that becomes a task at
// once, and for one that does so after rounds: two of them are judged. It reports whether the call has become a task.
func (r *run) exploreTask(ctx context.Context, t *target) bool {
	tk, err := retried(func() (*task, error) {
		tk, err := r.tryToCreate(ctx, t, step{})
		if len(tk.call.replies) > len(t.rounds) {
			t.rounds, t.text = tk.call.replies, tk.call.text
		}
		return tk, err
	})
	if err != nil || tk.id == "" {
		return false
	}
	defer r.leave(ctx, tk)
	t.rounds = nil
	late := len(tk.call.replies) > 1
	if slices.ContainsFunc(r.targets, func(o *target) bool { return o.task != nil && o.late() == late }) {
		return true
	}
	t.task = tk
	if p, err := r.observe(ctx, tk, nil, maxPolls); err == nil && p.class == advanced && t.ends {
		_, _ = r.complete(ctx, tk) // how far it came is in the task
	}
	return true
}

// late reports whether the target becomes a task after rounds.
func (t *target) late() bool { return len(t.task.call.replies) > 1 }

// taskRounds is how many times the task of a target asks.
func (t *target) taskRounds() (n int) {
	if t == nil || t.task == nil {
		return 0
	}
	last := ""
	for _, p := range t.task.seen {
		if p.class == advanced && p.text != last {
			n, last = n+1, p.text
		}
	}
	return n
}
