package echo_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/cmd/askback/examples/echo"
)

func TestAnInputThatIsGivenIsNotAskedFor(t *testing.T) {
	res := askbacktest.Run(t, echo.Register, askbacktest.Call{
		Tool: "echo", Arguments: map[string]string{"input": "Hello World!"}, Cannot: askback.CapabilityForm,
	})
	if res.Text() != "Echo: Hello World!" || len(res.Asked) > 0 {
		t.Errorf("got %q after asking %q", res.Text(), res.Asked)
	}
}

func TestAClientWithoutTasksIsAskedInRounds(t *testing.T) {
	for tool, register := range map[string]func(*askback.Server){"echo": echo.Register, "echo_later": echo.RegisterLater} {
		res := askbacktest.Run(t, register, askbacktest.Call{
			Tool: tool,
			Answers: map[string]askbacktest.Answer{
				"echo_input": askbacktest.Accept(map[string]string{"input": "Hello World!"}),
			},
		})
		if res.Text() != "Echo: Hello World!" {
			t.Errorf("%s: got %q", tool, res.Text())
		}
		if diff := cmp.Diff([][]string{{"echo_input"}}, res.Asked); diff != "" {
			t.Errorf("%s: asked (-want +got):\n%s", tool, diff)
		}
	}
}

func TestAQuestionDeclinedIsAToolError(t *testing.T) {
	res := askbacktest.Run(t, echo.Register, askbacktest.Call{
		Tool: "echo", Answers: map[string]askbacktest.Answer{"echo_input": askbacktest.Decline()},
	})
	if want := `the user declined to answer the question "echo_input"`; res.Tool == nil || !res.Tool.IsError ||
		res.Text() != want {
		t.Errorf("got %q, want the tool error %q", res.Text(), want)
	}
}
