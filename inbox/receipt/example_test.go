package receipt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/inbox/receipt"
)

// A server signs the decisions of people, and its inbox publishes the public keys. 'askback keys new --receipts' makes
// the file, too.
func ExampleFile() {
	dir, err := os.MkdirTemp("", "receipts")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	keys := receipt.File(filepath.Join(dir, "receipts.jwks"))
	if err := keys.Create(); err != nil {
		panic(err)
	}
	people := askback.DeskOptions{Receipts: keys}
	page := inbox.Options{Title: "Releases", ReceiptKeys: keys.Public}
	fmt.Println(people.Receipts == askback.ReceiptSigner(keys), page.ReceiptKeys != nil, keys.Rotate())
	// Output: true true <nil>
}

// An auditor verifies a receipt with public keys alone, and compares what they were told of the decision.
func ExampleVerify() {
	dir, err := os.MkdirTemp("", "receipts")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	keys := receipt.File(filepath.Join(dir, "receipts.jwks"))
	if err := keys.Create(); err != nil {
		panic(err)
	}
	signed, err := keys.Sign(context.Background(), []byte(`{"version":1,"tool":"deploy","action":"accept",`+
		`"voters":[{"who":"ada","when":"2026-11-27T12:00:00Z","channel":"inbox"}],
		"arguments":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}`))
	if err != nil {
		panic(err)
	}
	public, err := keys.Public()
	if err != nil {
		panic(err)
	}
	s, err := receipt.Verify(signed, public)
	if err != nil {
		panic(err)
	}
	var who receipt.Voter = s.Voters[0]
	fmt.Println(s.Tool, s.Action, who.Who, s.HasArguments(nil), s.HasContent("", nil), s.HasReason("", "ada", ""))
	_, err = receipt.Verify(signed+"A", public)
	fmt.Println(err)
	// Output:
	// deploy accept ada true true true
	// the receipt is not valid: its signature does not fit: it was altered
}
