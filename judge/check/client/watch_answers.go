package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/check/findings"
)

// An answer is the members of all kinds of answers.
type answer struct {
	Action, Role, Model string
	Content             json.RawMessage
	Roots               *json.RawMessage
}

// asked are the retries of rounds that had questions.
func (s *scene) asked() []*request {
	return slices.DeleteFunc(s.answered(), func(r *request) bool { return len(r.after.asked) == 0 })
}

// answer returns the answer to a question of the round before, if it can be read.
func (r *request) answer(key string) (a answer, ok bool) {
	ok = json.Unmarshal(r.Params.InputResponses[key], &a) == nil
	return a, ok
}

// watchKeys compares the keys of the answers with the keys of the questions.
func watchKeys(s *scene) outcome {
	retries := s.asked()
	for _, r := range retries {
		for key := range r.after.asked {
			if _, ok := r.Params.InputResponses[key]; !ok {
				return seen("the retry has no answer to the question %q", key)
			}
		}
		for key := range r.Params.InputResponses {
			if _, ok := r.after.asked[key]; !ok {
				return seen("the retry has an answer under a key that no question has")
			}
		}
	}
	if len(retries) == 0 {
		return notJudged("the client did not answer the questions", "let the client answer every form that it gets")
	}
	return passed("each question had its answer, and nothing else had one")
}

// watchShape judges whether each answer is the result of its own question.
func watchShape(s *scene) outcome {
	retries := s.asked()
	for _, r := range retries {
		for key, text := range r.Params.InputResponses {
			q, ok := r.after.asked[key]
			if wrong := q.misfit(text); ok && wrong != "" {
				return seen("the answer to %s %s", q.Method, wrong)
			}
		}
	}
	if len(retries) == 0 {
		return notRetried
	}
	return passed("each answer was the result of its question's method")
}

// misfit says why an answer is no result of the question's method, or is empty.
func (q question) misfit(text json.RawMessage) string {
	var a answer
	switch {
	case json.Unmarshal(text, &a) != nil:
		return "is no object of this kind"
	case q.kind == "form" && !slices.Contains([]string{"accept", "decline", "cancel"}, a.Action):
		return "has no action of accept, decline or cancel"
	case q.kind == "form" && a.Action != "accept" && len(a.Content) > 0 && !sameJSON(a.Content, nil):
		return "has content, although the action is " + a.Action
	case q.kind == "sampling" && (a.Role == "" || a.Model == "" || len(a.Content) == 0):
		return "lacks its role, model or content"
	case q.kind == "roots" && (a.Roots == nil || !strings.HasPrefix(strings.TrimSpace(string(*a.Roots)), "[")):
		return "has no list of roots"
	}
	return ""
}

// watchSchema judges whether accepted content fits the schema of its form.
func watchSchema(s *scene) outcome {
	for _, r := range s.asked() {
		for key, q := range r.after.asked {
			a, ok := r.answer(key)
			if !ok || a.Action != "accept" {
				continue
			}
			var schema jsonschema.Schema
			var content any
			if json.Unmarshal([]byte(q.schema), &schema) != nil || json.Unmarshal(a.Content, &content) != nil {
				return seen("the form was accepted without content")
			}
			resolved, err := schema.Resolve(nil)
			if err != nil {
				return notJudged("the schema of the form cannot be resolved", err.Error())
			}
			if resolved.Validate(content) != nil {
				return seen("the form was accepted with content that does not fit its schema")
			}
			return passed("the content fits the schema of its form")
		}
	}
	return s.unless(notAForm, passed("the client did not accept the form"))
}

var notAForm = notJudged("the client declares no forms", "let the client declare elicitation")

// unless returns an outcome, unless the client did not call the tool, or was not asked.
func (s *scene) unless(notAsked, o outcome) outcome {
	switch {
	case len(s.rounds) == 0:
		return notCalled
	case len(s.rounds[0].asked) == 0:
		return notAsked
	}
	return o
}

// watchStaleAnswers looks for answers of an earlier round in the retry of a round that asked nothing.
func watchStaleAnswers(s *scene) outcome {
	judged := false
	for _, r := range s.answered() {
		if len(r.after.asked) == 0 && r.after.index > 0 {
			if judged = true; len(r.Params.InputResponses) > 0 {
				return seen("the retry of a round without questions has answers")
			}
		}
	}
	if !judged {
		return notJudged("the client did not repeat the call after a round without questions", notRepeated.Remedy)
	}
	return passed("the retry of a round without questions had no answers")
}

// watchUndeclared judges answers to questions that the client has not declared, or that nobody knows.
func watchUndeclared(s *scene) outcome {
	for _, r := range s.asked() {
		for key, q := range r.after.asked {
			if a, ok := r.answer(key); ok && (a.Action == "accept" || a.Role != "" || a.Roots != nil) {
				return seen("it answered %s, which it does not declare", q.Method)
			}
		}
	}
	o := passed("the client refused the question")
	if s.stopped == errLate {
		o = s.late()
	}
	return s.unless(notJudged("the client declares every kind of question", "let the client declare fewer"), o)
}

// watchFetch looks for a request to the page that a question names.
func watchFetch(s *scene) outcome {
	for _, r := range s.requests {
		if r.canary {
			return found("canary", "it sent a "+r.verb+" request to the address in the question")
		}
	}
	return s.unless(notJudged("the client does not declare this question",
		"let the client declare elicitation with this mode"), passed("the address in the question was not fetched"))
}

// watchPerson compares the answers with the person who is said to give them.
func watchPerson(s *scene) outcome {
	person := s.opts.person
	if person == "" {
		return notJudged("nobody said who answers for the client", "say it with --person none, accepts or declines")
	}
	if o := s.unless(notAForm, outcome{}); o.Level == findings.NotJudged {
		return o
	}
	if s.rounds[0].asked["confirm"].kind != "form" {
		return notAForm
	}
	wanted := map[string]string{"none": "cancel", "accepts": "accept", "declines": "decline"}[person]
	for _, r := range s.asked() {
		switch a, ok := r.answer("confirm"); {
		case !ok || a.Action == wanted:
		case a.Action == "accept":
			return found("difference", "it accepted a form, but the person is said to be: "+person)
		default:
			return seen("the action is %.20s, but the person is said to be: %s", a.Action, person)
		}
	}
	if person != "none" && len(s.asked()) == 0 {
		return notRetried
	}
	return passed("the action says what the person did")
}
