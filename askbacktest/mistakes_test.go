package askbacktest_test

import (
	"context"
	"errors"
	"fmt"

	"math/rand/v2"
	"regexp"

	"strings"
	"testing"

	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/state"
)

type handler = func(ctx context.Context, call *askback.Call) (string, error)

func register(h handler) func(*askback.Server) {
	return tool(func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) { return h(ctx, call) })
}

// asking is a handler whose only question has the message.
func asking(message func() string) handler {
	return func(_ context.Context, call *askback.Call) (string, error) {
		_, err := askback.Elicit[name](call, "q", message())
		return "done", err
	}
}

var answered = map[string]askbacktest.Answer{"q": askbacktest.Accept(name{"x"})}

type price struct {
	Total  int
	secret int
	Hidden string `json:"-"`
	Lines  []line
	Extra  any
}

type line struct{ cents int }

// stamped is encoded as its embedded time, which loses the ID.
type stamped struct {
	time.Time
	ID int
}

// returning is a handler with a step that returns v.
func returning[T any](v T) handler {
	return func(ctx context.Context, call *askback.Call) (string, error) {
		_, err := askback.Do(ctx, call, "price", func(context.Context) (T, error) { return v, nil })
		return "done", err
	}
}

// Each mistake is told in a few lines, with the way out.
func TestMistakesAreTold(t *testing.T) {
	counter := 0
	keys := map[string]bool{"red": true, "green": true}
	anyKey := func() string {
		for key := range keys {
			return key
		}
		return ""
	}
	const (
		later = "askbacktest: the handler was replayed 7 days later, and asked something else:\n\t"
	)
	for _, test := range []struct {
		name    string
		handler handler
		want    string // what the message begins with
	}{
		{"a counter in a question", asking(func() string {
			counter++
			return fmt.Sprintf("You have been asked %d times, go "+
				"on?", 48+counter)
		}),
			`askbacktest: the request was sent a second time, as a client does when a response is lost, and its outcome ` +
				"changed:\n\t" +
				`question "q": message: "…een asked 49 times, go on?" → "…een asked 50 times, go on?"` + "\n\t" +
				`What a handler asks may depend only on its arguments, on answers, on call.ID and on results of steps. ` +
				`Read a clock, a counter, a random number or a nonce in askback.Do before the question, ` +
				`and sort the keys of a map. ` +
				`If a fake in the test accepts each request only once, set Call.Lossless.`},
		{"a random number that decides whether to ask", func(_ context.Context, call *askback.Call) (string, error) {
			if rand.IntN(8) > 0 {
				return "done", nil
			}
			_, err := askback.Elicit[name](call, "q", "?")
			return "done", err
		}, ""},
		{"an hour that decides whether to ask", func(_ context.Context, call *askback.Call) (string, error) {
			if _, err := askback.Elicit[name](call, "q", "?"); err != nil {
				return "", err
			}
			if time.Until(started).Abs() < time.Hour {
				return "done", nil
			}
			_, err := askback.Elicit[name](call, "late", "It is late. Go on?")
			return "done", err
		}, later + `result ("done") → question "late" ("It is late. Go on?")`},
		{"the minute", asking(func() string { return time.Now().Format("15:04") }), later + `question "q": message: "`},
		{"the day", asking(func() string { return time.Now().Format("2006-01-02") }), later + `question "q": message: "`},
		{"an ask in a step", func(ctx context.Context, call *askback.Call) (string, error) {
			err := call.Do(ctx, "book", func(context.Context) error {
				_, err := askback.Elicit[name](call, "q", "?")
				return err
			})
			return "done", err
		}, `askbacktest: question "q" is asked inside the step "book", which does not run again once it is recorded: ask`},
		{"an ask in a step whose error is dropped", func(ctx context.Context, call *askback.Call) (string, error) {
			err := call.Do(ctx, "book", func(context.Context) error {
				_, _ = askback.Elicit[name](call, "q", "?")
				return nil
			})
			return "done", err
		}, `askbacktest: question "q" is asked inside the step "book"`},
		{"an unexported field", returning(price{secret: 42}),
			`askbacktest: step "price": its result is recorded as JSON, which loses askbacktest_test.price.secret: 42 → 0: ` +
				`export the field, or `},
		{"a field without JSON", returning(&price{Hidden: "h"}),
			`askbacktest: step "price": its result is recorded as JSON, which loses askbacktest_test.price.Hidden: "h" → ` +
				`"": remove the tag json:"-", or `},
		{"a field in a list", returning(map[string]price{"a": {Lines: []line{{}, {7}}}}),
			`askbacktest: step "price": its result is recorded as JSON, which loses ` +
				`map[string]askbacktest_test.price["a"].Lines[1].cents: 7 → 0: `},
		{"a field behind an interface", returning(price{Extra: price{secret: 1}}),
			`askbacktest: step "price": its result is recorded as JSON, which loses askbacktest_test.price.Extra: `},
		{"a large integer behind an interface", returning(map[string]any{"n": 1<<53 + 1}),
			`askbacktest: step "price": its result is recorded as JSON, which loses map[string]interface {}["n"]: ` +
				`9007199254740993 → 9.007199254740992e+15: `},
		{"a field beside an embedded time", returning(stamped{started, 7}),
			`askbacktest: step "price": its result is recorded as JSON, which loses askbacktest_test.stamped.ID: 7 → 0: ` +
				`give its type `},
		{"a question asked twice, whose error is wrapped", func(_ context.Context, call *askback.Call) (string, error) {
			for range 3 {
				_, err := askback.Elicit[name](call, "q", "Delete the next?")
				if errors.Is(err, askback.ErrInputRequired) {
					return "", err
				}
				if err != nil {
					return "", fmt.Errorf("deleting: %v", err)
				}
			}
			return "done", nil
		}, `askbacktest: the question "q" is asked twice in one run: give each question its own key`},
		{"a form that is none", func(_ context.Context, call *askback.Call) (string, error) {
			_, err := askback.Elicit[misspelt](call, "q", "?")
			if err != nil {
				return "", fmt.Errorf("asking: %v", err)
			}
			return "done", nil
		}, `askbacktest: question "q": form: field askbacktest_test.misspelt.Name: no tag is called maxLenght; did you ` +
			`mean maxLength?`},
		{"For without a prefix", func(_ context.Context, call *askback.Call) (string, error) {
			err := askback.Approve(call, "q", askback.Question{Message: "?", For: []string{"ada"}})
			if err != nil {
				return "", errors.New("no approval")
			}
			return "done", nil
		}, `askbacktest: question "q": "ada" in For is nobody: write askback.User(name) or askback.Group(name)`},
		{"an empty key", func(_ context.Context, call *askback.Call) (string, error) {
			_, _ = askback.Elicit[name](call, "", "?")
			return "done", nil
		}, `askbacktest: a question needs a key`},
		{"an empty message", func(_ context.Context, call *askback.Call) (string, error) {
			_, err := askback.Elicit[name](call, "q", " ")
			return "done", err
		}, `askbacktest: question "q": its message is empty: say what is asked`},
		{"a step twice", func(ctx context.Context, call *askback.Call) (string, error) {
			for range 2 {
				_ = call.Do(ctx, "send", func(context.Context) error { return nil })
			}
			return "done", nil
		}, `askbacktest: the step name "send" is used twice in one run`},
		{"a result that no JSON holds", func(ctx context.Context, call *askback.Call) (string, error) {
			_, err := askback.Do(ctx, call, "open", func(context.Context) (chan int, error) { return nil, nil })
			return "done", err
		}, `askbacktest: step "open" ran, but its result cannot be recorded: json: unsupported type: chan int`},
		{"an outside that fails before the question", func(_ context.Context, call *askback.Call) (string, error) {
			return "", errors.New("the tracker is down")
		}, `askbacktest: the question "q" was never asked, because the call ended with an error: the tracker is down`},
		{"a large schema", func(_ context.Context, call *askback.Call) (string, error) {
			counter++
			properties := make(map[string]any)
			for i := range 200 {
				properties[fmt.Sprintf("p%03d", i)] = map[string]any{"type": "string", "title": strings.Repeat("x", 200) +
					fmt.Sprint(counter)}
			}
			_, err := askback.ElicitWith[map[string]any](call, "q",
				askback.Question{Message: "?", Schema: map[string]any{"type": "object", "properties": properties}})
			return "done", err
		}, "askbacktest: the request was sent a second time, as a client does when a response is lost, and its outcome " +
			"changed:\n\t" +
			`question "q": requestedSchema.properties.p000.title: "…xxxxxxxxxx`},
		{"a long message", asking(func() string { counter++; return fmt.Sprint(counter, strings.Repeat("x", 10000)) }), ""},
		{"a key from a map", func(_ context.Context, call *askback.Call) (string, error) {
			_, err := askback.Elicit[name](call, anyKey(), "?")
			return "done", err
		}, ""},
		{"a map's order", asking(func() string { return anyKey() }), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := failures(t, register(test.handler), askbacktest.Call{Tool: "tool", Answers: answered})
			if got == "" || !strings.HasPrefix(got, test.want) {
				t.Errorf("failed with:\n%s\nwant:\n%s", got, test.want)
			}
			if len(got) > 600 || strings.Count(got, "\n") > 2 || sealed.MatchString(got) {
				t.Errorf("%d bytes:\n%s", len(got), got)
			}
		})
	}
}

