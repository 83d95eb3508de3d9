package main

import (
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// hosts are clients as they are in the field, and what the report says about each.
var hosts = []struct {
	says    string
	host    *client.Options
	version string // of the protocol
	tool    string
	want    []string // lines of the report, as regular expressions
}{
	{says: "a host that cannot be asked", host: &client.Options{}, tool: "ask_form", want: []string{
		`^probe 1 speaks 2026-07-28 and declares \{"extensions":\{"io.modelcontextprotocol/tasks":\{\}\}\}$`,
		`^ask_form: not asked, because the host does not declare elicitation\.form$`}},
	{says: "a host that declines by itself", host: &client.Options{Form: answer("decline")}, tool: "ask_form",
		want: []string{`^probe 1 speaks 2026-07-28 and declares .*"form":\{\}`, `^ask_form: asked$`,
			`^ask_form: "decline" after [\d.]+[mµ]?s$`}},
	{says: "a host of an earlier revision", host: &client.Options{Form: answer("accept")}, version: "2025-11-25",
		tool: "ask_form", want: []string{`^probe 1 speaks 2025-11-25 and declares .*"form":\{\}`, `^ask_form: asked$`,
			`^ask_form: answered after [\d.]+[mµ]?s$`}},
}

func answer(action string) func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
	return func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		res := &mcp.ElicitResult{Action: action}
		if action == "accept" {
			res.Content = map[string]any{"colour": "green"}
		}
		return res, nil
	}
}

func TestReport(t *testing.T) {
	for _, h := range hosts {
		t.Run(h.says, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(&out)
			web := httptest.NewServer(r.reading(newServer(r).HTTPHandler(nil)))
			defer web.Close()
			h.host.Implementation = &mcp.Implementation{Name: "probe", Version: "1"}
			session, err := client.New(h.host).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL},
				&mcp.ClientSessionOptions{ProtocolVersion: h.version})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: h.tool}); err != nil {
				t.Error(err)
			}
			session.Close()
			web.Close()
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != len(h.want) {
				t.Fatalf("the report has %d lines, want %d:\n%s", len(lines), len(h.want), out.String())
			}
			for i, want := range h.want {
				if !regexp.MustCompile(want).MatchString(lines[i]) {
					t.Errorf("line %d is %q, want %s", i+1, lines[i], want)
				}
			}
		})
	}
}

// A message may come in parts, and a part may have the end of one message and the begin of the next.
func TestReportReadsLines(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	in := `{"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"a","version":"2"},` +
		`"capabilities":{"roots":{}}}}` + "\n" + `{"method":"tools/list"}` + "\n"
	if _, err := io.Copy(r, io.MultiReader(strings.NewReader(in[:40]), strings.NewReader(in[40:]))); err != nil {
		t.Fatal(err)
	}
	if want := "a 2 speaks 2025-06-18 and declares {\"roots\":{}}\n"; out.String() != want {
		t.Errorf("the report is %q, want %q", out.String(), want)
	}
}

// A host that gives up ends the wait.
func TestReportOfAHostThatGivesUp(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	ours, theirs := mcp.NewInMemoryTransports()
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { served <- newServer(r).Run(ctx, ours) }()
	session, err := client.New(nil).Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	patience, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = session.CallTool(patience, &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{"seconds": 3600}})
	if err == nil {
		t.Error("the call ended")
	}
	session.Close()
	<-served // with it each handler has ended
	stop()
	if !strings.Contains(out.String(), "wait: the host gave up after ") {
		t.Errorf("the report is %q", out.String())
	}
}

// Whatever a host sends, the report has one line for it at most, which a terminal shows as it is.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"\u001b[2Jx",` +
		`"version":"\u202e1"},"capabilities":{"a":"\n"}}}`))
	f.Add([]byte(`{"method":"tools/call","params":{"_meta":{"` + mcp.MetaKeyProtocolVersion + `":"2026-07-28","` +
		mcp.MetaKeyClientInfo + `":{"name":"a\nb"},"` + mcp.MetaKeyClientCapabilities + `":[[]]}}}`))
	f.Add([]byte("{\n}\n\n[1"))
	f.Fuzz(func(t *testing.T, message []byte) {
		var out bytes.Buffer
		newReport(&out).read(message)
		said := strings.TrimSuffix(out.String(), "\n")
		for _, r := range said {
			if !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) && r != '\u200c' && r != '\u200d' {
				t.Fatalf("the report has the character %U: %q", r, said)
			}
		}
	})
}
