// Package tasks runs the probes of tasks: who can read, answer, cancel and list them, and how they end.
package tasks

import (
	"context"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/verdict"
)

// Run runs a probe of tasks between its controls.
func (j *Judge) Run(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	if p.Reads != "" {
		return j.judgeReading(ctx, p, t, v)
	}
	control, err := j.taskControls(ctx, p, t, v)
	if err != nil || v.Level == findings.Pass {
		return err
	}
	var attempts []verdict.Attempt
	var last *trial
	defer func() {
		if last != nil {
			j.Leave(ctx, last.task)
		}
	}()
	for range verdict.Repeats {
		if last, err = j.try(ctx, p, t, nil, last); err != nil {
			return err
		}
		attempts = append(attempts, verdict.Attempt{Reply: last.judged, Proof: last.proof(control), Steps: last.steps})
	}
	if err := j.stillWorks(ctx, p, last); err != nil {
		return err
	}
	if aimOf(p).Do == "get" && slices.ContainsFunc(attempts,
		func(a verdict.Attempt) bool { return a.Proof == "difference" }) {
		if err := j.refusesUnknown(ctx, last); err != nil {
			return err
		}
	}
	return j.concludeTasks(p, v, attempts)
}

// refusesUnknown is the control of a status that somebody else got: an ID that nobody has must have none.
func (j *Judge) refusesUnknown(ctx context.Context, tr *trial) error {
	p, err := j.getUnknown(ctx, tr)
	if err == nil && p.Class != talk.Refused {
		err = talk.NoVerdict("the server has a status for tasks that nobody has, too", "")
	}
	return err
}

// taskControls runs the steps as the owner alone, and as the second identity alone, if the attack has both. The effect
// has to be seen each time. Without an effect for the owner there is nothing that somebody else could see in a list.
func (j *Judge) taskControls(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) (*trial, error) {
	if !slices.Contains(p.Needs, "second") {
		return nil, nil
	}
	var owner *trial
	for _, who := range []string{"", "second"} {
		tr, err := j.try(ctx, p, t, &who, nil)
		if j.Leave(ctx, tr.task); err != nil {
			return nil, err
		}
		switch {
		case tr.proof(nil) != "":
		case who == "" && aimOf(p).Do == "list":
			return nil, verdict.Pass(v, "the owner's own list does not show the task: %s", tr.judged.Outcome())
		case who == "":
			return nil, talk.NoVerdict("the same request has no effect for the owner: "+tr.judged.Outcome(), "")
		default:
			return nil, talk.NoVerdict("the second identity cannot do it with its own task: "+tr.judged.Outcome(),
				"a second identity that may call it")
		}
		if who == "" {
			owner = tr
		}
	}
	return owner, nil
}

// stillWorks is the control after an attack without an effect: the owner reads the task, and its result has what the
// owner has said, if it is what the attack was to replace.
func (j *Judge) stillWorks(ctx context.Context, p corpus.Probe, tr *trial) error {
	if tr.task.ID == "" || tr.before == nil || tr.proof(nil) != "" {
		return nil
	}
	after, err := j.Get(ctx, tr.task)
	if err != nil {
		return err
	}
	if after.Class == talk.Refused && tr.before.Class != talk.Done {
		return talk.NoVerdict("after the attack the owner cannot read the task: "+after.Why, "")
	}
	if aimOf(p).Do == "finish" && !strings.Contains(after.Raw, tr.task.Call.Canary) {
		return talk.NoVerdict("the result does not show what was answered", "a target whose result shows it")
	}
	return nil
}

// concludeTasks makes a verdict from the attempts. What is not seen each time is a suspicion.
func (j *Judge) concludeTasks(p corpus.Probe, v *findings.Verdict, attempts []verdict.Attempt) error {
	for _, proof := range []string{"canary", "difference", "observation", "suspicion"} {
		n, _, last := verdict.Strongest(attempts, proof)
		if n == 0 || p.Verdicts[proof] == "" {
			continue
		}
		return verdict.FoundTimes(p, v, proof, last.Steps, n, "%s, %d times of %d", describeTask(p, proof, last.Reply), n,
			len(attempts))
	}
	if attempts[0].Reply.Class == talk.Refused {
		return verdict.Pass(v, "%s, %d times of %d", attempts[0].Reply.Outcome(), len(attempts), len(attempts))
	}
	return verdict.Pass(v, "it had no effect, %d times of %d", len(attempts), len(attempts))
}

// describeTask says in words what was seen.
func describeTask(p corpus.Probe, proof string, came *talk.Reply) string {
	aim, second := aimOf(p), slices.Contains(p.Needs, "second")
	switch {
	case aim.Task == "unknown" && came.Class == talk.Refused:
		return "a task that does not exist is answered with " + came.Why
	case aim.Task == "unknown":
		return "a task that does not exist is answered with a result"
	case aim.Capabilities != "":
		return "a client without the extension got a task"
	case !second && proof == "canary":
		return "a text that only the second answer has brought in came back in the task"
	case !second:
		return "a task that had ended is now " + talk.CutText(came.Status)
	case proof == "canary" && aim.As == "":
		return "a text that only the second principal has sent came back in the task"
	case proof == "canary":
		return "a text that only the owner has sent came to the second principal"
	case aim.As == "":
		return "the owner sees the task changed, as by a request of their own"
	}
	return "the second principal got the ID of the task with its status"
}
