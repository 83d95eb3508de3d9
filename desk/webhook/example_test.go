package webhook_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/askback-mcp/askback/desk/webhook"
)

func Example() {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.Header.Get("webhook-id")) // a receiver verifies the signature, too
	}))
	defer receiver.Close()
	hook, err := webhook.New(receiver.URL, secret, &webhook.Options{Client: receiver.Client()})
	if err != nil {
		log.Fatal(err)
	}
	// Notify of askback.DeskOptions is hook.Send.
	if err := hook.Send(context.Background(), notice); err != nil {
		log.Fatal(err)
	}
	// Output: POST NAME.KEY.asked
}
