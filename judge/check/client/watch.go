package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// watches judge a scene, by the word that the corpus has for what is read.
var watches = map[string]func(*scene) outcome{
	"client-state":       watchState,
	"client-no-state":    watchNoState,
	"client-elsewhere":   watchElsewhere,
	"client-ended-state": watchEndedState,
	"client-id": eachRetry("the retry has the JSON-RPC id of the request before it", "each retry had an id of its own",
		func(r *request) bool { return string(r.ID) == string(r.after.request.ID) }),
	"client-params": eachRetry("the retry has other arguments than the request before it",
		"each retry had the name and the arguments of the call",
		func(r *request) bool { return !sameJSON(r.Params.Arguments, r.after.request.Params.Arguments) }),
	"client-capabilities": eachRetry("the retry declares other capabilities than the request before it",
		"each retry declared the capabilities of the call",
		func(r *request) bool { return !sameJSON(r.Params.Meta.Declared, r.after.request.Params.Meta.Declared) }),
	"client-headers": watchHeaders,

	"client-keys":          watchKeys,
	"client-shape":         watchShape,
	"client-schema":        watchSchema,
	"client-stale-answers": watchStaleAnswers,
	"client-undeclared":    watchUndeclared,
	"client-fetch":         watchFetch,
	"client-person":        watchPerson,

	"client-rounds": watchRounds,
	"client-pause":  watchPause,
	"client-ends":   watchEnds,
	"client-repaired": noRetry("it replaced the invalid bytes of the state, and sent the changed state back",
		"the client sent no changed state", func(r *request) bool { return r.Params.RequestState != nil }),
	"client-repeats": watchRepeats,
	"client-no-retry": noRetry("it answered the questions in the response",
		"the client did not answer the questions in the response", func(*request) bool { return true }),
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
	notCalled = notJudged("the client did not call the tool in this scenario",
		"let the client call the tool in each run")
	notRetried  = notJudged("the client did not answer the round", "let the client answer what it is asked")
	notRepeated = notJudged("the client did not repeat the call", "let the client repeat a call that has only a state")
)

// seen is an observation.
func seen(format string, args ...any) outcome {
	return found("observation", fmt.Sprintf(format, args...))
}

// answered are the retries of the scene, each after the round that it answers.
func (s *scene) answered() (retries []*request) {
	return slices.DeleteFunc(slices.Clone(s.requests), func(r *request) bool { return r.after == nil || r.second })
}

// eachRetry judges whether something is wrong with a retry.
func eachRetry(wrong, right string, is func(*request) bool) func(*scene) outcome {
	return func(s *scene) outcome {
		retries := s.answered()
		switch {
		case slices.ContainsFunc(retries, is):
			return seen("%s", wrong)
		case len(retries) == 0:
			return notRetried
		}
		return passed(right)
	}
}

// noRetry judges responses after which such a retry is wrong, so that a client that sends none is right.
func noRetry(wrong, right string, is func(*request) bool) func(*scene) outcome {
	return func(s *scene) outcome {
		if o := eachRetry(wrong, right, is)(s); o != notRetried {
			return o
		}
		if len(s.rounds) == 0 {
			return notCalled
		}
		return passed(right)
	}
}

// watchEnds judges whether the client ends in time, and by itself.
func watchEnds(s *scene) outcome {
	switch {
	case len(s.rounds) == 0:
		return notCalled
	case s.stopped == errFlooded:
		return seen("it sent %d requests before it was stopped", len(s.requests))
	case s.crash != "":
		return seen("the program was ended by a signal: %s", s.crash)
	case s.stopped == errLate:
		return s.late()
	}
	return passed("the client ended by itself")
}

func (s *scene) late() outcome { return seen("it did not end within %v", s.opts.timeout) }

// manyRounds is how many rounds no client needs.
const manyRounds = 100

func watchRounds(s *scene) outcome {
	switch n := len(s.answered()); {
	case len(s.rounds) == 0:
		return notCalled
	case n == 0:
		return notRetried
	case n >= manyRounds || s.stopped == errFlooded:
		return seen("it answered %d rounds of one call, and was stopped", n)
	case s.stopped == errLate:
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
		return notRepeated
	case len(retries) > manyRetries && retries[manyRetries].at-retries[0].at < manyWithin:
		return seen("it sent %d retries in less than %v", manyRetries, manyWithin)
	}
	return passed(fmt.Sprintf("the client sent %d retries, with pauses or a limit", len(retries)))
}

// watchRepeats judges a response that is lost, or comes twice.
func watchRepeats(s *scene) outcome {
	const many = 3 // a transport may try again
	if len(s.answered()) == 0 {
		return notRetried
	}
	for _, n := range s.rounds {
		if len(n.retries) > many || len(n.retries) > 1 && n.reply.Fault == "twice" {
			return seen("it sent the retry of one round %d times", len(n.retries))
		}
	}
	if o := watchElsewhere(s); o.Proof != "" {
		return o
	}
	return passed("the client did not repeat the retry without end")
}

// watchFallback judges what follows an error that only a modern server sends.
func watchFallback(s *scene) outcome {
	switch {
	case len(s.requests) == 0:
		return notJudged("the client did not connect", "let the client connect in each run")
	case s.requests[0].Method == "initialize":
		return notJudged("the client began with initialize", "let the client begin with a modern request")
	case s.saw("initialize"):
		return seen("after an error of a modern server it sent initialize")
	}
	return passed("the client did not fall back to an earlier revision")
}

// watchRedirectState judges what reaches the other origin.
func watchRedirectState(s *scene) outcome {
	if s.redirected() == nil {
		return notJudged("no request was redirected", "let the client answer what it is asked")
	}
	for _, n := range s.rounds {
		if s.reached(n.nonce) {
			return found("canary", "it followed a redirect and sent the state to another origin")
		}
	}
	return passed("the state did not reach the other origin")
}

func watchRedirectToken(s *scene) outcome {
	sent := s.redirected()
	if sent == nil {
		return notJudged("no request was redirected", "let the client call the tool in each run")
	}
	token := sent.header.Get("Authorization")
	switch {
	case token == "":
		return notJudged("the client sent no Authorization header",
			"let the client send the token of the environment variable MCP_SERVER_TOKEN")
	case s.reached(token):
		return found("canary", "it followed a redirect and sent the token to another origin")
	}
	return passed("the token did not reach the other origin")
}

// redirected returns the first request that was redirected, or nil.
func (s *scene) redirected() *request {
	redirects := func(n *round) bool { return strings.HasPrefix(n.reply.Fault, "redirect-") }
	if i := slices.IndexFunc(s.rounds, redirects); i >= 0 {
		return s.rounds[i].request
	}
	return nil
}

// reached reports whether a text came to the other origin.
func (s *scene) reached(text string) bool {
	return slices.ContainsFunc(s.requests, func(r *request) bool { return r.second && r.carries(text) })
}
