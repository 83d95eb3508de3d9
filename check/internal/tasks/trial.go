package tasks

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

// A Judge runs the probes of tasks, most of them between controls.
type Judge struct {
	*talk.Client
	OldTasks bool // the server says that it has the tasks of an earlier revision
}

// A trial is one run of the steps of a probe of tasks.
type trial struct {
	probe  corpus.Probe
	task   *talk.Task
	who    *string     // sends all the steps, in a control; nil is whom the steps name
	before *talk.Reply // the task before the attack
	judged *talk.Reply
	text   string // the canary that only the attack sends
	events *subscription
	steps  []talk.Exchange
	set    int // the number of recorded steps before the attack
}

// as is the identity that sends a step.
func (tr *trial) as(s corpus.Step) string {
	if tr.who != nil {
		return *tr.who
	}
	return s.As
}

// attacks reports whether a step is a part of the attack. The steps before the first such step prepare it.
func (tr *trial) attacks(s corpus.Step) bool {
	return s.As != "" || s.Answers != "" || s.Task != "" || s.Capabilities != "" || s.Do == "cancel" || s.Judged
}

// try runs the steps of a probe. It takes the task of an earlier trial, if nothing has happened to that task.
func (j *Judge) try(ctx context.Context, p corpus.Probe, t *talk.Target, who *string, earlier *trial) (*trial, error) {
	tr := &trial{probe: p, who: who, text: j.Canary()}
	first := 0
	if earlier != nil && earlier.before != nil && earlier.task.Newest.Like(earlier.before) {
		tr.task, tr.before, tr.set = earlier.task, earlier.before, earlier.set
		tr.task.Call.Steps = tr.task.Call.Steps[:tr.set:tr.set]
		for !tr.attacks(p.Steps[first]) {
			first++
		}
	} else if earlier != nil {
		j.Leave(ctx, earlier.task)
	}
	for _, s := range p.Steps[first:] {
		if err := j.takeStep(ctx, tr, t, s); err != nil {
			if tr.events != nil {
				tr.events.Close()
			}
			return tr, err
		}
		if s.Judged && tr.events == nil || tr.events.shows(tr.task) {
			break
		}
	}
	if tr.events != nil {
		tr.judged = j.lastEvent(ctx, tr, t)
	}
	tr.steps = slices.Clone(tr.task.Call.Steps)
	return tr, nil
}

// takeStep takes one step of a trial.
func (j *Judge) takeStep(ctx context.Context, tr *trial, t *talk.Target, s corpus.Step) (err error) {
	var p *talk.Reply
	as, capabilities := tr.as(s), ""
	if s.Capabilities == "no-tasks" {
		capabilities = transport.AllCapabilities
	}
	if tr.attacks(s) && tr.before == nil && s.Do != "create" {
		if err := j.prepared(ctx, tr); err != nil {
			return err
		}
	}
	switch s.Do {
	case "create":
		p, err = j.take(ctx, tr, t, corpus.Step{As: as, Capabilities: s.Capabilities}, s.Judged)
	case "finish":
		if p, err = j.Complete(ctx, tr.task); err == nil && p.Class != talk.Done {
			err = talk.NoVerdict("the task does not come to its end: "+p.Outcome(),
				"arguments and answers that fit, in the file of 'askback check init'")
		}
	case "get":
		p, err = j.look(ctx, tr, t, s, as, capabilities)
	case "update":
		asked, text := tr.task.Newest.Questions, tr.task.Call.Canary
		if tr.attacks(s) {
			text = tr.text
		}
		if s.Answers == "earlier" {
			if asked = tr.task.Answered; !j.takeText(t, asked) {
				return talk.NoVerdict("no question of the task takes a text", "")
			}
		}
		if p, err = j.Update(ctx, tr.task, as, capabilities, asked, text); err == nil && !tr.attacks(s) {
			tr.task.Answered = append(tr.task.Answered, asked...)
			_, err = j.Observe(ctx, tr.task, tr.task.Newest, talk.MaxPolls)
		}
	case "cancel":
		p, err = j.Ask(ctx, tr.task, transport.Request{As: as, Capabilities: capabilities, Method: "tasks/cancel"})
	case "list":
		p, err = j.Ask(ctx, tr.task, transport.Request{As: as, Capabilities: capabilities, Method: "tasks/list",
			Params: map[string]any{}})
	case "listen":
		tr.events, p, err = j.listen(ctx, tr.task, as, capabilities)
	default:
		err = talk.NoVerdict("this check does not know the step "+s.Do, "a newer version of the command")
	}
	if s.Judged {
		tr.judged = p
	}
	return err
}

// takeText reports whether the answer to one of the questions has a text of the check's own.
func (j *Judge) takeText(t *talk.Target, asked []talk.Question) bool {
	return slices.ContainsFunc(asked, func(q talk.Question) bool {
		answer, _ := json.Marshal(j.Honest(t, q, j.Argument)) // it is JSON
		return strings.Contains(string(answer), j.Argument)
	})
}

