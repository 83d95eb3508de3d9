package check

import (
	"slices"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/trial"
)

// applies reports whether a probe is for a target, or for the server as a whole, which has no target.
func (r *run) applies(p corpus.Probe, t *talk.Target) bool {
	switch p.Family {
	case "client":
		return false
	case "questions":
		return (p.Reads == "other-request") == (t == nil) && (t == nil || t.Asks())
	case "state", "answers":
		return t != nil && t.Asks() || t == nil && !slices.ContainsFunc(r.server.Targets, (*talk.Target).Asks)
	case "tasks":
		becomes := func(t *talk.Target) bool { return t != nil && t.Task != nil }
		return becomes(t) ||
			t == nil && (r.Line.MakesTasks || len(r.Only) > 0) && !slices.ContainsFunc(r.server.Targets, becomes)
	case "endpoint": // once, and after one target, in case the requests do not last for all
		return len(r.server.Targets) == 0 || t == r.server.Targets[0]
	}
	return t == nil
}

// needs are the conditions of probes: whether they hold, and what to do if not.
var needs = map[string]struct {
	holds       func(*run, *talk.Target) bool
	why, remedy string
}{
	"asks":             {func(_ *run, t *talk.Target) bool { return t != nil && t.Asks() }, "nothing asks", ""},
	"asks-elicitation": {asks("elicitation/create", ""), "it asks the user nothing", ""},
	"asks-form":        {asks("elicitation/create", "form"), "it asks nothing by a form", ""},
	"asks-url":         {asks("elicitation/create", "url"), "it asks nothing by a URL", ""},
	"state": {func(_ *run, t *talk.Target) bool { return t != nil && t.StateRound() > 0 },
		"its rounds have no state", ""},
	"ends": {func(_ *run, t *talk.Target) bool { return t != nil && t.Ends },
		"it may not be called to its end", "--allow its name, if that does no harm"},
	"second": {func(r *run, _ *talk.Target) bool { return r.Second != nil && !r.Plan.OneIdentity },
		"there is only one identity", "--other-header 'Authorization: …' with the token of another principal"},
	"free-argument": {func(_ *run, t *talk.Target) bool { return t != nil && t.Free != "" },
		"it has no argument that takes any text", ""},
	"other-target": {func(r *run, t *talk.Target) bool {
		return t != nil && trial.OtherTarget(r.server.Targets, t, "other-target") != nil
	},
		"nothing else of its kind asks with a state", ""},
	"other-method": {func(r *run, t *talk.Target) bool {
		return t != nil && trial.OtherTarget(r.server.Targets, t, "other-method") != nil
	},
		"nothing of another kind asks with a state", ""},
	"ttl": {func(r *run, _ *talk.Target) bool { return r.Plan.TTL > 0 && time.Duration(r.Plan.TTL) <= 5*time.Minute },
		"it is not known how long a state is valid", "stateTTL in the file, at most 5m"},
	"once": {func(_ *run, t *talk.Target) bool { return t != nil && t.Plan.Once },
		"nothing says that a state counts once", "once: true for it in the file, if that is what the server promises"},
	"replica": {func(r *run, _ *talk.Target) bool { return r.Plan.Replica != "" },
		"there is one server", "replica in the file: the URL of another instance with the same keys"},
	"elsewhere": {func(r *run, _ *talk.Target) bool { return r.Plan.Elsewhere != "" },
		"there is one server", "elsewhere in the file: the URL of a server with other keys"},
	"becomes-task": {func(_ *run, t *talk.Target) bool { return t != nil && t.Task != nil },
		"no call becomes a task", ""},
	"task-asks": {func(_ *run, t *talk.Target) bool { return t.TaskRounds() > 0 }, "its task asks nothing", ""},
	"task-asks-twice": {func(_ *run, t *talk.Target) bool { return t.TaskRounds() > 1 },
		"its task asks once", "a task that asks two questions, one after the other"},
	"http": {func(r *run, _ *talk.Target) bool { return len(r.Server.Program) == 0 },
		"it is no server over HTTP", ""},
	"local": {func(r *run, _ *talk.Target) bool { return r.Line.Local },
		"it is not on this machine: elsewhere, a server may serve the pages of every origin",
		"the same check on the machine of the server, with its address 127.0.0.1"},
	"load": {func(r *run, _ *talk.Target) bool { return r.Load },
		"it sends what is large, many or long", "--load, on a server that may fail"},
}

func asks(method, mode string) func(*run, *talk.Target) bool {
	return func(_ *run, t *talk.Target) bool {
		if t == nil {
			return false
		}
		return slices.ContainsFunc(t.Rounds, func(p *talk.Reply) bool {
			return slices.ContainsFunc(p.Questions, func(q talk.Question) bool {
				return q.Method == method && (mode == "" || q.Mode == mode)
			})
		})
	}
}

// unmet returns the first condition of a probe that does not hold.
func (r *run) unmet(p corpus.Probe, t *talk.Target) error {
	for _, name := range p.Needs {
		need, ok := needs[name]
		if !ok {
			return talk.NoVerdict("this check does not know the condition "+name, "a newer version of the command")
		}
		if !need.holds(r, t) {
			return talk.NoVerdict(need.why, need.remedy)
		}
	}
	return nil
}
