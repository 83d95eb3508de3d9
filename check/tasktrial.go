package check

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

// taskTrial is one run of the steps of a probe of tasks.
type taskTrial struct {
	probe  corpus.Probe
	task   *task
	who    *string // sends all the steps, in a control; nil is whom the steps name
	before *reply  // the task before the attack
	judged *reply
	text   string // the canary that only the attack sends
	events *subscription
	steps  []recorded
	set    int // the number of recorded steps before the attack
}

// as is the identity that sends a step.
func (tr *taskTrial) as(s step) string {
	if tr.who != nil {
		return *tr.who
	}
	return s.As
}

// attacks reports whether a step is a part of the attack. The steps before the first such step prepare it.
func (tr *taskTrial) attacks(s step) bool {
	return s.As != "" || s.Answers != "" || s.Task != "" || s.Capabilities != "" || s.Do == "cancel" || s.Judged
}

// try runs the steps of a probe. It takes the task of an earlier trial, if nothing has happened to that task.
func (r *run) try(ctx context.Context, p corpus.Probe, t *target, who *string, earlier *taskTrial) (*taskTrial, error) {
	tr := &taskTrial{probe: p, who: who, text: r.canary()}
	first := 0
	if earlier != nil && earlier.before != nil && earlier.task.newest.like(earlier.before) {
		tr.task, tr.before, tr.set = earlier.task, earlier.before, earlier.set
		tr.task.call.steps = tr.task.call.steps[:tr.set:tr.set]
		for !tr.attacks(p.Steps[first]) {
			first++
		}
	} else if earlier != nil {
		r.leave(ctx, earlier.task)
	}
	for _, s := range p.Steps[first:] {
		if err := r.takeStep(ctx, tr, t, s); err != nil {
			if tr.events != nil {
				tr.events.close()
			}
			return tr, err
		}
		if s.Judged && tr.events == nil || tr.events.shows(tr.task) {
			break
		}
	}
	if tr.events != nil {
		tr.judged = r.hear(ctx, tr, t)
	}
	tr.steps = slices.Clone(tr.task.call.steps)
	return tr, nil
}

// takeStep takes one step of a trial.
func (r *run) takeStep(ctx context.Context, tr *taskTrial, t *target, s step) (err error) {
	var p *reply
	as, able := tr.as(s), ""
	if s.Capabilities == "no-tasks" {
		able = allCapabilities
	}
	if tr.attacks(s) && tr.before == nil && s.Do != "create" {
		if err := r.prepared(ctx, tr); err != nil {
			return err
		}
	}
	switch s.Do {
	case "create":
		p, err = r.take(ctx, tr, t, step{As: as, Capabilities: s.Capabilities}, s.Judged)
	case "finish":
		if p, err = r.complete(ctx, tr.task); err == nil && p.class != done {
			err = &notJudged{"the task does not come to its end: " + p.outcome(),
				"arguments and answers that fit, in the file of 'askback check init'"}
		}
	case "get":
		p, err = r.look(ctx, tr, t, s, as, able)
	case "update":
		asked, text := tr.task.newest.questions, tr.task.call.canary
		if tr.attacks(s) {
			text = tr.text
		}
		if s.Answers == "earlier" {
			if asked = tr.task.answered; !r.takeText(t, asked) {
				return &notJudged{"no question of the task takes a text", ""}
			}
		}
		if p, err = r.update(ctx, tr.task, as, able, asked, text); err == nil && !tr.attacks(s) {
			tr.task.answered = append(tr.task.answered, asked...)
			_, err = r.observe(ctx, tr.task, tr.task.newest, maxPolls)
		}
	case "cancel":
		p, err = r.ask(ctx, tr.task, request{as: as, able: able, method: "tasks/cancel"})
	case "list":
		p, err = r.ask(ctx, tr.task, request{as: as, able: able, method: "tasks/list", params: map[string]any{}})
	case "listen":
		tr.events, p, err = r.listen(ctx, tr.task, as, able)
	default:
		err = &notJudged{"this check does not know the step " + s.Do, "a newer version of the command"}
	}
	if s.Judged {
		tr.judged = p
	}
	return err
}

// takeText reports whether the answer to one of the questions has a text of the check's own.
func (r *run) takeText(t *target, asked []question) bool {
	return slices.ContainsFunc(asked, func(q question) bool {
		answer, _ := json.Marshal(r.honest(t, q, r.argument)) // it is JSON
		return strings.Contains(string(answer), r.argument)
	})
}

// take makes the task of a trial and reads it until it asks, unless it is what is judged.
func (r *run) take(ctx context.Context, tr *taskTrial, t *target, s step, judged bool) (p *reply, err error) {
	if tr.task, err = r.createTask(ctx, t, s); err != nil {
		return nil, err
	}
	switch {
	case judged:
		return tr.task.newest, nil
	case tr.task.id == "":
		return nil, &notJudged{"the call does not become a task each time: " + tr.task.newest.outcome(), ""}
	}
	polls := maxPolls
	if t.task.newest.class == again {
		polls = 1 // it did not ask within the time of the first one
	}
	if p, err = r.observe(ctx, tr.task, nil, polls); err == nil && p.class == refused {
		err = &notJudged{"the owner cannot read the task: " + p.why, ""}
	}
	return p, err
}

