package talk

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A question too many does not cost the memory and the time of reading it.
func TestTooManyQuestionsAreNotRead(t *testing.T) {
	t.Parallel()
	l := expect.Must(transport.New(transport.Options{URL: "http://127.0.0.1:1/mcp"}))(t)
	defer l.Close()
	cl := New(l, redact.New())
	ask := func(n int) *Reply {
		requests := map[string]any{}
		for i := range n {
			requests[fmt.Sprint(i)] = map[string]any{"method": "elicitation/create", "params": map[string]any{}}
		}
		result, err := json.Marshal(map[string]any{"resultType": "input_required", "inputRequests": requests})
		expect.Check(t, err)
		return cl.Read(&Call{Target: &Target{}}, &transport.Response{Result: result})
	}
	if p := ask(maxQuestions); !p.Asks() || len(p.Questions) != maxQuestions {
		t.Errorf("%s, %d questions", p.Class, len(p.Questions))
	}
	if p := ask(maxQuestions + 1); p.Asks() || len(p.Questions) != 0 || p.Why == "" {
		t.Errorf("%s, %d questions", p.Class, len(p.Questions))
	}
}

// A server does not decide to be asked without a pause, or after an hour.
func TestPollPause(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{true, false} {
		cl := &Client{Line: &transport.Line{Options: transport.Options{Local: local}}}
		for _, millis := range []float64{-1e99, -1, 0, 0.5, 1, 100, 1e5, 1e99} {
			if pause := cl.pollPause(millis); pause < MinPoll || pause > maxPoll {
				t.Errorf("%v: the pause is %v", millis, pause)
			}
		}
	}
}
