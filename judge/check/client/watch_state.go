package main

import (
	"bytes"
	"fmt"
)

// watchState compares each state that comes back with the one that was sent.
func watchState(s *scene) outcome {
	retries := s.answered()
	judged := 0
	for _, r := range retries {
		if r.after.state == nil {
			continue
		}
		switch {
		case r.state == nil:
			return found("observation", "the retry has no requestState, but the round had one"+stateKind(r.after))
		case *r.state != *r.after.state:
			return found("observation", "the retry has another requestState"+stateKind(r.after)+": "+
				difference(*r.after.state, *r.state))
		}
		judged++
	}
	if len(s.rounds) == 0 {
		return notCalled
	}
	if judged == 0 {
		return notJudged("the client did not repeat the call", "let the client answer what it is asked")
	}
	return passed(fmt.Sprintf("%d states came back byte for byte", judged))
}

func stateKind(n *round) string { return " (" + n.reply.State + ")" }

// difference tells where two states differ, without showing them.
func difference(sent, came string) string {
	at := 0
	for at < min(len(sent), len(came)) && sent[at] == came[at] {
		at++
	}
	return fmt.Sprintf("%d bytes were sent and %d came back, which differ from byte %d on", len(sent), len(came), at)
}

// watchNoState judges the retries of rounds that had no state.
func watchNoState(s *scene) outcome {
	judged := 0
	for _, r := range s.answered() {
		switch {
		case r.after.state == nil && r.state != nil:
			return found("observation", "the retry of a round without a state has a state")
		case r.after.state == nil:
			judged++
		case r.after.retries[0] != r:
			return found("canary", "the retry of a round without a state has the state of an earlier round")
		}
	}
	if judged == 0 {
		return notJudged("the client did not answer a round without a state", "let the client answer a form")
	}
	return passed("the retry had no state, as its round")
}

// watchElsewhere looks for states and answers in other requests than the retry.
func watchElsewhere(s *scene) outcome {
	others := 0
	for _, r := range s.requests {
		ours := r.tool == s.opts.tool && r.method == "tools/call" && !r.second
		for _, n := range s.rounds {
			if !ours && r.carries(n.nonce) {
				return found("canary", "a state is in another request: "+r.describe())
			}
		}
		if !ours && r.method != "tasks/update" &&
			(r.state != nil || r.answers != nil || bytes.Contains(r.body, []byte(`"inputResponses"`))) {
			return found("observation", "answers or a state are in another request: "+r.describe())
		}
		if !ours && len(s.rounds) > 0 && r.at > s.rounds[0].at {
			others++
		}
	}
	if others == 0 {
		return notJudged("the client sent no other request after it had a state", "let the client call all listed tools")
	}
	return passed(fmt.Sprintf("%d other requests had no state and no answers", others))
}

func watchElsewhereOrPass(s *scene, reason string) outcome {
	if o := watchElsewhere(s); o.proof != "" {
		return o
	}
	return passed(reason)
}

// describe names a request.
func (r *request) describe() string {
	if r.method == "" {
		return r.verb + " request"
	}
	if r.tool != "" {
		return shorten(r.method+" "+r.tool, 100)
	}
	return shorten(r.method, 100)
}

// watchEndedState looks for the state of a call that has ended in a later call.
func watchEndedState(s *scene) outcome {
	if len(s.answered()) == 0 {
		return notRetried
	}
	for _, n := range s.rounds {
		if len(n.retries) > 1 && n.state != nil {
			return found("canary", fmt.Sprintf("it sent the state of one round %d times", len(n.retries)))
		}
	}
	return passed("the state came back once")
}

func watchID(s *scene) outcome {
	retries := s.answered()
	for _, r := range retries {
		if r.id == r.after.request.id {
			return found("observation", "the retry has the JSON-RPC id of the request before it")
		}
	}
	if len(retries) == 0 {
		return notRetried
	}
	return passed("each retry had an id of its own")
}

func watchParams(s *scene) outcome {
	retries := s.answered()
	for _, r := range retries {
		if !sameJSON(r.arguments, r.after.request.arguments) {
			return found("observation", "the retry has other arguments than the request before it")
		}
	}
	if len(retries) == 0 {
		return notRetried
	}
	return passed("each retry had the name and the arguments of the call")
}

func watchCapabilities(s *scene) outcome {
	retries := s.answered()
	for _, r := range retries {
		if !sameJSON(r.declared, r.after.request.declared) {
			return found("observation", "the retry declares other capabilities than the request before it")
		}
	}
	if len(retries) == 0 {
		return notRetried
	}
	return passed("each retry declared the capabilities of the call")
}

// watchHeaders compares the headers of each request with its body.
func watchHeaders(s *scene) outcome {
	judged := 0
	for _, r := range s.requests {
		if r.second || r.method == "" || r.method == "initialize" || r.version == "" {
			continue
		}
		judged++
		for _, h := range []struct{ name, want, got string }{
			{"MCP-Protocol-Version", r.version, r.header.Get("Mcp-Protocol-Version")},
			{"Mcp-Method", r.method, r.header.Get("Mcp-Method")},
		} {
			if h.got != h.want {
				return found("observation", h.name+" differs from the body of "+r.describe())
			}
		}
		if r.method == "tools/call" && r.headerName() != r.tool {
			return found("observation", "Mcp-Name differs from the body of "+r.describe())
		}
	}
	if len(s.answered()) == 0 || judged == 0 {
		return notRetried
	}
	return passed(fmt.Sprintf("the headers of %d requests agree with their bodies", judged))
}