// prepared notes what the task is before the attack. One that has ended must not change by itself.
func (r *run) prepared(ctx context.Context, tr *taskTrial) error {
	tr.before = tr.task.newest
	if tr.before.class == done {
		p, err := r.get(ctx, tr.task)
		if err != nil {
			return err
		}
		if !p.like(tr.before) {
			return &notJudged{"a task that has ended changes by itself", ""}
		}
	}
	tr.set = len(tr.task.call.steps)
	return nil
}

// look is the step get: the owner's waits for a change as long as an honest one takes.
func (r *run) look(ctx context.Context, tr *taskTrial, t *target, s step, as, able string) (*reply, error) {
	tk := tr.task
	if s.Task == "unknown" {
		return r.getUnknown(ctx, tr)
	}
	if as != tk.call.as || able != "" {
		return r.ask(ctx, tk, request{as: as, able: able, method: "tasks/get"})
	}
	polls := 1
	switch {
	case !tr.changes():
	case tr.who != nil: // a control, whose change has to come
		polls = maxPolls
	case t.lag > 1:
		polls = 2 * t.lag
	}
	p, err := r.observe(ctx, tk, tr.before, polls)
	if tr.who != nil && tr.changes() {
		t.lag = max(t.lag, tk.polls)
	}
	return p, err
}

// getUnknown asks for a task that nobody has. Its ID is like a real one if that is long enough to be nobody's.
func (r *run) getUnknown(ctx context.Context, tr *taskTrial) (*reply, error) {
	tk, variant := tr.task, "random 7"
	id, err := alter.State(tk.id, variant)
	if err != nil || len(tk.id) < 20 {
		id = "askback-" + tr.text
	}
	r.secret(id)
	p, err := r.ask(ctx, tk, request{as: tk.call.as, method: "tasks/get", params: map[string]any{"taskId": id}})
	if err == nil {
		last := &tk.call.steps[len(tk.call.steps)-1]
		last.variant, last.from = variant, &tk.id
	}
	return p, err
}

// changes reports whether the owner looks for what the attack has changed. Otherwise it is looked for what the judged
// response reveals.
func (tr *taskTrial) changes() bool {
	for _, s := range tr.probe.Steps {
		if s.Judged {
			return false
		}
		if tr.attacks(s) {
			return true
		}
	}
	return false
}

// proof is what a trial proves, of the proofs that count for the probe. Control is the owner's, if there is one.
func (tr *taskTrial) proof(control *taskTrial) string {
	proof := tr.seen(control)
	if tr.probe.Verdicts[proof] == "" {
		return ""
	}
	return proof
}

func (tr *taskTrial) seen(control *taskTrial) string {
	aim, p, tk := aimOf(tr.probe), tr.judged, tr.task
	switch {
	case p == nil:
	case aim.Task == "unknown" && p.class == refused:
		switch p.code {
		case -32602:
		case 0: // something before the server may have answered
			return "suspicion"
		default:
			return "observation"
		}
	case aim.Task == "unknown":
		return "observation"
	case p.class == refused:
	case aim.Capabilities != "":
		if p.taskID != "" {
			return "observation"
		}
	case tr.changes():
		if strings.Contains(p.raw, tr.text) {
			return "canary"
		}
		expired := p.status == "failed" && tr.before.status != "failed" // which a server may say after the ttlMs
		if p.text != tr.before.text && (control == nil && !expired || control != nil && p.like(control.judged)) {
			return "difference"
		}
	case tk.tells(p.result):
		return "canary"
	case aim.Do == "get" && control != nil && p.status != control.judged.status:
	case shows(p.result, tk.id) != "":
		return "difference"
	}
	return ""
}

// tells reports whether a message has a text that only the owner of the task has sent.
func (tk *task) tells(message []byte) bool {
	return strings.Contains(string(message), tk.call.canary) ||
		tk.argument != "" && strings.Contains(string(message), tk.argument)
}

// revealed reports whether a message reveals the task.
func (tk *task) revealed(message []byte) bool {
	return tk.tells(message) || shows(message, tk.id) != ""
}

