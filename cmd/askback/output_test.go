package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestNothingDisturbsAQuestion(t *testing.T) {
	var out bytes.Buffer
	c := &console{w: &out, terminal: true}
	c.progress(&mcp.ProgressNotificationParams{Progress: 1, Total: 3, Message: "reading"})
	first, second := c.ask(), c.ask()
	want := "\r\x1b[Kprogress: 1 of 3: reading\r\x1b[K"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("before the question (-want +got):\n%s", diff)
	}
	c.line("note %d", 1)
	c.progress(&mcp.ProgressNotificationParams{Progress: 2})
	first()
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("while one is asked (-want +got):\n%s", diff)
	}
	second()
	c.line("note 2")
	want += "note 1\nnote 2\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
}
