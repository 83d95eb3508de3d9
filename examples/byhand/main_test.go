package main

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/internal/test/harness"
)

func TestRefund(t *testing.T) {
	res := askbacktest.Run(t, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "refund"}, refund)
	}, askbacktest.Call{
		Tool:      "refund",
		Arguments: Order{ID: "A7"},
		Answers: map[string]askbacktest.Answer{
			"amount": askbacktest.Accept(Amount{40}), "sure": askbacktest.Accept(Sure{true}),
		},
	})
	if res.Text() != "Refunded 40 of order A7." {
		t.Error(res.Text())
	}
}

// Each of these is sent to the tool by hand on the SDK's server, to the same tool on Askback's, and to the rewritten
// one, in the last round of a call that asked alice to refund 40 of order A7.
func TestWhatAClientMaySend(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "refund_by_hand"}, refundByHand)
	plain := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m },
		&mcp.StreamableHTTPOptions{Stateless: true})
	principal := func(_ context.Context, extra *mcp.RequestExtra) (string, error) { return extra.Header.Get("User"), nil }
	srv, err := newServer(&askback.Options{Keys: harness.NewRing(t), Principal: principal})
	if err != nil {
		t.Fatal(err)
	}
	sides := []struct {
		name, tool string
		handler    http.Handler
	}{
		{"by hand", "refund_by_hand", plain},
		{"by hand, on Askback", "refund_by_hand", srv.HTTPHandler(nil)},
		{"rewritten", "refund", srv.HTTPHandler(nil)},
	}
	const amount, sure = `{"amount":{"action":"accept","content":{"amount":40}}}`,
		`{"sure":{"action":"accept","content":{"sure":true}}}`
	as := func(user string) http.Header { return http.Header{"User": {user}} }
	for name, c := range map[string]struct {
		amount string                   // the answer of the first round
		last   func(r *harness.Request) // changes the last round
		want   [3]string                // what comes back from each side
	}{
		"what it was asked": {amount, func(*harness.Request) {}, [3]string{"40 of A7", "40 of A7", "40 of A7"}},
		"another amount in the state": {amount, func(r *harness.Request) { r.State = "4000" },
			[3]string{"4000 of A7", "refused", "refused"}},
		"another order": {amount, func(r *harness.Request) { r.Arguments = `{"id":"B8"}` },
			[3]string{"40 of B8", "refused", "refused"}},
		"as another user": {amount, func(r *harness.Request) { r.Header = as("eve") },
			[3]string{"40 of A7", "refused", "refused"}},
		"an amount beyond the form": {strings.Replace(amount, "40", "4000", 1), func(*harness.Request) {},
			[3]string{"4000 of A7", "4000 of A7", "asked again"}},
	} {
		for i, side := range sides {
			r := harness.Request{Target: side.tool, Arguments: `{"id":"A7"}`, Header: as("alice")}
			r.State = r.Send(t, side.handler).Asked(t, "amount")
			r.Responses = c.amount
			second := r.Send(t, side.handler)
			var got string
			if second.Result != nil && second.Result.Requests["sure"] == nil {
				got = "asked again"
			} else {
				r.State, r.Responses = second.Asked(t, "sure"), sure
				c.last(&r)
				last := r.Send(t, side.handler)
				if last.Error != nil && last.Error.Code == -32602 {
					got = "refused"
				} else {
					got = regexp.MustCompile(`Refunded (\d+) of order (\w+)\.`).ReplaceAllString(last.Text(t), "$1 of $2")
				}
			}
			if got != c.want[i] {
				t.Errorf("%s, %s: got %q, want %q", name, side.name, got, c.want[i])
			}
		}
	}
}
