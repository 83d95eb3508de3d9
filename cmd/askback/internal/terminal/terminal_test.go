package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/cmd/askback/internal/ptytest"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func wants[T any](t *testing.T, a *asked[T], want T) {
	t.Helper()
	got := expect.Must(a.end())(t)
	expect.Diff(t, "another result than wanted", want, got)
}

func TestDecline(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), "How was this bug resolved?", bug)
	p.sees("Resolution")
	p.types("\x1b[Z", down, strings.Repeat(tab, 13))
	p.sees("▸ Decline", "decline tells the server no")
	p.types(enter)
	wants(t, a, &mcp.ElicitResult{Action: "decline"})
	p.showsOnly("tracker asks:\n│ How was this bug resolved?\n✗ Declined: the server is told no.")
	p.gotItBack()
}

func TestCancel(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), "How was this bug resolved?", bug)
	p.sees("Resolution")
	p.types(down, enter, "12")
	p.sees("> 12")
	p.types(tab, esc)
	p.sees("What you have filled in is lost.")
	p.types(right, right, enter)
	wants(t, a, &mcp.ElicitResult{Action: "cancel"})
	p.showsOnly("tracker asks:\n│ How was this bug resolved?\n✗ Cancelled: the server is told that there is no " +
		"decision.")
	p.gotItBack()
}

// Ctrl-C is for whoever asks, and no answer.
func TestInterrupt(t *testing.T) {
	p := newPerson(t)
	on := p.terminal()
	form := askForm(t, on, "How was this bug resolved?", bug)
	p.sees("Resolution")
	p.types(down, enter, "12")
	p.sees("> 12")
	p.types(ctrlC)
	if result, err := form.end(); result != nil || !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v, %v", result, err)
	}
	page := ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
		return on.URL(ctx, "tracker", "Sign in", "https://example.com/", func(string) error { return nil })
	})
	p.sees("wants you to open an address")
	p.types(ctrlC)
	if result, err := page.end(); result != nil || !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v, %v", result, err)
	}
	p.gotItBack()
}

func TestContextEndsThePrompt(t *testing.T) {
	for name, env := range map[string]string{"drawn": "X=", "by line": "ACCESSIBLE=1"} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t)
			a := askForm(t, p.terminal(env), "How was this bug resolved?", bug)
			p.sees("Resolution")
			a.Cancel()
			if _, err := a.end(); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			p.gotItBack()
		})
	}
}

func TestTheTerminalGoesAway(t *testing.T) {
	for _, env := range []string{"X=", "ACCESSIBLE=1"} {
		p := newPerson(t)
		a := askForm(t, p.terminal(env), "How was this bug resolved?", bug)
		p.sees("Resolution")
		p.leaves()
		if result, _ := a.end(); result != nil && result.Action == "accept" {
			t.Errorf("%s: got %v", env, result)
		}
	}
}

func TestTypingIsNotLostBetweenQuestions(t *testing.T) {
	p := newPerson(t)
	on := p.terminal()
	for i := range 20 {
		a := askForm(t, on, fmt.Sprintf("question %d.", i), `{"type":"object","properties":{"x":{"type":"string"}}}`)
		p.sees(fmt.Sprintf("question %d.", i), "x · optional")
		p.types("abc")
		p.sees("> abc")
		p.types(enter)
		wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"x": "abc"}})
	}
}

// What is typed while nothing is asked, such as the next command, is no answer.
func TestTypingBeforeAQuestionIsNoAnswer(t *testing.T) {
	p := newPerson(t)
	p.types("make clean", enter)
	p.sees("make clean") // the terminal has it
	a := askForm(t, p.terminal(), "Who?", `{"type":"object","properties":{"name":{"type":"string"}}}`)
	p.sees("name · optional")
	p.types("Ada", enter)
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}})
}

func TestSmallTerminals(t *testing.T) {
	for _, size := range []struct{ rows, columns int }{{8, 40}, {3, 10}, {40, 200}} {
		p := newPerson(t)
		ptytest.Resize(t, p.tty, size.rows, size.columns)
		p.screen = newEmulator(size.rows, size.columns)
		a := askForm(t, p.terminal(), "How?", `{"type":"object","properties":{"x":{"type":"string"}}}`)
		p.waits("for anything", func(screen string) bool { return screen != "" })
		p.types("abc", enter)
		wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"x": "abc"}})
		p.gotItBack()
	}
}

func TestOneQuestionAtATime(t *testing.T) {
	p := newPerson(t)
	on := p.terminal()
	first := askForm(t, on, "the first", `{"type":"object","properties":{}}`)
	p.sees("the first")
	second := askForm(t, on, "the second", `{"type":"object","properties":{}}`)
	third := askForm(t, on, "the third", `{"type":"object","properties":{}}`)
	third.Cancel() // while it waits for its turn
	if _, err := third.end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.types(enter) // stands on Decline, as nothing was filled in
	wants(t, first, &mcp.ElicitResult{Action: "decline"})
	p.sees("the second")
	p.types(toLeft, enter)
	wants(t, second, &mcp.ElicitResult{Action: "accept", Content: map[string]any{}})
}

func numbered(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return strings.Join(all, `","`)
}

