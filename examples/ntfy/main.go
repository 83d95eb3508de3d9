// Command ntfy receives the notices that a server posts through package desk/webhook, and pushes them to phones through
// a server of ntfy (ntfy.sh). Nobody can answer by the push alone: its link leads to the page, where people sign in.
//
//	WEBHOOK_SECRET=whsec_… NTFY_URL=https://ntfy.example.com NTFY_TOPIC=approvals NTFY_TOKEN=tk_… \
//		INBOX_URL=https://inbox.example.com go run ./examples/ntfy
//
// While the secret is rotated, WEBHOOK_SECRET has both, with a space between them.
package main

import (
	"cmp"
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/drain"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	get := os.Getenv
	phones, err := NewPhones(get("NTFY_URL"), get("NTFY_TOPIC"), get("NTFY_TOKEN"), get("INBOX_URL"))
	if err != nil {
		return err
	}
	listener, err := drain.Listen(cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8090"))
	if err != nil {
		return err
	}
	log.Printf("listening on http://%s", listener.Addr())
	return drain.Serve(ctx, listener, &http.Server{
		Handler: receiver(os.Getenv("WEBHOOK_SECRET"), phones), ReadTimeout: 10 * time.Second,
	}, nil)
}
