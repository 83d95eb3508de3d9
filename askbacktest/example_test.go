package askbacktest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
)

// test stands in for a test function. It prints why the test fails.
func test(f func(t testing.TB)) {
	done := make(chan bool)
	go func() {
		defer close(done)
		f(printer{})
	}()
	<-done
}

type printer struct{ testing.TB }

func (printer) Helper()                           {}
func (printer) Logf(string, ...any)               {}
func (printer) Errorf(format string, args ...any) { fmt.Printf("FAIL: "+format+"\n", args...) }
func (p printer) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}

type Bug struct {
	ID int `json:"id"`
}

type Resolution struct {
	Resolution string `json:"resolution" enum:"Fixed|Won't Fix|Duplicate"`
}

// Tracker is what the tool acts on.
type Tracker interface {
	Close(ctx context.Context, id int, resolution, idempotencyKey string) error
}

// RegisterCloseBug registers the tool under test.
func RegisterCloseBug(srv *askback.Server, tracker Tracker) {
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
		func(ctx context.Context, call *askback.Call, in Bug) (string, error) {
			res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
			if _, declined := errors.AsType[*askback.DeclinedError](err); declined {
				return "The bug stays open.", nil
			}
			if err != nil {
				return "", err
			}
			err = call.Do(ctx, "close", func(ctx context.Context) error {
				return tracker.Close(ctx, in.ID, res.Resolution, call.IdempotencyKey("close"))
			})
			return fmt.Sprintf("Bug #%d closed as %s.", in.ID, res.Resolution), err
		})
}

// fakeTracker records what it does, once for each idempotency key.
type fakeTracker struct {
	effects *askbacktest.Effects
	done    map[string]bool
}

func (f *fakeTracker) Close(_ context.Context, _ int, _, key string) error {
	if !f.done[key] {
		f.done[key] = true
		f.effects.Record("close bug")
	}
	return nil
}

// A tool that asks one question and then acts, once, although the request was sent twice.
func Example() {
	test(func(t testing.TB) {
		var effects askbacktest.Effects
		tracker := &fakeTracker{effects: &effects, done: map[string]bool{}}
		res := askbacktest.Run(t, func(srv *askback.Server) { RegisterCloseBug(srv, tracker) }, askbacktest.Call{
			Tool:      "close_bug",
			Arguments: Bug{ID: 7},
			Answers: map[string]askbacktest.Answer{
				"resolution": askbacktest.Accept(Resolution{"Fixed"}),
			},
			Effects: &effects,
		})
		fmt.Println(res.Asked)
		fmt.Println(res.Text())
		fmt.Println("closed", effects.Count("close bug"), "time")
	})
	// Output:
	// [[resolution]]
	// Bug #7 closed as Fixed.
	// closed 1 time
}

// run runs a handler without arguments, as a tool.
func run(
	t testing.TB, handler func(ctx context.Context, call *askback.Call) (string, error), c askbacktest.Call,
) *askbacktest.Result {
	c.Tool = "tool"
	return askbacktest.Run(t, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "tool"},
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
				return handler(ctx, call)
			})
	}, c)
}

type Confirmation struct {
	Confirm bool `json:"confirm"`
}

// The question depends on the clock. Its words do not change while the test runs, except that Run moves the clock.
func ExampleRun_clock() {
	due := time.Now().AddDate(0, 0, 3)
	remind := func(_ context.Context, call *askback.Call) (string, error) {
		message := "Send a reminder?"
		if time.Now().After(due) {
			message = "Send a second notice?"
		}
		_, err := askback.Elicit[Confirmation](call, "remind", message)
		return "Sent.", err
	}
	test(func(t testing.TB) {
		run(t, remind, askbacktest.Call{
			Answers: map[string]askbacktest.Answer{"remind": askbacktest.Accept(Confirmation{true})},
		})
	})
	// Output:
	// FAIL: askbacktest: the handler was replayed 7 days later, and asked something else:
	// 	question "remind": message: "Send a reminder?" → "Send a second notice?"
	// 	What a handler asks may depend only on its arguments, on answers, on call.ID and on results of steps. Read a clock, a counter, a random number or a nonce in askback.Do before the question, and sort the keys of a map.
}

// The mail is sent before the question, and so in every round. The fake tells it to Effects.
func ExampleEffects() {
	var effects askbacktest.Effects
	sendMail := func() { effects.Record("send mail") } // a fake
	notify := func(_ context.Context, call *askback.Call) (string, error) {
		sendMail()
		_, err := askback.Elicit[Confirmation](call, "seen", "Did you get the mail?")
		return "Done.", err
	}
	test(func(t testing.TB) {
		run(t, notify, askbacktest.Call{
			Answers: map[string]askbacktest.Answer{"seen": askbacktest.Accept(Confirmation{true})},
			Effects: &effects,
		})
	})
	// Output:
	// FAIL: askbacktest: effect "send mail" happens outside of a step, so it happens again in every round: put it into askback.Do or call.Do
}