var started = time.Now()

// A panic is told with the place of it, in whatever run it is.
func TestPanicsAreTold(t *testing.T) {
	for _, from := range []int{1, 2, 10} {
		run := 0
		got := failures(t, register(func(_ context.Context, call *askback.Call) (string, error) {
			if run++; run >= from {
				var none *name
				return none.Name, nil
			}
			_, err := askback.Elicit[name](call, "q", "?")
			return "done", err
		}), askbacktest.Call{Tool: "tool", Answers: answered})
		if !strings.HasPrefix(got, "askbacktest: the handler panicked: runtime error: invalid memory address or nil "+
			"pointer dereference\n") ||
			!strings.Contains(got, "mistakes_test.go:") || strings.Count(got, "\n") > 8 {
			t.Errorf("run %d: failed with %q", from, got)
		}
	}
}

// sealed is what a requestState looks like.
var sealed = regexp.MustCompile(`[A-Za-z0-9_-]{100}`)

// Where two questions of a key travel under different keys, a reworded one is still told as one.
func TestAQuestionThatChangesBesideAStore(t *testing.T) {
	attempt := 0
	got := failures(t, register(asking(func() string {
		if attempt++; attempt <= 2 {
			return "First?"
		}
		return "Later?"
	})), askbacktest.Call{
		Tool: "tool", Answers: answered,
		Options: askback.Options{States: &state.Options{Store: new(state.MemoryStore), Mode: state.Dual}},
	})
	expect.Contains(t, "failed", got, `question "q": message: "First?" → "Later?"`)
}