const evil = "\x1b]0;owned\x07\x1b[2J\x1b[31m\u009b1m\x1b]52;c;aGk=\x07\x1b]8;;https://evil.example\x1b\\here" +
	"\x1b]8;;\x1b\\ " +
	"\u202etxt.exe\u200b\U000e0041 https://evil.example www.evil.example mailto:a@evil \r\b\x00\x7f " +
	"a\u0300\u0301\u0302\u0303\u0304\u0305\u0306"

func TestHostileTextStaysText(t *testing.T) {
	quoted, _ := json.Marshal(evil)
	schema := fmt.Sprintf(`{"type":"object","properties":{
		%[1]s:{"type":"string","title":%[1]s,"description":%[1]s,"default":%[1]s},
		"two":{"type":"array","items":{"anyOf":[{"const":%[1]s,"title":"same"},{"const":"x","title":"same"},
			{"const":"y","title":%[1]s}]}}
	}}`, quoted)
	params := &mcp.CreateMessageWithToolsParams{SystemPrompt: evil, Messages: []*mcp.SamplingMessageV2{
		nil,
		{Role: mcp.Role(evil), Content: []mcp.Content{
			&mcp.TextContent{Text: evil}, &mcp.ImageContent{MIMEType: evil}, &mcp.AudioContent{MIMEType: evil},
			&mcp.ToolUseContent{Name: evil, Input: map[string]any{evil: evil}},
			&mcp.ToolResultContent{Content: []mcp.Content{&mcp.TextContent{Text: evil}}},
			&mcp.ResourceLink{URI: evil, Name: evil}, nil,
		}}}}
	questions := map[string]func(ctx context.Context, on *Terminal) (any, error){
		"form": func(ctx context.Context, on *Terminal) (any, error) {
			return on.Form(ctx, evil, evil, json.RawMessage(schema))
		},
		"bad form": func(ctx context.Context, on *Terminal) (any, error) {
			return on.Form(ctx, evil, evil,
				json.RawMessage(`{"type":"object","properties":{`+string(quoted)+`:{"type":`+string(quoted)+`}}}`))
		},
		"address": func(ctx context.Context, on *Terminal) (any, error) {
			return on.URL(ctx, evil, evil, "https://ok.example/\u202e\u00e9", nil)
		},
		"bad address": func(ctx context.Context, on *Terminal) (any, error) { return on.URL(ctx, evil, evil, evil, nil) },
		"sample":      func(ctx context.Context, on *Terminal) (any, error) { return on.Sample(ctx, evil, params) },
	}
	for name, put := range questions {
		for mode, env := range map[string]string{"drawn": "X=", "by line": "ACCESSIBLE=1"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				p := newPerson(t)
				a := ask(t, func(ctx context.Context) (any, error) { return put(ctx, p.terminal(env)) })
				p.sees(`\x1b]0;owned\a`)
				switch {
				case mode == "by line":
					p.types("\n/empty\n\n1\n", "/cancel\n", "\x04")
				case name == "form": // all of the page, the review and the record
					p.types("\x1b[6~", tab, tab, enter)
					p.sees("This will be sent:")
					p.types(enter)
					p.sees("✓ Sent.")
				default:
					p.types("\x1b[6~", strings.Repeat(tab, 5), enter, esc)
				}
				a.end()
				p.gotItBack() // nothing strange reached the terminal
				bad := []string{"\x1b]", "\x1b[2J", "\u009b", "\u202e", "\u200b", "\U000e0041", "\x07", "\x00", "\x7f", "\u0304"}
				if name != "form" { // there, one is a default, which must be shown as it will be sent
					bad = append(bad, "https://evil", "www.evil", "mailto:")
				}
				for _, bad := range bad {
					if p.everSaw(bad) {
						t.Errorf("%q reached the terminal", bad)
					}
				}
			})
		}
	}
}

// NO_COLOR takes the colours, and nothing else, from the form and from its record.
func TestNoColor(t *testing.T) {
	colour := regexp.MustCompile(`\x1b\[[0-9;]*[349][0-7]m`)
	for env, want := range map[string]bool{"X=": true, "NO_COLOR=": true, "NO_COLOR=1": false, "NO_COLOR=yes": false} {
		p := newPerson(t)
		a := askForm(t, p.terminal(env), "Who?", `{"type":"object","properties":{"name":{"type":"string"}}}`)
		p.sees("┃ name · optional", "enter send")
		p.types("Ada", enter)
		wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}})
		p.sees("✓ Sent.")
		p.leaves()
		form, record, _ := strings.Cut(p.raw.String(), "\x1b[?25h") // the cursor comes back between them
		if colour.MatchString(form) != want || colour.MatchString(record) != want {
			t.Errorf("%s: want colours: %v, got %q", env, want, p.raw.String())
		}
		expect.Contains(t, env+": nothing is bold", form, "\x1b[1m")
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), strings.Repeat("word ", 100)+strings.Repeat("\nrow", 100),
		`{"type":"object","properties":{}}`)
	p.sees("│ word word", "│ row…", "│ (cut here: 308 more characters)", "▸ Decline")
	p.types(esc)
	a.end()
	p = newPerson(t)
	a = askForm(t, p.terminal(), strings.Repeat("word ", 1000), `{"type":"object","properties":{"x":{"type":"string"}}}`)
	p.sees("│ (cut here: 3000 more characters)", "x · optional")
	p.types(esc)
	a.end()
}