// A fake that has no idempotency keys counts the closing of a bug twice, because Run sends every request twice. With
// Lossless it does not.
func ExampleEffects_Count() {
	var effects askbacktest.Effects
	h := func(ctx context.Context, call *askback.Call) (string, error) {
		return "Closed.", call.Do(ctx, "close", func(context.Context) error {
			effects.Record("close bug")
			return nil
		})
	}
	test(func(t testing.TB) {
		run(t, h, askbacktest.Call{Effects: &effects})
		fmt.Println(effects.Count("close bug"))
		run(t, h, askbacktest.Call{Effects: &effects, Lossless: true})
		fmt.Println(effects.Count("close bug"))
	})
	// Output:
	// 2
	// 3
}

// A step whose result has an unexported field: the handler would read 0 in every round.
func ExampleRun_result() {
	type Quote struct {
		Currency string
		cents    int
	}
	h := func(ctx context.Context, call *askback.Call) (string, error) {
		quote, err := askback.Do(ctx, call, "quote", func(context.Context) (Quote, error) { return Quote{"EUR", 4200}, nil })
		return fmt.Sprint(quote.cents, quote.Currency), err
	}
	test(func(t testing.TB) { run(t, h, askbacktest.Call{}) })
	// Output:
	// FAIL: askbacktest: step "quote": its result is recorded as JSON, which loses askbacktest_test.Quote.cents: 4200 → 0: export the field, or return from the step only what the handler reads
}

// A tool whose calls may be durable tasks runs in rounds.
func ExampleRun_task() {
	register := func(srv *askback.Server) {
		askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil,
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
				version, err := askback.Do(ctx, call, "build", func(context.Context) (string, error) { return "v2", nil })
				if err != nil {
					return "", err
				}
				if _, err := askback.Elicit[Confirmation](call, "deploy", "Deploy "+version+"?"); err != nil {
					return "", err
				}
				if err := call.Detach(); err != nil {
					return "", err
				}
				return version + " is deployed.", nil
			})
	}
	test(func(t testing.TB) {
		res := askbacktest.Run(t, register, askbacktest.Call{
			Tool:    "deploy",
			Answers: map[string]askbacktest.Answer{"deploy": askbacktest.Accept(Confirmation{true})},
		})
		fmt.Println(res.Text())
	})
	// Output: v2 is deployed.
}

// A prompt asks as a tool does. A resource is named by its URI, in Call.Resource.
func ExampleRun_prompt() {
	register := func(srv *askback.Server) {
		srv.AddPrompt(&mcp.Prompt{Name: "review"},
			func(_ context.Context, call *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
				focus, err := askback.Elicit[Resolution](call, "focus", "How was it resolved?")
				return &mcp.GetPromptResult{Description: "Review " + args["file"] + ", which is " + focus.Resolution}, err
			})
	}
	test(func(t testing.TB) {
		res := askbacktest.Run(t, register, askbacktest.Call{
			Prompt:    "review",
			Arguments: map[string]string{"file": "main.go"},
			Answers:   map[string]askbacktest.Answer{"focus": askbacktest.Accept(Resolution{"Fixed"})},
		})
		fmt.Println(res.Prompt.Description)
	})
	// Output: Review main.go, which is Fixed
}

// A client that cannot be asked. The handler asks nobody, and says so.
func ExampleCall_cannot() {
	h := func(_ context.Context, call *askback.Call) (string, error) {
		if !call.Can(askback.CapabilityForm) {
			return "Nothing is deleted without a confirmation.", nil
		}
		_, err := askback.Elicit[Confirmation](call, "delete", "Delete all?")
		return "Deleted.", err
	}
	test(func(t testing.TB) {
		fmt.Println(run(t, h, askbacktest.Call{Cannot: askback.CapabilityForm}).Text())
	})
	// Output: Nothing is deleted without a confirmation.
}

// An error of the protocol, which a host sees and the model does not.
func ExampleResult() {
	h := func(_ context.Context, call *askback.Call) (string, error) {
		_, err := askback.Elicit[Confirmation](call, "delete", "Delete all?")
		return "Deleted.", err
	}
	test(func(t testing.TB) {
		res := run(t, h, askbacktest.Call{Cannot: askback.CapabilityForm})
		fmt.Println(res.Tool == nil, res.Err.Code)
		fmt.Println(res.Text())
	})
	// Output:
	// true -32021
	// Missing required client capability: elicitation.form
}

// A login on a page in the browser. The nonce in its URL ties the page to this call. It comes from a step, so the user
// is sent to the same page in every run. The page tells the server who has signed in there, which the call looks up.
func ExampleRun_login() {
	users := map[string]string{} // who has signed in, by nonce
	h := func(ctx context.Context, call *askback.Call) (string, error) {
		nonce, err := askback.Do(ctx, call, "nonce", func(context.Context) (string, error) { return rand.Text(), nil })
		if err != nil {
			return "", err
		}
		page := "https://example.com/login?nonce=" + nonce
		if err := askback.ElicitURL(call, "login", "Please sign in.", page); err != nil {
			return "", err
		}
		user, err := askback.Do(ctx, call, "user", func(context.Context) (string, error) {
			users[nonce] = "ada" // the test plays the user, who signs in on the page
			return users[nonce], nil
		})
		return "Welcome, " + user + ".", err
	}
	test(func(t testing.TB) {
		res := run(t, h, askbacktest.Call{Answers: map[string]askbacktest.Answer{"login": askbacktest.Accept(nil)}})
		fmt.Println(res.Text())
	})
	// Output: Welcome, ada.
}

