// Command escalate is an MCP server whose tool refunds an order once somebody of a group has approved it. If nobody of
// the group answers in time, the group's manager is asked. If the manager does not answer either, the answer is no. The
// bank takes no idempotency key: if nobody knows whether it has paid, the manager looks.
//
//	go run ./cmd/askback keys new askback.keys
//	MANAGER=dora go run ./examples/escalate
//
// It stands behind a proxy that verifies the tokens of MCP clients. The proxy sets the header X-User, and removes one
// that is sent to it. People answer with 'askback inbox', or on the page of 'askback inbox serve'.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	r := refunds{manager: os.Getenv("MANAGER"), pay: pay}
	flag.DurationVar(&r.group, "group", 4*time.Hour, "how long the group support may take")
	flag.DurationVar(&r.alone, "manager", 24*time.Hour, "how long the manager may take after that")
	flag.Parse()
	if r.manager == "" {
		return errors.New("the environment lacks MANAGER: the name of the user who decides when the group support does not")
	}
	keys, err := seal.File("askback.keys").Load(ctx) // the same keys on every instance
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, "refunds.db") // for several machines task/postgres
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	srv, err := newServer(keys, store, r, func(_ context.Context, n desk.Notice) error {
		log.Printf("%s: %s, of %v", n.Kind, n.Message, n.For) // examples/slack tells people
		return nil
	})
	if err != nil {
		return err
	}
	listener, err := drain.Listen(cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on http://%s", listener.Addr())
	server := &http.Server{Handler: srv.HTTPHandler(nil), ReadHeaderTimeout: 10 * time.Second}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return srv.RunTasks(ctx) })
	work.Go(func() error { return drain.Serve(ctx, listener, server, &drain.Options{Ready: srv.Ready}) })
	return work.Wait()
}

// newServer returns a server that keeps its questions in the store, which all instances share.
func newServer(keys *seal.Ring, store task.Store, r refunds,
	notify func(context.Context, desk.Notice) error) (*askback.Server, error) {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "refunds", Version: "1.0.0"}, nil), &askback.Options{
		Keys:      keys,
		Principal: user,
		Tasks:     &askback.Tasks{Store: store},
		Desk:      &askback.DeskOptions{Notify: notify, Remind: 0.5}, // a reminder after half of the time
	})
	if err != nil {
		return nil, err
	}
	r.register(srv)
	srv.AddResultTool() // for hosts without tasks
	return srv, nil
}

// user returns who sent a request, as the proxy says. An anonymous caller cannot ask a group.
func user(_ context.Context, extra *mcp.RequestExtra) (string, error) {
	if names := extra.Header.Values("X-User"); len(names) == 1 && names[0] != "" {
		return names[0], nil
	}
	return "", errors.New("the proxy has not set the header X-User")
}

// refunds has who approves refunds and how long they may take, and what pays them.
type refunds struct {
	manager      string
	group, alone time.Duration
	pay          func(ctx context.Context, order int) error
}

type order struct {
	Order int `json:"order" jsonschema:"the number of the order"`
}

func (r refunds) register(srv *askback.Server) {
	askback.AddTaskTool(srv, &mcp.Tool{Name: "refund", Description: "Refund an order once somebody has approved it"}, nil,
		func(ctx context.Context, call *askback.Call, in order) (string, error) {
			asked, err := r.approve(call, in)
			if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
				return fmt.Sprintf("Order %d is not refunded: %s", in.Order, who(call, declined.Key)), nil
			}
			if _, late := errors.AsType[*askback.UnansweredError](err); late {
				return fmt.Sprintf("Order %d is not refunded: nobody has decided in time.", in.Order), nil // the default
			}
			if err != nil {
				return "", err // people are still to decide
			}
			paid, err := r.payOnce(ctx, call, in)
			if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
				return fmt.Sprintf("Order %d is not refunded, as %s", in.Order, who(call, declined.Key)), nil
			}
			return fmt.Sprintf("Order %d is refunded: %s%s", in.Order, who(call, asked), paid), err
		})
}

// payOnce pays, and never twice. If it is unknown whether the bank has paid, the manager looks, and paid says so.
func (r refunds) payOnce(ctx context.Context, call *askback.Call, in order) (paid string, err error) {
	_, err = askback.AtMostOnce(ctx, call, "pay", func(ctx context.Context) (any, error) {
		return nil, r.pay(ctx, in.Order)
	})
	if _, unknown := errors.AsType[*askback.UnknownOutcomeError](err); !unknown {
		return "", err
	}
	err = askback.Approve(call, "paid", askback.Question{
		Message: fmt.Sprintf("Look at the account: has the bank paid order %d back?", in.Order),
		For:     []string{askback.User(r.manager)},
	})
	if err != nil {
		return "", err
	}
	return " The bank has paid: " + who(call, "paid"), nil
}

// approve returns nil once the group or the manager has approved, and under which key.
func (r refunds) approve(call *askback.Call, in order) (key string, err error) {
	q := askback.Question{
		Message: fmt.Sprintf("Refund order %d?", in.Order),
		For:     []string{askback.Group("support")},
		Within:  r.group,
	}
	err = askback.Approve(call, "support", q)
	if _, late := errors.AsType[*askback.UnansweredError](err); !late {
		return "support", err
	}
	q.Message += " Nobody of support has decided in time."
	q.For = []string{askback.User(r.manager)}
	q.Within = r.alone
	return "manager", askback.Approve(call, "manager", q)
}

// who says who decided, and why.
func who(call *askback.Call, key string) string {
	by := call.Answers(key)[0]
	if by.Why == "" {
		return by.Who + " decided."
	}
	return fmt.Sprintf("%s decided, because: %s.", by.Who, by.Why)
}

// pay stands for your own bank. An error of the type *askback.DidNotHappenError would say that it has not paid.
func pay(_ context.Context, order int) error {
	log.Printf("order %d is paid back", order)
	return nil
}
