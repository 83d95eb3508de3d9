// Command fleet is an MCP server that runs as several instances behind a load balancer. Any instance continues the
// calls and tasks of any other, and one that stops fails no call. Its one tool asks before it refunds an order, and
// then goes on as a task. For a large refund it also asks the group finance, whose people answer on a page, the inbox.
//
// It takes its settings from the environment:
//
//	DATABASE_URL   the PostgreSQL that all instances share
//	KEYS_FILE      the keys that all instances share, made by 'askback keys new'
//	ADDR           where to listen; :8080 if it is empty
//	DRAIN_DELAY    how long to serve after /readyz has turned 503; 5s if it is empty
//	AUDIT_FILE     the audit of this instance alone, in which a change is found; without it there is no audit
//	AUDIT_KEY      the key in PEM that signs the heads of the audit
//	AUDIT_HEADS    the file for the heads, which those who can write to the audit must not be able to change
//	INBOX_PROXY    the addresses of the proxy that signs people in, such as 10.1.0.7/32; without it there is no inbox
//	RECEIPT_KEYS   the keys that sign receipts, of all instances, made by 'askback keys new --receipts'; without it
//	               no receipt proves who has decided
//
// With OTEL_EXPORTER_OTLP_ENDPOINT it sends traces and metrics to that collector, and with the variable of one signal,
// such as OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, only that signal. README.md has the Dockerfile, the compose file
// and the manifests for Kubernetes.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/audit"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/inbox/receipt"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task/postgres"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx); err != nil {
		slog.Error("the server failed", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	database, err := required("DATABASE_URL", "postgres://USER:PASSWORD@HOST/DATABASE")
	if err != nil {
		return err
	}
	keysFile, err := required("KEYS_FILE", "the name of a file that 'askback keys new' made")
	if err != nil {
		return err
	}
	delay, err := time.ParseDuration(cmp.Or(os.Getenv("DRAIN_DELAY"), "5s"))
	if err != nil {
		return fmt.Errorf("DRAIN_DELAY: %w", err)
	}
	keys, err := seal.File(keysFile).Load(ctx)
	if err != nil {
		return fmt.Errorf("KEYS_FILE: %w", err)
	}
	store, err := postgres.Open(ctx, database)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	observe, flush, err := openTelemetry(ctx, store)
	if err != nil {
		return err
	}
	defer flush()

	trail, err := openAudit()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trail.Close()) }()
	people, page, err := openReceipts(ctx)
	if err != nil {
		return err
	}
	srv, err := newServer(keys, store, observe, trail, people)
	if err != nil {
		return err
	}
	ready := func(ctx context.Context) error { return errors.Join(srv.Ready(ctx), trail.Err()) }
	mux := http.NewServeMux()
	mux.Handle("/mcp", srv.HTTPHandler(nil))
	if proxy := os.Getenv("INBOX_PROXY"); proxy != "" {
		handler, err := newInbox(store, proxy, page)
		if err != nil {
			return fmt.Errorf("INBOX_PROXY: %w", err)
		}
		mux.Handle("/inbox/", http.StripPrefix("/inbox", handler))
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	listener, err := drain.Listen(cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return fmt.Errorf("ADDR: %w", err)
	}
	slog.Info("serving", "addr", listener.Addr().String(), "keys", keys.String())

	// When ctx is done, the tasks go to other instances while the requests finish. The store closes after both.
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return srv.RunTasks(ctx) })
	work.Go(func() error { followKeys(ctx, keys, seal.File(keysFile)); return nil })
	work.Go(func() error {
		return drain.Serve(ctx, listener, web, &drain.Options{Delay: delay, Ready: ready})
	})
	return work.Wait()
}

// required returns an environment variable that must be set.
func required(name, want string) (string, error) {
	value := os.Getenv(name)
	if value == "" {
		return "", fmt.Errorf("%s is not set: want %s", name, want)
	}
	return value, nil
}

// followKeys uses the keys of the file whenever it has other ones, so that a rotation needs no restart.
func followKeys(ctx context.Context, keys *seal.Ring, file seal.File) {
	look := time.NewTicker(5 * time.Second)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		switch changed, err := keys.Reload(ctx, file); {
		case err != nil:
			slog.Error("cannot use the key file: the keys that are in use stay", "error", err)
		case changed:
			slog.Info("the key file has changed", "keys", keys.String())
		}
	}
}

