package main

import (
	"fmt"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
)

// watches judge a scene, by the word that the corpus has for what is read.
var watches = map[string]func(*scene) outcome{
	"client-state":        watchState,
	"client-no-state":     watchNoState,
	"client-elsewhere":    watchElsewhere,
	"client-ended-state":  watchEndedState,
	"client-id":           watchID,
	"client-params":       watchParams,
	"client-capabilities": watchCapabilities,
	"client-headers":      watchHeaders,

	"client-keys":          watchKeys,
	"client-shape":         watchShape,
	"client-schema":        watchSchema,
	"client-stale-answers": watchStaleAnswers,
	"client-undeclared":    watchUndeclared,
	"client-fetch":         watchFetch,
	"client-person":        watchPerson,

	"client-rounds":         watchRounds,
	"client-pause":          watchPause,
	"client-ends":           watchEnds,
	"client-repaired":       watchRepaired,
	"client-repeats":        watchRepeats,
	"client-no-retry":       watchNoRetry,
	"client-fallback":       watchFallback,
	"client-redirect-state": watchRedirectState,
	"client-redirect-token": watchRedirectToken,

	"client-task-poll":  watchTaskPoll,
	"client-task-once":  watchTaskOnce,
	"client-task-scope": watchTaskScope,
	"client-task-name":  watchTaskName,
	"client-task-end":   watchTaskEnd,
}

// The reasons for which nothing is judged in several scenes.
var (
	notCalled  = notJudged("the client did not call the tool in this scenario", "let the client call the tool in each run")
	notRetried = notJudged("the client did not answer the round", "let the client answer what it is asked")
)

// answered are the retries of the scene, each after the round that it answers.
func (s *scene) answered() (retries []*request) {
	for _, r := range s.requests {
		if r.after != nil && !r.second {
			retries = append(retries, r)
		}
	}
	return retries
}

// watchEnds judges whether the client ends in time, and by itself.
func watchEnds(s *scene) outcome {
	switch {
	case len(s.rounds) == 0:
		return notCalled
	case s.end.flooded:
		return found("observation", fmt.Sprintf("it sent %d requests before it was stopped", len(s.requests)))
	case s.end.crash != "":
		return found("observation", "the program was ended by a signal: "+s.end.crash)
	case s.end.timedOut:
		return found("observation", fmt.Sprintf("it did not end within %v", s.opts.timeout))
	}
	return passed("the client ended by itself")
}

// manyRounds is how many rounds no client needs.
const manyRounds = 100

func watchRounds(s *scene) outcome {
	switch n := len(s.answered()); {
	case len(s.rounds) == 0:
		return notCalled
	case n == 0:
		return notRetried
	case n >= manyRounds || s.end.flooded:
		return found("observation", fmt.Sprintf("it answered %d rounds of one call, and was stopped", n))
	case s.end.timedOut:
		return notJudged(fmt.Sprintf("it answered %d rounds, and the time ended", n), "give it more time with --timeout")
	default:
		return passed(fmt.Sprintf("the client gave up after %d rounds", n))
	}
}

// manyRetries within this time are too many.
const (
	manyRetries = 50
	manyWithin  = 5 * time.Second
)

// watchPause judges retries of rounds without questions, which cost nobody an answer.
func watchPause(s *scene) outcome {
	retries := s.answered()
	switch {
	case len(s.rounds) == 0:
		return notCalled
	case len(retries) == 0:
		return notJudged("the client did not repeat the call", "let the client repeat a call that has only a state")
	case len(retries) > manyRetries && retries[manyRetries].at-retries[0].at < manyWithin:
		return found("observation", fmt.Sprintf("it sent %d retries in less than %v", manyRetries, manyWithin))
	}
	return passed(fmt.Sprintf("the client sent %d retries, with pauses or a limit", len(retries)))
}

// watchRepaired judges what a client does with a state that is no valid text.
func watchRepaired(s *scene) outcome {
	if len(s.rounds) == 0 {
		return notCalled
	}
	for _, r := range s.answered() {
		if r.state != nil {
			return found("observation", "it replaced the invalid bytes of the state, and sent the changed state back")
		}
	}
	return passed("the client sent no changed state")
}

// watchRepeats judges a response that is lost, or comes twice.
func watchRepeats(s *scene) outcome {
	const many = 3 // a transport may try again
	if len(s.answered()) == 0 {
		return notRetried
	}
	for _, n := range s.rounds {
		limit := many
		if n.reply.Fault == "twice" {
			limit = 1
		}
		if len(n.retries) > limit {
			return found("observation", fmt.Sprintf("it sent the retry of one round %d times", len(n.retries)))
		}
	}
	return watchElsewhereOrPass(s, "the client did not repeat the retry without end")
}

// watchNoRetry judges responses that a client may not take for a round: of another ID or type.
func watchNoRetry(s *scene) outcome {
	if len(s.rounds) == 0 {
		return notCalled
	}
	if retries := s.answered(); len(retries) > 0 {
		return found("observation", "it answered the questions in the response")
	}
	return passed("the client did not answer the questions in the response")
}

// watchFallback judges what follows an error that only a modern server sends.
func watchFallback(s *scene) outcome {
	switch {
	case len(s.requests) == 0:
		return notJudged("the client did not connect", "let the client connect in each run")
	case s.requests[0].method == "initialize":
		return notJudged("the client began with initialize", "let the client begin with a modern request")
	case s.saw("initialize"):
		return found("observation", "after an error of a modern server it sent initialize")
	}
	return passed("the client did not fall back to an earlier revision")
}

// watchRedirectState judges what reaches the other origin.
func watchRedirectState(s *scene) outcome {
	if _, ok := s.redirected(); !ok {
		return notJudged("no request was redirected", "let the client answer what it is asked")
	}
	for _, r := range s.requests {
		for _, n := range s.rounds {
			if r.second && r.carries(n.nonce) {
				return found("canary", "it followed a redirect and sent the state to another origin")
			}
		}
	}
	return passed("the state did not reach the other origin")
}

func watchRedirectToken(s *scene) outcome {
	sent, ok := s.redirected()
	if !ok {
		return notJudged("no request was redirected", "let the client call the tool in each run")
	}
	token := sent.header.Get("Authorization")
	if token == "" {
		return notJudged("the client sent no Authorization header",
			"let the client send the token of the environment variable MCP_SERVER_TOKEN")
	}
	for _, r := range s.requests {
		if r.second && r.carries(token) {
			return found("canary", "it followed a redirect and sent the token to another origin")
		}
	}
	return passed("the token did not reach the other origin")
}

// redirected returns the first request that was redirected.
func (s *scene) redirected() (*request, bool) {
	for _, n := range s.rounds {
		if isRedirect(n.reply) {
			return n.request, true
		}
	}
	return nil, false
}

func isRedirect(r corpus.Reply) bool { return r.Fault == "redirect-307" || r.Fault == "redirect-308" }
