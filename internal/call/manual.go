package call

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// A handler in the SDK's manual style returns InputRequests and RequestState itself, and
// finds InputResponses and RequestState in its next request. Its state is kept as
// journal.Manual, and the keys of its questions as pending ones with no digest.

// Manual has the answers and the state that such a handler gets back.
type Manual struct {
	State     string
	Responses map[string][]byte
}

// takeManual takes the manual part out of j: answers count only for what j has pending, or
// where the client answers without a state.
func takeManual(j *journal.Journal, answers Answers) Manual {
	m := Manual{State: j.Manual}
	if answers.Bare {
		m.Responses = answers.Responses
	}
	j.Manual = ""
	j.Pending = slices.DeleteFunc(j.Pending, func(q journal.Question) bool {
		if q.Digest != (journal.Digest{}) {
			return false
		}
		if raw, ok := answers.Responses[q.Wire]; ok {
			if m.Responses == nil {
				m.Responses = make(map[string][]byte)
			}
			m.Responses[q.Wire] = raw
		}
		return true
	})
	return m
}

// ManualOutcome returns the questions and the state of a result in the manual style.
func ManualOutcome(result mcp.Result) (requests mcp.InputRequestMap, state string, manual bool) {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		requests, state = r.InputRequests, r.RequestState
	case *mcp.GetPromptResult:
		requests, state = r.InputRequests, r.RequestState
	case *mcp.ReadResourceResult:
		requests, state = r.InputRequests, r.RequestState
	}
	return requests, state, requests != nil || state != ""
}

// suspendManual records a manual outcome in j, which starts a new round.
func suspendManual(
	limits *bound.Limits, can wire.Capability, j *journal.Journal, requests mcp.InputRequestMap, state string,
) (*Outcome, error) {
	if len(requests) > limits.Questions {
		return nil, &fault.LimitError{Limit: "questions per round", Max: int64(limits.Questions)}
	}
	if j.Round++; j.Round > limits.Rounds {
		return nil, &fault.LimitError{Limit: "rounds per call", Max: int64(limits.Rounds)}
	}
	j.Manual = state
	out := new(Outcome)
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		q, err := question.Manual(requests[key])
		if err != nil {
			return nil, fault.Wire(fmt.Errorf("input request %q: %w", key, err)) // ours, and not the handler's
		}
		if can&q.Need != q.Need {
			return nil, &fault.UnableError{Key: key, Need: q.Need &^ can}
		}
		j.Pending = append(j.Pending, journal.Question{Key: key, Wire: key})
		q.Wire = key
		out.Questions = append(out.Questions, q)
	}
	return out, nil
}

// View makes the SDK's view of a request. What does not decode is left zero.
func View(method string, raw []byte, session *mcp.ServerSession, extra *mcp.RequestExtra, m Manual) mcp.Request {
	// By exact names: encoding/json would let "Arguments" stand in for "arguments".
	var meta mcp.Meta
	_ = json.Unmarshal(strictjson.Get(raw, "_meta"), &meta)
	target, _ := strictjson.String(strictjson.Get(raw, wire.TargetMember(method)))
	arguments := strictjson.Get(raw, "arguments")
	responses := m.Typed()
	switch method {
	case wire.CallTool:
		return &mcp.CallToolRequest{Session: session, Extra: extra, Params: &mcp.CallToolParamsRaw{
			Meta: meta, Name: target, Arguments: arguments, InputResponses: responses, RequestState: m.State,
		}}
	case wire.GetPrompt:
		var texts map[string]string
		_ = json.Unmarshal(arguments, &texts)
		return &mcp.GetPromptRequest{Session: session, Extra: extra, Params: &mcp.GetPromptParams{
			Meta: meta, Name: target, Arguments: texts, InputResponses: responses, RequestState: m.State,
		}}
	default:
		return &mcp.ReadResourceRequest{Session: session, Extra: extra, Params: &mcp.ReadResourceParams{
			Meta: meta, URI: target, InputResponses: responses, RequestState: m.State,
		}}
	}
}

// Typed are the responses as the SDK's types; responses of unknown form are left out, and so asked again.
func (m Manual) Typed() mcp.InputResponseMap {
	if m.Responses == nil {
		return nil
	}
	typed := make(mcp.InputResponseMap, len(m.Responses))
	for key, raw := range m.Responses {
		var decoded mcp.InputResponseMap
		one, err := json.Marshal(map[string]json.RawMessage{key: raw})
		if err == nil && json.Unmarshal(one, &decoded) == nil {
			maps.Copy(typed, decoded)
		}
	}
	return typed
}

// responsesOf returns the responses in the SDK's view of a request.
func responsesOf(view mcp.Request) mcp.InputResponseMap {
	switch r := view.(type) {
	case *mcp.CallToolRequest:
		return r.Params.InputResponses
	case *mcp.GetPromptRequest:
		return r.Params.InputResponses
	case *mcp.ReadResourceRequest:
		return r.Params.InputResponses
	}
	return nil
}
