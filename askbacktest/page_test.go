package askbacktest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

type misspelt struct {
	Name string `json:"name" maxLenght:"80"`
}

type address struct{ Street, City string }

type nested struct {
	Name string
	Home address
}

type invoice struct {
	Total int
	cents int
}

type driver struct {
	Age int `json:"age" minimum:"18"`
}

type size struct {
	Size int `json:"size" minimum:"18"`
}

// section is what docs/reference.md shows of one mistake.
type section struct{ code, message string }

// readPage reads the mistakes in docs/reference.md: the titles, and the sections by title.
func readPage(t *testing.T) (titles []string, sections map[string]section) {
	t.Helper()
	page := expect.Must(os.ReadFile("../docs/reference.md"))(t)
	sections = make(map[string]section)
	block := regexp.MustCompile("(?s)^[^`]*```text\n(.*?)```\n\n```go\n(.*?)```\n.*?\n\\*\\*The way out:\\*\\* ")
	_, text, _ := strings.Cut(string(page), "\n## What a message means\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for i, text := range strings.Split(text, "\n#### ") {
		if i == 0 {
			continue
		}
		title, text, _ := strings.Cut(text, "\n")
		found := block.FindStringSubmatch(text)
		if found == nil {
			t.Errorf("docs/reference.md: %q lacks its code, its message or its way out", title)
			continue
		}
		titles = append(titles, title)
		sections[title] = section{code: words(found[2]), message: words(found[1])}
	}
	return titles, sections
}

// words are those of a text, however it is broken into lines.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// recovered returns what f panics with.
func recovered(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

// rounds calls a handler until it asks no more, or as often as there are answers by key, and returns the last result
// and the log, without what differs from call to call.
func rounds(t *testing.T, opts askback.Options, h handler, answers ...string) (text, log string) {
	t.Helper()
	out := new(harness.Log)
	opts.Logger = slog.New(slog.NewTextHandler(out,
		&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "call" {
				return slog.Attr{}
			}
			return a
		}}))
	srv := harness.NewServer(t, &opts, register(h)).HTTPHandler(nil)
	r := harness.Request{Target: "tool", Arguments: `{}`}
	res := r.Send(t, srv)
	for _, answer := range answers {
		r.State, r.Responses = res.Result.State, answer
		res = r.Send(t, srv)
	}
	if res.Result != nil && res.Result.Type == "complete" {
		text = res.Text(t)
	}
	return text + "\n", out.String()
}

