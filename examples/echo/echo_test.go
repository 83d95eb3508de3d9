package echo_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/examples/echo"
)

func TestAnInputThatIsGivenIsNotAskedFor(t *testing.T) {
	res := askbacktest.Run(t, echo.Register, askbacktest.Call{
		Tool: "echo", Arguments: map[string]string{"input": "Hello World!"}, Cannot: askback.KindForm,
	})
	if res.Text() != "Echo: Hello World!" || len(res.Asked) > 0 {
		t.Errorf("got %q after asking %q", res.Text(), res.Asked)
	}
}

func TestAClientWithoutTasksIsAskedInRounds(t *testing.T) {
	res := askbacktest.Run(t, echo.Register, askbacktest.Call{
		Tool: "echo",
		Answers: map[string]askbacktest.Answer{
			"echo_input": askbacktest.Accept(map[string]string{"input": "Hello World!"}),
		},
	})
	if res.Text() != "Echo: Hello World!" {
		t.Errorf("got %q", res.Text())
	}
	if diff := cmp.Diff([][]string{{"echo_input"}}, res.Asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestAQuestionDeclinedIsAToolError(t *testing.T) {
	res := askbacktest.Run(t, echo.Register, askbacktest.Call{
		Tool: "echo", Answers: map[string]askbacktest.Answer{"echo_input": askbacktest.Decline()},
	})
	if want := `the user declined to answer the question "echo_input"`; res.Tool == nil || !res.Tool.IsError || res.Text() != want {
		t.Errorf("got %q, want the tool error %q", res.Text(), want)
	}
}
