package talk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/internal/excerpt"
)

const (
	maxQuestions = 50       // of a round that are read
	maxText      = 64 << 10 // bytes of a result, a question or a schema that are kept
)

// A Class is the outcome of a request.
type Class string

// The classes.
const (
	Refused  Class = "refused"
	Again    Class = "asked again" // the questions of an earlier round
	Advanced Class = "advanced"    // other questions
	Done     Class = "done"
)

// A Question is an input request, or one of a task.
type Question struct {
	Key, Method, Mode, Message, URL string
	Schema                          json.RawMessage
}

// A Reply is a response, as far as verdicts look at it.
type Reply struct {
	Class     Class
	Text      string // what it says, with the texts of the run and what changes each time left out
	Raw       string // the same as it came
	Echoed    bool   // the state of the request is in it
	Own       string // the text of the call's arguments, if it is in it
	Why       string // of a refusal
	Empty     bool   // it asks for input, with neither a question nor a state
	Questions []Question
	State     *string
	StateSize int // bytes, also of a state that is too long to be kept
	Result    json.RawMessage
	Code      int // of an error

	// Of a task.
	TaskID, Status string
	every          float64 // its pollIntervalMs
}

// Asks reports whether the reply has questions.
func (p *Reply) Asks() bool { return p.Class == Again || p.Class == Advanced }

// Progresses reports that the request had an effect: a result, or the questions of a later round.
func (p *Reply) Progresses() bool { return p.Class == Done || p.Class == Advanced }

// Like reports that two responses say the same.
func (p *Reply) Like(other *Reply) bool {
	return p.Class == other.Class && (p.Class == Refused || p.Text == other.Text)
}

// Repeats reports that a reply asks what an earlier one has asked, although perhaps in other words.
func (p *Reply) Repeats(earlier *Reply) bool {
	return p.Asks() && earlier.Asks() && slices.EqualFunc(p.Questions, earlier.Questions, func(a, b Question) bool {
		return a.Key == b.Key && a.Method == b.Method && a.Mode == b.Mode && bytes.Equal(a.Schema, b.Schema)
	})
}

// Outcome is the class, with the reason of a refusal.
func (p *Reply) Outcome() string {
	if p.Why != "" {
		return string(p.Class) + " (" + p.Why + ")"
	}
	return string(p.Class)
}

// Refuse makes the reply of a response that is an error.
func (p *Reply) Refuse(res *transport.Response) *Reply {
	p.Code = res.Fault.Code
	p.Why = strings.TrimSpace(fmt.Sprintf("%d %s", res.Fault.Code, CutText(res.Fault.Message)))
	return p
}

type inputRequest struct {
	Method string
	Params struct {
		Mode, Message, URL string
		RequestedSchema    json.RawMessage
	}
}

// questionsOf returns the questions of a round, or of a task, in the order of their keys.
func questionsOf(requests map[string]inputRequest) (list []Question) {
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		of := requests[key]
		q := Question{Key: key, Method: bounded(of.Method), Mode: bounded(of.Params.Mode),
			Message: bounded(of.Params.Message), URL: bounded(of.Params.URL)}
		if len(of.Params.RequestedSchema) <= maxText {
			q.Schema = of.Params.RequestedSchema
		}
		if q.Mode == "" && q.Method == "elicitation/create" {
			q.Mode = "form"
		}
		list = append(list, q)
	}
	return list
}

// bounded is the beginning of a text of a server.
func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.Clone(excerpt.Of(text, maxText))
}

// CutText cuts what a server says for a sentence of a report.
func CutText(s string) string {
	if len(s) > 120 {
		return excerpt.Of(s, 120) + "…"
	}
	return s
}
