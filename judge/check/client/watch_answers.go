package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// An answer is the members of all kinds of answers.
type answer struct {
	Action  string           `json:"action"`
	Content json.RawMessage  `json:"content"`
	Role    string           `json:"role"`
	Model   string           `json:"model"`
	Roots   *json.RawMessage `json:"roots"`
}

func decodeAnswer(text json.RawMessage) (a answer, ok bool) {
	ok = json.Unmarshal(text, &a) == nil
	return a, ok
}

// asked are the retries of rounds that had questions.
func (s *scene) asked() []*request {
	return slices.DeleteFunc(s.answered(), func(r *request) bool { return len(r.after.asked) == 0 })
}

// watchKeys compares the keys of the answers with the keys of the questions.
func watchKeys(s *scene) outcome {
	retries := s.asked()
	for _, r := range retries {
		for key := range r.after.asked {
			if _, ok := r.answers[key]; !ok {
				return found("observation", fmt.Sprintf("the retry has no answer to the question %q", key))
			}
		}
		for key := range r.answers {
			if _, ok := r.after.asked[key]; !ok {
				return found("observation", "the retry has an answer under a key that no question has")
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
		for key, q := range r.after.asked {
			text, ok := r.answers[key]
			if !ok {
				continue
			}
			if wrong := q.misfit(text); wrong != "" {
				return found("observation", fmt.Sprintf("the answer to %s %s", q.Method, wrong))
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
	a, ok := decodeAnswer(text)
	switch {
	case !ok:
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
			a, ok := decodeAnswer(r.answers[key])
			if !ok || a.Action != "accept" {
				continue
			}
			var schema jsonschema.Schema
			var content any
			if json.Unmarshal([]byte(q.schema), &schema) != nil || json.Unmarshal(a.Content, &content) != nil {
				return found("observation", "the form was accepted without content")
			}
			resolved, err := schema.Resolve(nil)
			if err != nil {
				return notJudged("the schema of the form cannot be resolved", err.Error())
			}
			if resolved.Validate(content) != nil {
				return found("observation", "the form was accepted with content that does not fit its schema")
			}
			return passed("the content fits the schema of its form")
		}
	}
	if len(s.rounds) == 0 {
		return notCalled
	}
	if len(s.rounds[0].asked) == 0 {
		return notJudged("the client declares no forms", "let the client declare elicitation")
	}
	return passed("the client did not accept the form")
}

// watchStaleAnswers looks for answers of an earlier round in the retry of a round that asked nothing.
func watchStaleAnswers(s *scene) outcome {
	judged := false
	for _, r := range s.answered() {
		if len(r.after.asked) == 0 && r.after.index > 0 {
			judged = true
			if len(r.answers) > 0 {
				return found("observation", "the retry of a round without questions has answers")
			}
		}
	}
	if !judged {
		return notJudged("the client did not repeat the call after a round without questions",
			"let the client repeat a call that has only a state")
	}
	return passed("the retry of a round without questions had no answers")
}

// watchUndeclared judges answers to questions that the client has not declared, or that nobody knows.
func watchUndeclared(s *scene) outcome {
	if len(s.rounds) == 0 {
		return notCalled
	}
	if len(s.rounds[0].asked) == 0 {
		return notJudged("the client declares every kind of question", "let the client declare fewer")
	}
	for _, r := range s.asked() {
		for key := range r.after.asked {
			a, ok := decodeAnswer(r.answers[key])
			if ok && (a.Action == "accept" || a.Role != "" || a.Roots != nil) {
				return found("observation", "it answered "+r.after.asked[key].Method+", which it does not declare")
			}
		}
	}
	if s.end.timedOut {
		return found("observation", fmt.Sprintf("it did not end within %v", s.opts.timeout))
	}
	return passed("the client refused the question")
}

// watchFetch looks for a request to the page that a question names.
func watchFetch(s *scene) outcome {
	for _, r := range s.requests {
		if r.canary {
			return found("canary", "it sent a "+r.verb+" request to the address in the question")
		}
	}
	if len(s.rounds) == 0 {
		return notCalled
	}
	if len(s.rounds[0].asked) == 0 {
		return notJudged("the client does not declare this question", "let the client declare elicitation with this mode")
	}
	return passed("the address in the question was not fetched")
}

// watchPerson compares the answers with the person who is said to give them.
func watchPerson(s *scene) outcome {
	if s.opts.person == "" {
		return notJudged("nobody said who answers for the client", "say it with --person none, accepts or declines")
	}
	wanted := map[string]string{"none": "cancel", "accepts": "accept", "declines": "decline"}[s.opts.person]
	if len(s.rounds) == 0 {
		return notCalled
	}
	if !slices.Contains(slices.Collect(maps.Keys(s.rounds[0].asked)), "confirm") ||
		s.rounds[0].asked["confirm"].kind != "form" {
		return notJudged("the client declares no forms", "let the client declare elicitation")
	}
	for _, r := range s.asked() {
		a, ok := decodeAnswer(r.answers["confirm"])
		switch {
		case !ok || a.Action == wanted:
		case a.Action == "accept":
			return found("difference", "it accepted a form, but the person is said to be: "+s.opts.person)
		default:
			return found("observation", "the action is "+shorten(a.Action, 20)+", but the person is said to be: "+
				s.opts.person)
		}
	}
	if s.opts.person != "none" && len(s.asked()) == 0 {
		return notRetried
	}
	return passed("the action says what the person did")
}
