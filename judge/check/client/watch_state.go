package main

import (
	"bytes"
	"fmt"
)

// watchState compares each state that comes back with the one that was sent.
func watchState(s *scene) outcome {
	judged := 0
	for _, r := range s.answered() {
		sent, came := r.after.state, r.Params.RequestState
		switch {
		case sent == nil:
			continue
		case came == nil:
			return seen("the retry has no requestState, but the round had one (%s)", r.after.reply.State)
		case *came != *sent:
			return seen("the retry has another requestState (%s): %s", r.after.reply.State, difference(*sent, *came))
		}
		judged++
	}
	switch {
	case len(s.rounds) == 0:
		return notCalled
	case judged == 0:
		return notJudged("the client did not repeat the call", "let the client answer what it is asked")
	}
	return passed(fmt.Sprintf("%d states came back byte for byte", judged))
}

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
	judged := false
	for _, r := range s.answered() {
		switch {
		case r.after.state == nil && r.Params.RequestState != nil:
			return seen("the retry of a round without a state has a state")
		case r.after.state == nil:
			judged = true
		case r.after.retries[0] != r:
			return found("canary", "the retry of a round without a state has the state of an earlier round")
		}
	}
	if !judged {
		return notJudged("the client did not answer a round without a state", "let the client answer a form")
	}
	return passed("the retry had no state, as its round")
}

// watchElsewhere looks for states and answers in other requests than the retry.
func watchElsewhere(s *scene) outcome {
	others := 0
	for _, r := range s.requests {
		if r.Params.Name == s.opts.tool && r.Method == "tools/call" && !r.second {
			continue
		}
		for _, n := range s.rounds {
			if r.carries(n.nonce) {
				return found("canary", "a state is in another request: "+r.describe())
			}
		}
		if r.Method != "tasks/update" && (r.Params.RequestState != nil || r.Params.InputResponses != nil ||
			bytes.Contains(r.body, []byte(`"inputResponses"`))) {
			return seen("answers or a state are in another request: %s", r.describe())
		}
		if len(s.rounds) > 0 && r.at > s.rounds[0].at {
			others++
		}
	}
	if others == 0 {
		return notJudged("the client sent no other request after it had a state", "let the client call all listed tools")
	}
	return passed(fmt.Sprintf("%d other requests had no state and no answers", others))
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

// watchHeaders compares the headers of each request with its body.
func watchHeaders(s *scene) outcome {
	judged := 0
	for _, r := range s.requests {
		if r.second || r.Method == "" || r.Method == "initialize" || r.Params.Meta.Version == "" {
			continue
		}
		judged++
		wrong := ""
		switch {
		case r.header.Get("Mcp-Protocol-Version") != r.Params.Meta.Version:
			wrong = "MCP-Protocol-Version"
		case r.header.Get("Mcp-Method") != r.Method:
			wrong = "Mcp-Method"
		case r.Method == "tools/call" && !r.names(r.Params.Name):
			wrong = "Mcp-Name"
		}
		if wrong != "" {
			return seen("%s differs from the body of %s", wrong, r.describe())
		}
	}
	if len(s.answered()) == 0 || judged == 0 {
		return notRetried
	}
	return passed(fmt.Sprintf("the headers of %d requests agree with their bodies", judged))
}
