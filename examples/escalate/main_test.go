package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// Who is asked after whom, and what is decided if nobody answers.
func TestUnit(t *testing.T) {
	silent := errors.New("no answer")
	accept, decline, late := askbacktest.Accept(nil), askbacktest.Decline(), askbacktest.Unanswered()
	for name, tt := range map[string]struct {
		answers map[string]askbacktest.Answer
		asked   [][]string
		want    string
		paid    int
		bank    error
	}{
		"the group approves": {
			map[string]askbacktest.Answer{"support": accept.By("ada", "support")},
			[][]string{{"support"}}, "Order 7 is refunded: ada decided.", 1, nil},
		"the group declines": {
			map[string]askbacktest.Answer{"support": decline.By("ada", "support").Because("it was used")},
			[][]string{{"support"}}, "Order 7 is not refunded: ada decided, because: it was used.", 0, nil},
		"the manager approves": {
			map[string]askbacktest.Answer{"support": late, "manager": accept.By("dora")},
			[][]string{{"support"}, {"manager"}}, "Order 7 is refunded: dora decided.", 1, nil},
		"the manager declines": {
			map[string]askbacktest.Answer{"support": late, "manager": decline.By("dora")},
			[][]string{{"support"}, {"manager"}}, "Order 7 is not refunded: dora decided.", 0, nil},
		"nobody answers": {
			map[string]askbacktest.Answer{"support": late, "manager": late},
			[][]string{{"support"}, {"manager"}}, "Order 7 is not refunded: nobody has decided in time.", 0, nil},
		"others answer": {
			map[string]askbacktest.Answer{
				"support": askbacktest.InTurn(accept.By("carol", "support"), accept.By("eve", "sales"), late),
				"manager": askbacktest.InTurn(accept.By("ada", "support"), late),
			},
			[][]string{{"support"}, {"manager"}}, "Order 7 is not refunded: nobody has decided in time.", 0, nil},
		"the bank does not answer, and has paid": {
			map[string]askbacktest.Answer{"support": accept.By("ada", "support"), "paid": accept.By("dora")},
			[][]string{{"support"}, {"paid"}}, "Order 7 is refunded: ada decided. The bank has paid: dora decided.", 1, silent},
		"the bank does not answer, and has not paid": {
			map[string]askbacktest.Answer{
				"support": accept.By("ada", "support"), "paid": decline.By("dora").Because("no entry")},
			[][]string{{"support"}, {"paid"}}, "Order 7 is not refunded, as dora decided, because: no entry.", 1, silent},
	} {
		t.Run(name, func(t *testing.T) {
			var effects askbacktest.Effects
			paid := 0
			r := refunds{manager: "dora", group: time.Hour, alone: time.Hour,
				pay: func(context.Context, int) error {
					effects.Record("pay")
					paid++
					return tt.bank
				}}
			res := askbacktest.Run(t, r.register, askbacktest.Call{
				Tool: "refund", Arguments: order{7}, Principal: "carol", Answers: tt.answers, Effects: &effects,
			})
			if res.Text() != tt.want || !reflect.DeepEqual(res.Asked, tt.asked) || paid != tt.paid {
				t.Errorf("got %q, asked %q, paid %d times", res.Text(), res.Asked, paid)
			}
		})
	}
}

// as sends requests as the proxy passes them on for a user.
type as string

func (user as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", string(user))
	return http.DefaultTransport.RoundTrip(r)
}

// Over HTTP: the group does not answer. The manager is told at once that she is asked, and decides.
func TestOverHTTP(t *testing.T) {
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	store := new(task.MemoryStore)
	people, err := desk.Open(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var told []string
	paid := 0
	r := refunds{manager: "dora", group: 20 * time.Millisecond, alone: time.Hour,
		pay: func(context.Context, int) error { paid++; return nil }}
	srv, err := newServer(keys, store, r, func(ctx context.Context, n desk.Notice) error {
		if n.Kind != task.NoticeDueSoon { // which may be too late for so short a time
			mu.Lock()
			told = append(told, string(n.Kind)+" "+n.Key)
			mu.Unlock()
		}
		if n.Kind != task.NoticeAsked || n.Key != "manager" {
			return nil
		}
		_, err := people.Answer(ctx, n.Name, n.Key, desk.Answer{By: desk.Person{Name: "dora"}, Action: "accept"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- srv.RunTasks(ctx) }()

	session, err := client.New(nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: web.URL, HTTPClient: &http.Client{Transport: as("carol")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	waiting, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	res, err := session.CallTool(waiting, &mcp.CallToolParams{Name: "refund", Arguments: order{7}})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := res.Content[0].(*mcp.TextContent).Text; got != "Order 7 is refunded: dora decided." || paid != 1 {
		t.Errorf("got %q, paid %d times", got, paid)
	}
	if len(told) < 3 || !reflect.DeepEqual(told[:3], []string{"asked support", "unanswered support", "asked manager"}) {
		t.Errorf("told %q", told)
	}
}