// take makes the task of a trial and reads it until it asks, unless the creation itself is judged.
func (j *Judge) take(
	ctx context.Context, tr *trial, t *talk.Target, s corpus.Step, judged bool,
) (p *talk.Reply, err error) {
	if tr.task, err = j.CreateTask(ctx, t, s); err != nil {
		return nil, err
	}
	switch {
	case judged:
		return tr.task.Newest, nil
	case tr.task.ID == "":
		return nil, talk.NoVerdict("the call does not become a task each time: "+tr.task.Newest.Outcome(), "")
	}
	polls := talk.MaxPolls
	if t.Task.Newest.Class == talk.Again {
		polls = 1 // it did not ask within the time of the first one
	}
	if p, err = j.Observe(ctx, tr.task, nil, polls); err == nil && p.Class == talk.Refused {
		err = talk.NoVerdict("the owner cannot read the task: "+p.Why, "")
	}
	return p, err
}

// prepared notes what the task is before the attack. One that has ended must not change by itself.
func (j *Judge) prepared(ctx context.Context, tr *trial) error {
	tr.before = tr.task.Newest
	if tr.before.Class == talk.Done {
		p, err := j.Get(ctx, tr.task)
		if err != nil {
			return err
		}
		if !p.Like(tr.before) {
			return talk.NoVerdict("a task that has ended changes by itself", "")
		}
	}
	tr.set = len(tr.task.Call.Steps)
	return nil
}

// look is the step get: the owner's waits for a change as long as an honest one takes.
func (j *Judge) look(
	ctx context.Context, tr *trial, t *talk.Target, s corpus.Step, as, capabilities string,
) (*talk.Reply, error) {
	tk := tr.task
	if s.Task == "unknown" {
		return j.getUnknown(ctx, tr)
	}
	if as != tk.Call.As || capabilities != "" {
		return j.Ask(ctx, tk, transport.Request{As: as, Capabilities: capabilities, Method: "tasks/get"})
	}
	polls := 1
	switch {
	case !tr.changes():
	case tr.who != nil: // a control, whose change has to come
		polls = talk.MaxPolls
	case t.Lag > 1:
		polls = 2 * t.Lag
	}
	p, err := j.Observe(ctx, tk, tr.before, polls)
	if tr.who != nil && tr.changes() {
		t.Lag = max(t.Lag, tk.Polls)
	}
	return p, err
}

// getUnknown asks for a task that nobody has. Its ID is like a real one if that is long enough to be nobody's.
func (j *Judge) getUnknown(ctx context.Context, tr *trial) (*talk.Reply, error) {
	tk, variant := tr.task, "random 7"
	id, err := alter.State(tk.ID, variant)
	if err != nil || len(tk.ID) < 20 {
		id = "askback-" + tr.text
	}
	j.Secrets.AddToken(id)
	p, err := j.Ask(ctx, tk, transport.Request{As: tk.Call.As, Method: "tasks/get", Params: map[string]any{"taskId": id}})
	if err == nil {
		last := &tk.Call.Steps[len(tk.Call.Steps)-1]
		last.Variant, last.From = variant, &tk.ID
	}
	return p, err
}

// changes reports whether the owner looks for what the attack has changed. Otherwise it is looked for what the judged
// response reveals.
func (tr *trial) changes() bool {
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

// proof returns the proof of a trial, if it counts for the probe. Control is the owner's, if there is one.
func (tr *trial) proof(control *trial) string {
	proof := tr.seen(control)
	if tr.probe.Verdicts[proof] == "" {
		return ""
	}
	return proof
}

func (tr *trial) seen(control *trial) string {
	aim, p, tk := aimOf(tr.probe), tr.judged, tr.task
	switch {
	case p == nil:
	case aim.Task == "unknown" && p.Class == talk.Refused:
		switch p.Code {
		case -32602:
		case 0: // something before the server may have answered
			return "suspicion"
		default:
			return "observation"
		}
	case aim.Task == "unknown":
		return "observation"
	case p.Class == talk.Refused:
	case aim.Capabilities != "":
		if p.TaskID != "" {
			return "observation"
		}
	case tr.changes():
		if strings.Contains(p.Raw, tr.text) {
			return "canary"
		}
		expired := p.Status == "failed" && tr.before.Status != "failed" // after its ttlMs a task may fail
		if p.Text != tr.before.Text && (control == nil && !expired || control != nil && p.Like(control.judged)) {
			return "difference"
		}
	case tells(tk, p.Result):
		return "canary"
	case aim.Do == "get" && control != nil && p.Status != control.judged.Status:
	case talk.TaskStatus(p.Result, tk.ID) != "":
		return "difference"
	}
	return ""
}

// tells reports whether a message has a text that only the owner of the task has sent.
func tells(tk *talk.Task, message []byte) bool {
	return strings.Contains(string(message), tk.Call.Canary) ||
		tk.Argument != "" && strings.Contains(string(message), tk.Argument)
}

// aimOf is the step whose response counts.
func aimOf(p corpus.Probe) corpus.Step {
	return p.Steps[slices.IndexFunc(p.Steps, func(s corpus.Step) bool { return s.Judged })]
}
