package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/judge/process"
)

// What the judge prints, and its status, for the command of this project and for wrong arguments.
func TestTheCommand(t *testing.T) {
	t.Parallel()
	askback := expect.Must(process.Build(t.Context(), t.TempDir()))(t)
	client := []string{"--", askback, "call", "{url}", "test_mrtr_echo_state", "--answer", `confirm={"confirmed":true}`}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{append([]string{"-probe", "client-state-unchanged,client-id"}, client...), 0, "0 fail, 0 warn"},
		{append([]string{"-json", "-probe", "client-id"}, client...), 0, `"probe": "client-id"`},
		{append([]string{"-person", "declines", "-probe", "client-person"}, client...), 1, "it accepted a form"},
		{[]string{"-probe", "client-id", "--", askback, "tools", "{url}"}, 1, "did not call the tool"},
		{nil, 2, "is missing"},
		{[]string{"--", "./not-there"}, 2, "starting the client"},
		{[]string{"-person", "somebody", "--", os.Args[0]}, 2, "want none, accepts or declines"},
		{[]string{"-timeout", "-1s", "--", os.Args[0]}, 2, "want a time above zero"},
		{[]string{"-probe", "client-nothing", "--", os.Args[0]}, 2, "client-nothing"},
	} {
		var stdout, stderr bytes.Buffer
		if status := command(t.Context(), c.args, &stdout, &stderr); status != c.status {
			t.Errorf("%q: status %d, want %d", c.args, status, c.status)
		}
		if text := stdout.String() + stderr.String(); !strings.Contains(text, c.want) {
			t.Errorf("%q: %q is not in\n%s", c.args, c.want, text)
		}
	}
}