// A form, and a page to open, in one round.
func ExampleAccept() {
	h := func(_ context.Context, call *askback.Call) (string, error) {
		confirmed, err1 := askback.Elicit[Confirmation](call, "confirm", "Connect the account?")
		err2 := askback.ElicitURL(call, "sign in", "Please sign in.", "https://example.com/login")
		return fmt.Sprint("Connected: ", confirmed.Confirm), errors.Join(err1, err2)
	}
	test(func(t testing.TB) {
		res := run(t, h, askbacktest.Call{Answers: map[string]askbacktest.Answer{
			"confirm": askbacktest.Accept(Confirmation{true}),
			"sign in": askbacktest.Accept(nil),
		}})
		fmt.Println(len(res.Asked), res.Text())
	})
	// Output: 1 Connected: true
}

// The user says no, which the handler has an answer to.
func ExampleDecline() {
	test(func(t testing.TB) {
		res := askbacktest.Run(t, func(srv *askback.Server) { RegisterCloseBug(srv, nil) }, askbacktest.Call{
			Tool:      "close_bug",
			Arguments: Bug{ID: 7},
			Answers:   map[string]askbacktest.Answer{"resolution": askbacktest.Decline()},
		})
		fmt.Println(res.Text())
	})
	// Output: The bug stays open.
}

// The user closes the form, and the handler returns the error of the ask.
func ExampleCancel() {
	h := func(_ context.Context, call *askback.Call) (string, error) {
		_, err := askback.Elicit[Confirmation](call, "delete", "Delete all?")
		return "Deleted.", err
	}
	test(func(t testing.TB) {
		res := run(t, h, askbacktest.Call{Answers: map[string]askbacktest.Answer{"delete": askbacktest.Cancel()}})
		fmt.Println(res.Tool.IsError, res.Text())
	})
	// Output: true the question "delete" was dismissed without an answer
}

// summarize asks the client's model.
func summarize(_ context.Context, call *askback.Call) (string, error) {
	res, err := askback.Sample(call, "summary", &mcp.CreateMessageWithToolsParams{
		MaxTokens: 100,
		Messages: []*mcp.SamplingMessageV2{
			{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Summarize the bug."}}}},
	})
	if err != nil {
		return "", err
	}
	if res.StopReason == "maxTokens" {
		return "The summary is too long.", nil
	}
	return res.Content[0].(*mcp.TextContent).Text, nil
}

func ExampleCompletion() {
	test(func(t testing.TB) {
		res := run(t, summarize, askbacktest.Call{Answers: map[string]askbacktest.Answer{
			"summary": askbacktest.Completion("It crashes on Tuesdays."),
		}})
		fmt.Println(res.Text())
	})
	// Output: It crashes on Tuesdays.
}

// The model reached its limit of tokens.
func ExampleSampled() {
	test(func(t testing.TB) {
		res := run(t, summarize, askbacktest.Call{Answers: map[string]askbacktest.Answer{
			"summary": askbacktest.Sampled(&mcp.CreateMessageWithToolsResult{
				Role: "assistant", Model: "a model", StopReason: "maxTokens",
				Content: []mcp.Content{&mcp.TextContent{Text: "It crashes on"}},
			}),
		}})
		fmt.Println(res.Text())
	})
	// Output: The summary is too long.
}

func ExampleRoots() {
	h := func(_ context.Context, call *askback.Call) (string, error) {
		roots, err := askback.Roots(call, "roots")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(len(roots), " roots, the first is ", roots[0].URI), nil
	}
	test(func(t testing.TB) {
		res := run(t, h, askbacktest.Call{Answers: map[string]askbacktest.Answer{
			"roots": askbacktest.Roots("file:///src", "file:///docs"),
		}})
		fmt.Println(res.Text())
	})
	// Output: 2 roots, the first is file:///src
}

// The first answer does not fit the form, so that the question is asked again.
func ExampleInTurn() {
	test(func(t testing.TB) {
		tracker := &fakeTracker{effects: new(askbacktest.Effects), done: map[string]bool{}}
		res := askbacktest.Run(t, func(srv *askback.Server) { RegisterCloseBug(srv, tracker) }, askbacktest.Call{
			Tool:      "close_bug",
			Arguments: Bug{ID: 7},
			Answers: map[string]askbacktest.Answer{
				"resolution": askbacktest.InTurn(
					askbacktest.Accept(map[string]string{"resolution": "Forgotten"}),
					askbacktest.Accept(Resolution{"Fixed"}),
				),
			},
		})
		fmt.Println(len(res.Asked), "questions:", res.Text())
	})
	// Output: 2 questions: Bug #7 closed as Fixed.
}
