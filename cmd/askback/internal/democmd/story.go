package democmd

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/examples/workitem"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// story tells a person what the demo does, in 80 columns. A terminal gets colours and wrapped texts; elsewhere a text
// of the server stays on one line.
type story struct {
	w        io.Writer
	terminal bool
	colour   bool
	err      error // the first error of writing; nothing is written after it
}

func newStory(w io.Writer) *story {
	onTerminal := cli.IsTerminal(w)
	return &story{
		w:        w,
		terminal: onTerminal,
		colour:   onTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

// The parameters of Select Graphic Rendition.
const (
	bold  = "1"
	faint = "2"
	red   = "31"
	green = "32"
	cyan  = "36"
)

func (s *story) in(style, text string) string {
	if !s.colour || style == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[m"
}

func (s *story) say(format string, args ...any) {
	if s.err == nil {
		s.err = cli.Output(s.w, fmt.Sprintf(format+"\n", args...))
	}
}

// text prints a text of the server behind a mark of one column.
func (s *story) text(mark, style, text string) {
	if s.terminal {
		text = cli.Wrap(text, "    ")
	}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		s.say("  %s %s", mark, s.in(style, strings.TrimSpace(line)))
		mark = " "
	}
}

func (s *story) begin(f *fleet, bug workitem.Item, automatic string) {
	s.say("%s\n", s.in(bold, "A tool asks back. The server that asked is killed. Another one finishes."))
	client := "  client ─── proxy " + f.addr + " "
	margin := strings.Repeat(" ", utf8.RuneCountInString(client))
	proxy := "             round robin"
	for i, server := range f.servers {
		lead, branch := margin, " ├─"
		switch i {
		case 0:
			lead, branch = client, "─┬─"
		case 1:
			lead = proxy + margin[len(proxy):]
		}
		if i == len(f.servers)-1 {
			branch = " └─"
		}
		s.say("%s%s %s   port %-5s   pid %d", lead, branch, s.name(server), server.port, server.PID())
	}
	s.say(`
  The servers share one secret key and nothing else: no session, no memory of
  calls. %s is not theirs: it is in the tracker that the tool works on,
  here a SQLite file.`, bug)
	s.say("\n  The client calls %s: set %s to Resolved.", s.in(bold, "update_work_item"), bug)
	if automatic != "" {
		s.say("  The questions are answered automatically (%s).", automatic)
	}
}

func (s *story) name(server *fleetServer) string {
	return s.in(cyan, fmt.Sprintf("server %d", server.number))
}

// round tells what the client sent and what came back.
func (s *story) round(r *client.Round, server *fleetServer) {
	sent, came := []string{"the call"}, []string{}
	for _, key := range slices.Sorted(maps.Keys(r.Answers)) {
		sent = append(sent, "answer "+key)
	}
	for _, q := range r.Questions {
		came = append(came, "question "+q.Key)
	}
	if r.Final {
		came = append(came, "the result")
	}
	if r.StateSent > 0 {
		sent = append(sent, fmt.Sprintf("sealed state, %d bytes", r.StateSent))
	}
	if r.StateReceived > 0 {
		came = append(came, fmt.Sprintf("sealed state, %d bytes", r.StateReceived))
	}
	s.say("\n%s   %s (port %s, pid %d)", s.in(bold, fmt.Sprintf("Round %d", r.Number)), s.name(server), server.port,
		server.PID())
	s.say("  → %s", strings.Join(sent, " + "))
	s.say("  ← %s", strings.Join(came, " + "))
	switch {
	case r.Final:
	case r.Number == 1:
		s.explain("That ends the request. The server keeps nothing; the client has the state.")
	case r.Number == 2:
		s.explain("It never saw round 1: it opened the state with the key, and ran the tool",
			"from the top. The first answer was at hand, so it came to the next question.")
	}
}

func (s *story) explain(lines ...string) {
	for _, line := range lines {
		s.say("    %s", s.in(faint, line))
	}
}

func (s *story) kill(server *fleetServer, killed bool) {
	if killed {
		s.say("  %s %s killed (SIGKILL), before the answer", s.in(red, "✗"), s.name(server))
	} else {
		s.say("    %s is the last one alive, and is spared", s.name(server))
	}
}

func (s *story) hint(text string) {
	s.say("")
	if text != "" {
		s.explain(text)
		s.say("")
	}
}

// answer tells an automatic answer.
func (s *story) answer(q *client.Question, content map[string]any) {
	s.say("")
	s.text("?", "", q.Message)
	var values []string
	for _, name := range slices.Sorted(maps.Keys(content)) {
		values = append(values, fmt.Sprint(content[name]))
	}
	s.say("  > %s  %s", s.in(bold, strings.Join(values, ", ")), s.in(faint, "(automatic)"))
}

func (s *story) result(result *mcp.CallToolResult) {
	s.say("")
	style, mark := green, "✓"
	if result.IsError {
		style, mark = red, "✗"
	}
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			s.text(s.in(style, mark), bold, t.Text)
		}
	}
}

// history shows the changes that the call made in the tracker.
func (s *story) history(bug workitem.Item, entries []workitem.Entry) {
	s.say("")
	if len(entries) == 0 {
		s.say("The tracker's history of %s: nothing was changed.", bug)
		return
	}
	s.say("The tracker's history of %s: everything was done once.", bug)
	for _, e := range entries {
		s.say("  %-18s %s → %s", e.Field, cmp.Or(e.From, "(none)"), cmp.Or(e.To, "(none)"))
	}
}

// sum tells the outcome of the demo.
func (s *story) sum(f *fleet) {
	killed := 0
	for _, server := range f.servers {
		if !server.Alive() {
			killed++
		}
	}
	if killed > 0 {
		s.say("\nThe call outlived %d of its %d servers: no server holds a call that is waiting.", killed, len(f.servers))
	}
}

// next suggests what to try after the demo.
func (s *story) next(command string, automatic bool) {
	lines := [][2]string{
		{command + " demo", "answer the questions yourself"},
		{command + " serve", "serve these tools to your own MCP client"},
		{command + " call --help", "call and answer tools of any server"},
		{"cmd/askback/examples/workitem", "read the tool: one Go function"},
	}
	if !automatic {
		lines = lines[1:]
	}
	width := 0
	for _, l := range lines {
		width = max(width, len(l[0]))
	}
	s.say("\n%s", s.in(bold, "Next"))
	for _, l := range lines {
		s.say("  %-*s   %s", width, l[0], s.in(faint, l[1]))
	}
}

// invocation is the command line that starts this program again.
func invocation(executable string) string {
	switch {
	case !strings.Contains(filepath.ToSlash(executable), "/go-build"): // not of go run
		return filepath.Base(executable)
	case cli.Version() == "devel":
		return "go run ./cmd/askback"
	}
	return "go run github.com/askback-mcp/askback/cmd/askback@" + cli.Version()
}
