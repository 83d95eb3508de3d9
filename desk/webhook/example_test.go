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
	// Output: POST NAME-KEY-asked-1
}

// A receiver in Go verifies the notice. It knows a notice again by its ID.
func ExampleReceive() {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := webhook.Receive(r, secret)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		fmt.Println(n.Target, "asks:", n.Message)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	hook, err := webhook.New(receiver.URL, secret, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := hook.Send(context.Background(), notice); err != nil {
		log.Fatal(err)
	}
	// Output: deploy asks: Deploy 4.2?
}

// The secret is rotated without a restart of the sender.
func ExampleHook_SetSecrets() {
	hook, err := webhook.New("https://hooks.example.com/askback", secret, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := hook.SetSecrets(secret + " " + next); err != nil { // until every receiver has the next one
		log.Fatal(err)
	}
	fmt.Println(hook.SetSecrets(next))
	// Output: <nil>
}
