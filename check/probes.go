package check

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
)

// honest is the step of a client that sends to the same place, under the same name, and alters nothing.
func honest(s step) step { return step{As: s.As, At: s.At} }

// applies reports whether a probe is for a target, or for the server as a whole, which has no target.
func (r *run) applies(p corpus.Probe, t *target) bool {
	switch p.Family {
	case "client":
		return false
	case "questions":
		return (p.Reads == "other-request") == (t == nil) && (t == nil || t.asks())
	case "state", "answers":
		return t != nil && t.asks() || t == nil && !slices.ContainsFunc(r.targets, (*target).asks)
	case "tasks":
		becomes := func(t *target) bool { return t != nil && t.task != nil }
		return becomes(t) ||
			t == nil && (r.declares || len(r.Only) > 0) && !slices.ContainsFunc(r.targets, becomes)
	case "endpoint": // once, and after one target, in case the requests do not last for all
		return len(r.targets) == 0 || t == r.targets[0]
	}
	return t == nil
}

// needs are the conditions of probes: whether they hold, and what to do if not.
var needs = map[string]struct {
	holds       func(*run, *target) bool
	why, remedy string
}{
	"asks":             {func(_ *run, t *target) bool { return t != nil && t.asks() }, "nothing asks", ""},
	"asks-elicitation": {asks("elicitation/create", ""), "it asks the user nothing", ""},
	"asks-form":        {asks("elicitation/create", "form"), "it asks nothing by a form", ""},
	"asks-url":         {asks("elicitation/create", "url"), "it asks nothing by a URL", ""},
	"state": {func(_ *run, t *target) bool { return t != nil && t.stateRound() > 0 },
		"its rounds have no state", ""},
	"ends": {func(_ *run, t *target) bool { return t != nil && t.ends },
		"it may not be called to its end", "--allow its name, if that does no harm"},
	"second": {func(r *run, _ *target) bool { return r.Second != nil && !r.Plan.OneIdentity },
		"there is only one identity", "--other-header 'Authorization: …' with the token of another principal"},
	"free-argument": {func(_ *run, t *target) bool { return t != nil && t.free != "" },
		"it has no argument that takes any text", ""},
	"other-target": {func(r *run, t *target) bool { return t != nil && r.other(t, "other-target") != nil },
		"nothing else of its kind asks with a state", ""},
	"other-method": {func(r *run, t *target) bool { return t != nil && r.other(t, "other-method") != nil },
		"nothing of another kind asks with a state", ""},
	"ttl": {func(r *run, _ *target) bool { return r.Plan.TTL > 0 && time.Duration(r.Plan.TTL) <= 5*time.Minute },
		"it is not known how long a state is valid", "stateTTL in the file, at most 5m"},
	"once": {func(_ *run, t *target) bool { return t != nil && t.plan.Once },
		"nothing says that a state counts once", "once: true for it in the file, if that is what the server promises"},
	"replica": {func(r *run, _ *target) bool { return r.Plan.Replica != "" },
		"there is one server", "replica in the file: the URL of another instance with the same keys"},
	"elsewhere": {func(r *run, _ *target) bool { return r.Plan.Elsewhere != "" },
		"there is one server", "elsewhere in the file: the URL of a server with other keys"},
	"becomes-task": {func(_ *run, t *target) bool { return t != nil && t.task != nil },
		"no call becomes a task", ""},
	"task-asks": {func(_ *run, t *target) bool { return t.taskRounds() > 0 }, "its task asks nothing", ""},
	"task-asks-twice": {func(_ *run, t *target) bool { return t.taskRounds() > 1 },
		"its task asks once", "a task that asks two questions, one after the other"},
	"http": {func(r *run, _ *target) bool { return len(r.Server.Program) == 0 },
		"it is no server over HTTP", ""},
	"local": {func(r *run, _ *target) bool { return r.local },
		"it is not on this machine: elsewhere, a server may serve the pages of every origin",
		"the same check on the machine of the server, with its address 127.0.0.1"},
	"load": {func(r *run, _ *target) bool { return r.Load },
		"it sends what is large, many or long", "--load, on a server that may fail"},
}

func asks(method, mode string) func(*run, *target) bool {
	return func(_ *run, t *target) bool {
		if t == nil {
			return false
		}
		return slices.ContainsFunc(t.rounds, func(p *reply) bool {
			return slices.ContainsFunc(p.questions, func(q question) bool {
				return q.method == method && (mode == "" || q.mode == mode)
			})
		})
	}
}

// unmet returns the first condition of a probe that does not hold.
func (r *run) unmet(p corpus.Probe, t *target) error {
	for _, name := range p.Needs {
		need, ok := needs[name]
		if !ok {
			return &notJudged{"this check does not know the condition " + name, "a newer version of the command"}
		}
		if !need.holds(r, t) {
			return &notJudged{need.why, need.remedy}
		}
	}
	return nil
}

// undeclared reports whether a client with these capabilities must not be asked this.
func (q question) undeclared(able string) bool {
	var has struct {
		Elicitation     map[string]json.RawMessage
		Sampling, Roots json.RawMessage
	}
	_ = json.Unmarshal([]byte(able), &has) // the JSON is ours
	switch q.method {
	case "elicitation/create":
		_, form := has.Elicitation["form"]
		_, url := has.Elicitation["url"]
		return has.Elicitation == nil || q.mode == "url" && !url || q.mode == "form" && url && !form
	case "sampling/createMessage":
		return has.Sampling == nil
	case "roots/list":
		return has.Roots == nil
	}
	return false
}

func sortedKeys(m map[string]bool) []string {
	keys := slices.Sorted(maps.Keys(m))
	for i := range keys {
		keys[i] = strings.TrimSpace(keys[i])
	}
	return keys
}
