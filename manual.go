package askback

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// A handler in the SDK's manual style returns InputRequests and RequestState itself,
// and finds InputResponses and RequestState in its next request. Its state is sealed
// as journal.Manual, and the keys of its questions as pending ones with no digest.

// manualState is what such a handler gets back.
type manualState struct {
	state     string
	responses map[string][]byte
}

// takeManual takes the manual part out of j: answers count only for what j has pending.
func takeManual(j *journal.Journal, responses map[string][]byte) manualState {
	mine := manualState{state: j.Manual}
	j.Manual = ""
	j.Pending = slices.DeleteFunc(j.Pending, func(q journal.Question) bool {
		if q.Digest != (journal.Digest{}) {
			return false
		}
		if raw, ok := responses[q.Wire]; ok {
			if mine.responses == nil {
				mine.responses = make(map[string][]byte)
			}
			mine.responses[q.Wire] = raw
		}
		return true
	})
	return mine
}

// typedResponses are the responses as the SDK's types; those of unknown form are left
// out, and so asked again.
func (m manualState) typedResponses() mcp.InputResponseMap {
	if m.responses == nil {
		return nil
	}
	typed := make(mcp.InputResponseMap, len(m.responses))
	for key, raw := range m.responses {
		one, err := json.Marshal(map[string]json.RawMessage{key: raw})
		if err != nil {
			continue
		}
		var decoded mcp.InputResponseMap
		if json.Unmarshal(one, &decoded) == nil {
			maps.Copy(typed, decoded)
		}
	}
	return typed
}

// manualOutcome reports the questions and state of a result in the manual style.
func manualOutcome(result any) (requests mcp.InputRequestMap, state string, manual bool) {
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
func (s *Server) suspendManual(can Kind, j *journal.Journal, requests mcp.InputRequestMap, state string) (*reply, error) {
	limits := s.opts.Limits
	if len(requests) > limits.Questions {
		return nil, &LimitError{Limit: "questions per round", Max: limits.Questions}
	}
	if j.Round++; j.Round > limits.Rounds {
		return nil, &LimitError{Limit: "rounds per call", Max: limits.Rounds}
	}
	j.Manual = state
	r := new(reply)
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		q, need, err := manualQuestion(requests[key])
		if err != nil {
			return nil, fmt.Errorf("input request %q: %w", key, err)
		}
		if can&need != need {
			return nil, &CapabilityError{Key: key, Need: need}
		}
		j.Pending = append(j.Pending, journal.Question{Key: key, Wire: key})
		r.questions = append(r.questions, keyedQuestion{key, q})
	}
	return r, nil
}

func manualQuestion(request mcp.InputRequest) (*question, Kind, error) {
	data, err := json.Marshal(mcp.InputRequestMap{"q": request})
	if err != nil {
		return nil, 0, err
	}
	encoded := strictjson.Get(data, "q")
	q := &question{params: strictjson.Get(encoded, "params"), typed: request}
	q.method, _ = strictjson.String(strictjson.Get(encoded, "method"))
	switch p := request.(type) {
	case *mcp.ElicitParams:
		if p.Mode == "url" || p.URL != "" {
			return q, KindURL, nil
		}
		return q, KindForm, nil
	case *mcp.CreateMessageWithToolsParams:
		if len(p.Tools) > 0 || p.ToolChoice != nil {
			return q, KindSampling | KindSamplingTools, nil
		}
		return q, KindSampling, nil
	case *mcp.CreateMessageParams:
		return q, KindSampling, nil
	default:
		return q, KindRoots, nil
	}
}