// openReceipts returns options of a desk that signs receipts of decisions, and of an inbox that publishes the keys that
// verify them. It tries the key first, because no decision takes effect without its receipt.
func openReceipts(ctx context.Context) (people askback.DeskOptions, page inbox.Options, err error) {
	file := os.Getenv("RECEIPT_KEYS")
	if file == "" {
		return people, page, nil
	}
	keys := receipt.File(file)
	if _, err = keys.Sign(ctx, []byte("{}")); err != nil {
		return people, page, fmt.Errorf("RECEIPT_KEYS: %w", err)
	}
	people.Receipts, page.ReceiptKeys = keys, keys.Public
	return people, page, nil
}

// newInbox makes the page on which people answer. Who they are, and which groups they are in, their proxy says.
func newInbox(store *postgres.Store, proxy string, page inbox.Options) (http.Handler, error) {
	prefix, err := netip.ParsePrefix(proxy)
	if err != nil {
		return nil, err
	}
	d, err := desk.Open(store, nil)
	if err != nil {
		return nil, err
	}
	page.Title, page.Identity = "Orders", inbox.TrustedHeader{
		Name: "X-Auth-Request-User", Groups: "X-Auth-Request-Groups", Trusted: []netip.Prefix{prefix},
	}
	return inbox.New(d, &page)
}

// openAudit opens the audit of this instance. It returns nil if there is to be none.
func openAudit() (*audit.Log, error) {
	file := os.Getenv("AUDIT_FILE")
	if file == "" {
		return nil, nil
	}
	key, err := audit.ReadKey(os.Getenv("AUDIT_KEY"))
	if err != nil {
		return nil, fmt.Errorf("AUDIT_KEY: %w", err)
	}
	heads, err := os.OpenFile(os.Getenv("AUDIT_HEADS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("AUDIT_HEADS: %w", err)
	}
	trail, err := audit.Open(file, &audit.Options{Heads: heads, Key: key})
	if err != nil {
		return nil, fmt.Errorf("AUDIT_FILE: %w", err)
	}
	return trail, nil
}

// newServer makes the server that every instance runs. It refuses calls while their audit cannot be written.
func newServer(keys *seal.Ring, store *postgres.Store, observe observer, trail *audit.Log,
	people askback.DeskOptions) (*askback.Server, error) {
	m := mcp.NewServer(&mcp.Implementation{Name: "orders", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{
		Keys:        keys,
		Tasks:       &askback.Tasks{Store: store},
		Desk:        &people,
		ReplayGuard: store.Guard(), // no answer counts twice, even if it arrives at two instances
		Observe:     observe,
		Audit:       trail.Record,
		Authorize: func(context.Context, askback.Access) error {
			if err := trail.Err(); err != nil {
				return fmt.Errorf("%w: %w", askback.ErrUndecided, err) // the client may try again, here or elsewhere
			}
			return nil
		},
		// All callers are one user here. examples/auth tells them apart by their tokens.
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "support", nil },
	})
	if err != nil {
		return nil, err
	}
	srv.AddResultTool()
	askback.MustForm[approval]()
	askback.AddTaskTool(srv, &mcp.Tool{Name: "refund_order", Description: "Refund an order"},
		&askback.TaskSupport{AtDetach: true}, refund)
	return srv, nil
}

type order struct {
	ID     string  `json:"id"`
	Amount float64 `json:"amount,omitempty" jsonschema:"in euros"`
}

// large is the amount in euros above which the group finance has to approve a refund.
const large = 500

type approval struct {
	Refund bool `json:"refund" title:"Refund it?"`
}

func refund(ctx context.Context, call *askback.Call, in order) (string, error) {
	answer, err := askback.Elicit[approval](call, "approval", fmt.Sprintf("Order %s will be refunded.", in.ID))
	if err != nil {
		return "", err
	}
	if !answer.Refund {
		return "", errors.New("nothing was refunded")
	}
	if in.Amount > large {
		err := askback.Approve(call, "finance", askback.Question{
			Message: fmt.Sprintf("Refund %.2f euros for order %s?", in.Amount, in.ID),
			For:     []string{askback.Group("finance")},
			Within:  3 * 24 * time.Hour,
		})
		if err != nil {
			return "", err
		}
	}
	if err := call.Detach(); err != nil { // from here on a task, for clients that can take one
		return "", err
	}
	err = call.Do(ctx, "refund", func(ctx context.Context) error {
		return pay(ctx, in.ID, call.IdempotencyKey("refund"))
	})
	return fmt.Sprintf("Order %s is refunded.", in.ID), err
}

// pay stands for a payment service, which executes requests with the same key once.
func pay(ctx context.Context, id, key string) error {
	slog.InfoContext(ctx, "refunding", "order", id, "key", key)
	return nil
}
