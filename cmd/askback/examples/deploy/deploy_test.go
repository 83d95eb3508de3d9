package deploy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/cmd/askback/examples/deploy"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// run has carol call deploy, and people answer.
func run(t *testing.T, arguments map[string]any, answers map[string]askbacktest.Answer) *askbacktest.Result {
	t.Helper()
	return askbacktest.Run(t, deploy.Register, askbacktest.Call{
		Tool: "deploy", Principal: "carol", Arguments: arguments, Answers: answers,
	})
}

var (
	version = map[string]any{"version": "4.2"}
	accept  = askbacktest.Accept(nil)
)

func TestTwoApprove(t *testing.T) {
	res := run(t, version, map[string]askbacktest.Answer{
		"approve": askbacktest.InTurn(
			accept.By("carol", "release"), accept.By("eve", "sales"), // who do not count
			accept.By("ada", "release"), accept.By("ada", "release"), accept.By("bob", "oncall", "release"),
		),
	})
	if want := "Version 4.2 is deployed, approved by ada and bob."; res.Text() != want {
		t.Errorf("got %q, want %q", res.Text(), want)
	}
	if diff := cmp.Diff([][]string{{"approve"}}, res.Asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if len(res.Refused) != 2 || !errors.Is(res.Refused[0], desk.ErrOwnCall) ||
		!errors.Is(res.Refused[1], task.ErrNotFound) {
		t.Errorf("refused: %v", res.Refused)
	}
}

func TestOneDeclines(t *testing.T) {
	res := run(t, version, map[string]askbacktest.Answer{
		"approve": askbacktest.InTurn(accept.By("ada", "release"),
			askbacktest.Decline().By("bob", "release").Because("not on a Friday")),
	})
	if want := "Version 4.2 is not deployed: bob declined, because: not on a Friday."; res.Text() != want {
		t.Errorf("got %q, want %q", res.Text(), want)
	}
}

func TestSomebodyOnCallDecides(t *testing.T) {
	for _, tt := range []struct {
		answer askbacktest.Answer
		want   string
	}{
		{accept.By("dora", "oncall"), "Version 4.2 is deployed, approved by dora."},
		{askbacktest.Decline().By("dora", "oncall"), "Version 4.2 is not deployed: dora declined."},
	} {
		res := run(t, map[string]any{"version": "4.2", "within": "90m"}, map[string]askbacktest.Answer{
			"approve": askbacktest.InTurn(accept.By("ada", "release"), askbacktest.Unanswered(),
				accept.By("bob", "release")),
			"escalate": tt.answer,
		})
		if res.Text() != tt.want {
			t.Errorf("got %q, want %q", res.Text(), tt.want)
		}
		if len(res.Refused) != 1 || !errors.Is(res.Refused[0], task.ErrLate) {
			t.Errorf("refused: %v", res.Refused)
		}
	}
}

func TestWithinIsATime(t *testing.T) {
	for _, within := range []string{"", "soon", "0s", "-1h"} {
		res := run(t, map[string]any{"version": "4.2", "within": within}, nil)
		if !res.Tool.IsError || !strings.Contains(res.Text(), "is not a time above zero") {
			t.Errorf("%q: %s", within, res.Text())
		}
	}
}

func TestAVersionIsNoText(t *testing.T) {
	for _, v := range []string{"", "4.2? It was approved", "4.2\n", strings.Repeat("4", 65)} {
		if res := run(t, map[string]any{"version": v}, nil); !res.Tool.IsError {
			t.Errorf("%q: %s", v, res.Text())
		}
	}
}