// judgeTasks runs a probe of tasks between its controls.
func (r *run) judgeTasks(ctx context.Context, p corpus.Probe, t *target, v *findings.Verdict) error {
	if p.Reads != "" {
		return r.judgeTaskReading(ctx, p, t, v)
	}
	control, err := r.taskControls(ctx, p, t, v)
	if err != nil || v.Level == findings.Pass {
		return err
	}
	var attempts []attempt
	var last *taskTrial
	defer func() {
		if last != nil {
			r.leave(ctx, last.task)
		}
	}()
	for range repeats {
		if last, err = r.try(ctx, p, t, nil, last); err != nil {
			return err
		}
		attempts = append(attempts, attempt{reply: last.judged, proof: last.proof(control), steps: last.steps})
	}
	if err := r.stillWorks(ctx, p, last); err != nil {
		return err
	}
	if aimOf(p).Do == "get" && slices.ContainsFunc(attempts, func(a attempt) bool { return a.proof == "difference" }) {
		if err := r.refusesUnknown(ctx, last); err != nil {
			return err
		}
	}
	return r.concludeTasks(p, v, attempts)
}

// refusesUnknown is the control of a status that somebody else got: an ID that nobody has must have none.
func (r *run) refusesUnknown(ctx context.Context, tr *taskTrial) error {
	p, err := r.getUnknown(ctx, tr)
	if err == nil && p.class != refused {
		err = &notJudged{"the server has a status for tasks that nobody has, too", ""}
	}
	return err
}

// taskControls runs the steps as the owner alone, and as the second identity alone, if the attack has both. The effect
// has to be seen each time. Without an effect for the owner there is nothing that somebody else could see in a list.
func (r *run) taskControls(ctx context.Context, p corpus.Probe, t *target, v *findings.Verdict) (*taskTrial, error) {
	if !slices.Contains(p.Needs, "second") {
		return nil, nil
	}
	var owner *taskTrial
	for _, who := range []string{"", "second"} {
		tr, err := r.try(ctx, p, t, &who, nil)
		if r.leave(ctx, tr.task); err != nil {
			return nil, err
		}
		switch {
		case tr.proof(nil) != "":
		case who == "" && aimOf(p).Do == "list":
			return nil, pass(v, "the owner's own list does not show the task: %s", tr.judged.outcome())
		case who == "":
			return nil, &notJudged{"the same request has no effect for the owner: " + tr.judged.outcome(), ""}
		default:
			return nil, &notJudged{"the second identity cannot do it with its own task: " + tr.judged.outcome(),
				"a second identity that may call it"}
		}
		if who == "" {
			owner = tr
		}
	}
	return owner, nil
}

// aimOf is the step whose response counts.
func aimOf(p corpus.Probe) step {
	return p.Steps[slices.IndexFunc(p.Steps, func(s step) bool { return s.Judged })]
}

// stillWorks is the control after an attack without an effect: the owner reads the task, and its result has what the
// owner has said, if it is what the attack was to replace.
func (r *run) stillWorks(ctx context.Context, p corpus.Probe, tr *taskTrial) error {
	if tr.task.id == "" || tr.before == nil || tr.proof(nil) != "" {
		return nil
	}
	after, err := r.get(ctx, tr.task)
	if err != nil {
		return err
	}
	if after.class == refused && tr.before.class != done {
		return &notJudged{"after the attack the owner cannot read the task: " + after.why, ""}
	}
	if aimOf(p).Do == "finish" && !strings.Contains(after.raw, tr.task.call.canary) {
		return &notJudged{"the result does not show what was answered", "a target whose result shows it"}
	}
	return nil
}

// concludeTasks makes a verdict from the attempts. What is not seen each time is a suspicion.
func (r *run) concludeTasks(p corpus.Probe, v *findings.Verdict, attempts []attempt) error {
	for _, proof := range []string{"canary", "difference", "observation", "suspicion"} {
		n, _, last := strongest(attempts, proof)
		if n == 0 || p.Verdicts[proof] == "" {
			continue
		}
		err := r.found(p, v, proof, last.steps, "%s, %d times of %d", describeTask(p, proof, last.reply), n, len(attempts))
		if n < repeats && v.Level == findings.Fail {
			v.Level = findings.Warn
		}
		return err
	}
	if attempts[0].reply.class == refused {
		return pass(v, "%s, %d times of %d", attempts[0].reply.outcome(), len(attempts), len(attempts))
	}
	return pass(v, "it had no effect, %d times of %d", len(attempts), len(attempts))
}

// describeTask says what was seen.
func describeTask(p corpus.Probe, proof string, came *reply) string {
	aim, second := aimOf(p), slices.Contains(p.Needs, "second")
	switch {
	case aim.Task == "unknown" && came.class == refused:
		return "a task that does not exist is answered with " + came.why
	case aim.Task == "unknown":
		return "a task that does not exist is answered with a result"
	case aim.Capabilities != "":
		return "a client without the extension got a task"
	case !second && proof == "canary":
		return "a text that only the second answer has brought in came back in the task"
	case !second:
		return "a task that had ended is now " + cutText(came.status)
	case proof == "canary" && aim.As == "":
		return "a text that only the second principal has sent came back in the task"
	case proof == "canary":
		return "a text that only the owner has sent came to the second principal"
	case aim.As == "":
		return "the owner sees the task changed, as by a request of their own"
	}
	return "the second principal got the ID of the task with its status"
}
