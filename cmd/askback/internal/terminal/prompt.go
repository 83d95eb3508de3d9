package terminal

// action is the person's decision about a question.
type action string

const (
	cancel    action = "cancel"
	decline   action = "decline"
	accept    action = "accept"
	later     action = "later"  // the question stays open
	change    action = "change" // go back from the review
	stay      action = "stay"   // go back to a form that was about to be left
	interrupt action = "interrupt"
)

// meanings tell apart the ways to leave a question.
var meanings = map[action]string{
	later:   "later leaves the question open",
	decline: "decline tells the server no",
	cancel:  "cancel leaves without a decision",
}

// prompt is one question, on a screen or line by line.
type prompt struct {
	server string // safe to show
	asks   string // the words after the server's name
	body   []block
	fields []*field
	accept string // the name of accepting; empty if the question cannot be accepted
	done   string // what the record says after accepting
	review bool   // show the answers before they are accepted
	later  bool   // the question can be put off
}

// name is the name of an action.
func (p *prompt) name(a action) string {
	return map[action]string{accept: p.accept, change: "Change", stay: "Go back", later: "Later", decline: "Decline",
		cancel: "Cancel"}[a]
}

// outcome is the line of the record about the decision.
func (p *prompt) outcome(a action) string {
	return map[action]string{
		accept:  p.done,
		later:   "Put off: the question stays open.",
		decline: "Declined: the server is told no.",
		cancel:  "Cancelled: the server is told that there is no decision.",
	}[a]
}

// actions are the actions to choose from. Reviewing says that the person sees the answers together.
func (p *prompt) actions(reviewing bool) []action {
	switch {
	case p.accept == "":
		return p.ways()
	case reviewing && len(p.fields) > 0:
		return append([]action{accept, change}, p.ways()...)
	}
	return append([]action{accept}, p.ways()...)
}

// ways are the ways to leave the question.
func (p *prompt) ways() []action {
	if p.later {
		return []action{later, decline, cancel}
	}
	return []action{decline, cancel}
}

// unanswered is the outcome of a question whose person is gone.
func (p *prompt) unanswered() action {
	if p.later {
		return later
	}
	return cancel
}