// Each mistake of docs/reference.md is made as the page shows it, and gives the message that the page shows. A line of
// "…" stands for the advice at the end of a message, which the page shows once.
func TestThePageOfMistakes(t *testing.T) {
	fails := func(t *testing.T, h handler) string {
		return failures(t, register(h), askbacktest.Call{Tool: "tool", Answers: answered})
	}
	serve := func(h handler, answers ...string) func(*testing.T) string {
		return func(t *testing.T) string {
			text, log := rounds(t, askback.Options{}, h, answers...)
			return text + log
		}
	}
	says := func(h handler, answers ...string) func(*testing.T) string { // the log says the same
		return func(t *testing.T) string {
			text, log := rounds(t, askback.Options{}, h, answers...)
			if !strings.Contains(log, "a handler made a mistake") || !strings.Contains(log, "mistake="+
				strconv.Quote(strings.TrimSpace(text))) {
				t.Errorf("the client gets %q, and the log has %q", text, log)
			}
			return text
		}
	}
	tried := 0
	rules := map[string]string{"red": "Stop", "green": "Go"}
	mistakes := map[string]func(t *testing.T) string{
		"A misspelt tag": func(*testing.T) string {
			return recovered(func() { askback.MustForm[misspelt]() })
		},
		"A form that no client can show": func(*testing.T) string {
			return recovered(func() { askback.MustForm[nested]() })
		},
		"A side effect outside of a step": func(t *testing.T) string { return effectBeforeAsk(t) },
		"The order of a map in a question": func(t *testing.T) string {
			const want = `askbacktest: the handler was replayed, and asked something else: question "q": message: "…egin ` +
				`with red?" → "…egin with green?"`
			got := ""
			for range 1000 { // it may show in the second request, and with the colours exchanged
				if got = fails(t, func(_ context.Context, call *askback.Call) (string, error) {
					var first string
					for colour := range rules {
						first = colour
						break
					}
					_, err := askback.Elicit[name](call, "q", "Begin with "+first+"?")
					return "done", err
				}); strings.HasPrefix(words(got), want) {
					break
				}
			}
			return got
		},
		"A clock in a question": func(t *testing.T) (got string) {
			synctest.Test(t, func(t *testing.T) { // whose clock begins at midnight, in the year 2000
				got = fails(t, func(_ context.Context, call *askback.Call) (string, error) {
					_, err := askback.Elicit[name](call, "q", "Book it for "+time.Now().UTC().Weekday().String()+"?")
					return "done", err
				})
			})
			return got
		},
		"A nonce in a question": func(t *testing.T) string {
			nonces := 0
			newNonce := func() string { nonces++; return fmt.Sprint(nonces) }
			return fails(t, func(_ context.Context, call *askback.Call) (string, error) {
				nonce := newNonce()
				err := askback.ElicitURL(call, "login", "Sign in.", "https://example.com/login?nonce="+nonce)
				return "done", err
			})
		},
		"An answer in the test that does not fit": func(t *testing.T) string {
			return failures(t, register(func(_ context.Context, call *askback.Call) (string, error) {
				_, err := askback.Elicit[driver](call, "driver", "How old is the driver?")
				return "done", err
			}), askbacktest.Call{Tool: "tool", Answers: map[string]askbacktest.Answer{
				"driver": askbacktest.Accept(driver{17}),
			}})
		},
		"A question inside of a step": func(t *testing.T) string {
			return fails(t, func(ctx context.Context, call *askback.Call) (string, error) {
				err := call.Do(ctx, "book", func(context.Context) error {
					_, err := askback.Elicit[name](call, "q", "Who?")
					return err
				})
				return "done", err
			})
		},
		"A field that is lost in the record of a step": func(t *testing.T) string {
			return fails(t, func(ctx context.Context, call *askback.Call) (string, error) {
				_, err := askback.Do(ctx, call, "price", func(context.Context) (invoice, error) {
					return invoice{Total: 12, cents: 50}, nil
				})
				return "done", err
			})
		},
		"A rule that the user does not see": serve(func(_ context.Context, call *askback.Call) (string, error) {
			_, err := askback.Elicit[size](call, "size", "Which size?")
			return "done", err
		}, `{"size":{"action":"accept","content":{"size":17}}}`),
		"A question that is dropped": serve(func(_ context.Context, call *askback.Call) (string, error) {
			if _, err := askback.Elicit[name](call, "who", "Who?"); err != nil {
				return "", errors.New("nobody answered")
			}
			return "done", nil
		}),
		"Another question when the handler runs again": serve(func(_ context.Context, call *askback.Call) (string, error) {
			tried++
			_, err := askback.Elicit[name](call, fmt.Sprint("try-", tried), "Who?")
			return "done", err
		}, `{"try-1":{"action":"accept","content":{"name":"x"}}}`),
		"Two questions under one key": says(func(_ context.Context, call *askback.Call) (string, error) {
			_, err1 := askback.Elicit[name](call, "who", "Who are you?")
			_, err2 := askback.Elicit[name](call, "who", "Who is your friend?")
			return "done", errors.Join(err1, err2)
		}),
		"One question asked twice": says(func(_ context.Context, call *askback.Call) (string, error) {
			for range 3 {
				if err := askback.Approve(call, "q", askback.Question{Message: "Delete the next?"}); err != nil {
					return "", err
				}
			}
			return "done", nil
		}, `{"q":{"action":"accept"}}`),
		"BareFirstRound with a ReplayGuard": func(*testing.T) string {
			_, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "shop"}, nil), &askback.Options{
				BareFirstRound: true,
				ReplayGuard:    new(state.MemoryGuard),
			})
			return fmt.Sprint(err)
		},
		"Tasks that nobody runs": func(t *testing.T) (got string) {
			synctest.Test(t, func(t *testing.T) { got = tasksWithoutWorkers(t) })
			return got
		},
	}
	source := expect.Must(os.ReadFile("page_test.go"))(t)
	titles, sections := readPage(t)
	if len(titles) != len(mistakes) {
		t.Errorf("docs/reference.md has the mistakes %q, and the test %d", titles, len(mistakes))
	}
	for title, make := range mistakes {
		t.Run(title, func(t *testing.T) {
			got := strings.NewReplacer("askbacktest_test.", "main.").Replace(words(make(t)))
			shown := sections[title].message
			if begin, isCut := strings.CutSuffix(shown, " …"); isCut {
				shown = begin
				got, _, _ = strings.Cut(got, " What a handler asks may depend only on ")
			}
			expect.Equal(t, "docs/reference.md shows", shown, got)
			if code := sections[title].code; code == "" || !strings.Contains(words(string(source)), code) {
				t.Errorf("docs/reference.md shows code that this test does not run:\n%s", code)
			}
		})
	}
}

type mailer struct{ effects askbacktest.Effects }

func (m *mailer) Send(context.Context, string) error {
	m.effects.Record("send email")
	return nil
}

func effectBeforeAsk(t *testing.T) string {
	mail := new(mailer)
	return failures(t, register(func(ctx context.Context, call *askback.Call) (string, error) {
		if err := mail.Send(ctx, "We have your order."); err != nil {
			return "", err
		}
		_, err := askback.Elicit[name](call, "q", "Whom is it for?")
		return "done", err
	}), askbacktest.Call{Tool: "tool", Answers: answered, Effects: &mail.effects})
}

func tasksWithoutWorkers(t *testing.T) string {
	out := new(harness.Log)
	logger := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	store := new(task.MemoryStore)
	web := harness.NewServer(t, &askback.Options{Logger: logger, Tasks: &askback.Tasks{Store: store}},
		func(srv *askback.Server) {
			askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil,
				func(context.Context, *askback.Call, struct{}) (string, error) {
					return "deployed", nil
				})
		}).HTTPHandler(nil)
	r := harness.Request{Target: "deploy", Arguments: `{}`, Capabilities: harness.WithExtension}
	r.Send(t, web)
	time.Sleep(time.Minute) // another part of the program may still call RunTasks
	return out.String()
}

// The page is linked from where authors look.
func TestThePageIsLinked(t *testing.T) {
	for _, from := range []string{"../docs/tools.md", "../docs/tutorial.md", "askbacktest.go"} {
		text, err := os.ReadFile(filepath.FromSlash(from))
		if err != nil || !strings.Contains(string(text), "reference.md") {
			t.Errorf("%s does not name docs/reference.md (%v)", from, err)
		}
	}
}
