package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/webhook"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
)

// instanceVariable is the environment variable of a process that is to be an instance, with its [instance] as JSON.
const instanceVariable = "REAL_INSTANCE"

// instance is what an instance of the server needs to know. It is made as examples/fleet is, with other tools.
type instance struct {
	Addr, Database, Keys string
	Outside              string // the URL of the payment service and the receiver
}

// userHeader is the header with the name of who calls.
const userHeader = "X-User"

// serve is an instance until ctx is done, or its standard input ends as it does with the judge.
func serve(ctx context.Context, text string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var i instance
	if err := json.Unmarshal([]byte(text), &i); err != nil {
		return err
	}
	store, err := postgres.Open(ctx, i.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	srv, err1 := i.newServer(ctx, store)
	d, err2 := desk.Open(store, nil)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	page, err := inbox.New(d, &inbox.Options{Title: "Orders", Identity: inbox.TrustedHeader{Name: personHeader,
		Groups: "X-Auth-Request-Groups", Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", srv.HTTPHandler(nil))
	mux.Handle("/inbox/", http.StripPrefix("/inbox", page))
	listener, err := drain.Listen(i.Addr)
	if err != nil {
		return err
	}
	fmt.Println(i.Addr)
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return srv.RunTasks(ctx) })
	work.Go(func() error {
		web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		return drain.Serve(ctx, listener, web, &drain.Options{Ready: srv.Ready})
	})
	return work.Wait()
}

func (i *instance) newServer(ctx context.Context, store *postgres.Store) (*askback.Server, error) {
	keys, err1 := seal.File(i.Keys).Load(ctx)
	hook, err2 := webhook.New(i.Outside+"/notices", webhookSecret, nil)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "orders", Version: "1.0.0"}, nil), &askback.Options{
		Keys:  keys,
		Tasks: &askback.Tasks{Store: store, Settings: task.Settings{Lease: lease}},
		Desk:  &askback.DeskOptions{Wait: wait, Notify: hook.Send, Remind: -1},
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return extra.Header.Get(userHeader), nil
		},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return nil, err
	}
	srv.AddResultTool()
	askback.AddTaskTool(srv, &mcp.Tool{Name: "refund"}, nil, i.refund)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "refund_task"}, &askback.TaskSupport{Required: true}, i.refund)
	askback.AddTool(srv, &mcp.Tool{Name: "once"},
		func(_ context.Context, _ *askback.Call, in order) (string, error) {
			return "done " + in.ID, i.do(effect{ID: in.ID})
		})
	askback.AddTool(srv, &mcp.Tool{Name: "quick"}, func(_ context.Context, call *askback.Call, in order) (string, error) {
		login, err := askback.Elicit[login](call, "login", "Who are you?")
		return fmt.Sprintf("hello %s in %s", login.Name, in.ID), err
	})
	return srv, nil
}

type order struct {
	ID     string `json:"id"`
	Millis int    `json:"millis"` // until the deadline
}

type login struct {
	Name string `json:"name"`
}

// refund pays if two of the group finance accept or, after a deadline, one of the group support-leads. Its result says
// what was decided, and so does the effect.
func (i *instance) refund(ctx context.Context, call *askback.Call, in order) (string, error) {
	asked, action := "approve", "accept"
	err := askback.Approve(call, asked, askback.Question{
		Message: "Refund order " + in.ID + "?", For: []string{askback.Group("finance")}, Votes: 2,
		Within: time.Duration(in.Millis) * time.Millisecond,
	})
	if _, late := errors.AsType[*askback.UnansweredError](err); late {
		asked = "escalate"
		err = askback.Approve(call, asked, askback.Question{
			Message: "Refund order " + in.ID + "? Nobody has decided.", For: []string{askback.Group("support-leads")},
		})
	}
	if _, declined := errors.AsType[*askback.DeclinedError](err); declined {
		action, err = "decline", nil
	}
	if err != nil {
		return "", err
	}
	decided := verdict(action, call.Answers(asked))
	if action == "accept" {
		err = call.Do(ctx, "pay", func(context.Context) error {
			return i.do(effect{ID: in.ID, Key: call.IdempotencyKey("pay"), Verdict: decided})
		})
	}
	return in.ID + ": " + decided, err
}

// verdict is the text of a decision, which is compared wherever it is found.
func verdict(action string, by []input.Provenance) string {
	for i, p := range by {
		action += []string{" by ", " and "}[min(i, 1)] + p.Who
	}
	return action
}

// do has an effect outside, which takes some time around it.
func (i *instance) do(e effect) error {
	time.Sleep(rand.N(200 * time.Millisecond))
	e.PID = os.Getpid()
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	res, err := http.Post(i.Outside+"/effects", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	time.Sleep(rand.N(200 * time.Millisecond))
	return res.Body.Close()
}
