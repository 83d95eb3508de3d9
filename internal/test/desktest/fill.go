package desktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// Mallory calls a tool that asks alice sixteen questions, as often as mallory may. What erin asks alice is in the lists
// all the same, and can be chosen.
func (w *world) crowds(t *testing.T) {
	defer w.endAll(t, "mallory")
	refused := ""
	for range quota + 1 {
		refused = w.send(t.Context(), "mallory", harness.WithExtension, "tools/call", "many", arguments("many", ""))
	}
	if !strings.Contains(refused, "quota") && !strings.Contains(refused, "unfinished") {
		t.Errorf("mallory is told %.500s", refused)
	}
	name := w.asked(t, w.call(t, "erin", "many", ""))
	defer w.endAll(t, "erin")
	for _, byDeadline := range []bool{false, true} {
		seen, others := 0, 0
		for q, err := range w.Waiting(t.Context(), desk.Waiting{As: &desk.Person{Name: "alice"}, ByDeadline: byDeadline}) {
			switch {
			case err != nil:
				t.Fatal(err)
			case q.Name == name:
				seen++
			case q.Principal == "mallory":
				others++
			}
		}
		if seen != 16 || others > quota*16 {
			t.Errorf("alice's list has %d questions of erin's, and %d of mallory's", seen, others)
		}
	}
	if _, err := w.Answer(t.Context(), name, "q7", approves("alice")); err != nil {
		t.Error(err)
	}
	w.serves(t, "in a crowd")
}

func (w *world) endAll(t *testing.T, principal string) {
	t.Helper()
	f := task.Filter{Principals: []string{principal}, Statuses: []task.Status{task.Working, task.InputRequired}}
	for row, err := range w.List(t.Context(), f) {
		if err != nil {
			t.Error(err)
			return
		}
		_, err = w.Cancel(t.Context(), row.Name, desk.Cancellation{By: "test", Reason: "it is over"})
		if err != nil && !errors.Is(err, task.ErrEnded) && !errors.Is(err, task.ErrNotFound) {
			t.Error(err)
		}
	}
}

// Calls of clients that cannot take a task wait, as many as a principal may send at once and more. Others are served,
// and none of the calls is lost.
func (w *world) fills(t *testing.T) {
	defer w.endAll(t, "mallory")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	told := make(chan string, quota)
	for i := range quota {
		all.Go(func() { told <- w.insists(ctx, "mallory", "deploy", fmt.Sprint("mallory's ", i)) })
	}
	f := task.Filter{Principals: []string{"mallory"}, Statuses: []task.Status{task.InputRequired}}
	harness.Eventually(t, "moment at which all of mallory's calls wait", func() bool {
		waiting := 0
		for _, err := range w.List(t.Context(), f) {
			if err != nil {
				t.Fatal(err)
			}
			waiting++
		}
		return waiting == quota
	})
	begun := time.Now()
	w.serves(t, "beside a full pool")
	// Somebody whose client cannot take a task waits, too, and is told in words or of the outcome.
	said := make(chan string, 1)
	all.Go(func() { said <- w.insists(ctx, "frank", "deploy", "frank's") })
	name := ""
	harness.Eventually(t, "frank's call", func() bool {
		for q, err := range w.Waiting(t.Context(), desk.Waiting{}) {
			if err == nil && q.Principal == "frank" {
				name = q.Name
			}
		}
		return name != ""
	})
	for _, who := range []string{"bob", "dave"} {
		if _, err := w.Answer(t.Context(), name, "release", approves(who, "release")); err != nil {
			t.Error(err)
		}
	}
	select {
	case got := <-said:
		if !strings.Contains(got, "deployed, approved by bob and dave") && !strings.Contains(got, name) {
			t.Errorf("frank is told %s", got)
		}
	case <-time.After(30 * time.Second):
		t.Error("frank's call waits for more than its time")
	}
	t.Logf("served within %v, while %d of mallory's calls wait, and the others were told in words", time.Since(begun),
		quota-len(told))
	if len(told) < quota-waits {
		t.Errorf("only %d of mallory's calls were told in words", len(told))
	}
	for range len(told) {
		if said := <-told; !strings.Contains(said, "The call goes on by itself, under the name") {
			t.Errorf("mallory is told %s", said)
		}
	}
}

// insists calls a tool as a client without tasks does, again and again while it is only to come back, and returns the
// last response.
func (w *world) insists(ctx context.Context, user, tool, version string) (said string) {
	members := arguments(tool, version)
	for ctx.Err() == nil {
		said = w.send(ctx, user, `{}`, "tools/call", tool, members)
		var res harness.Response
		if json.Unmarshal([]byte(said), &res) != nil || res.Error != nil && !strings.Contains(said, "try again later") ||
			res.Result != nil && res.Result.Type != "input_required" {
			break
		}
		if res.Result != nil {
			members = arguments(tool, version) + `,"requestState":` + harness.Quote(res.Result.State)
		}
	}
	return said
}

// A caller puts into a message more than a list can show.
func (w *world) asksTooMuch(t *testing.T) {
	version := strings.Repeat("x", 3<<20)
	said := w.send(t.Context(), "mallory", harness.AllCapabilities, "tools/call", "deploy", arguments("deploy", version))
	if !strings.Contains(said, "a question for somebody else has at most 65536") {
		t.Errorf("mallory is told %.2000s", said)
	}
	w.serves(t, "beside a long one")
}

// Timing has clients say themselves how long after a question they answered. It is the server that measures it.
func Timing(t *testing.T, store task.Store, other task.Store) {
	const elicits = `{"elicitation":{}}`
	quick := build(t, store, askback.DeskOptions{Fallback: true, NotShown: time.Nanosecond, Wait: time.Millisecond})
	slow := build(t, other, askback.DeskOptions{Fallback: true, NotShown: time.Hour, Wait: time.Millisecond})
	for _, lie := range []string{`,"after":0,"shown":false`, `,"after":36000000,"shown":true`, `,"after":-1`} {
		ask := func(w *world, answer string) string {
			said := w.send(t.Context(), "carol", elicits, "tools/call", "note", arguments("note", lie))
			state, _ := harness.At(harness.AsJSON(t, said), "result", "requestState").(string)
			if state == "" {
				t.Fatalf("carol is not asked: %s", said)
			}
			asked := time.Now()
			harness.Eventually(t, "millisecond that passes", func() bool { return time.Since(asked) > 5*time.Millisecond })
			return w.send(t.Context(), "carol", elicits, "tools/call", "note", arguments("note", lie)+`,"requestState":`+
				harness.Quote(state)+`,"inputResponses":{"note":`+answer+`}`)
		}
		if said := ask(quick, `{"action":"decline"`+lie+`}`); !strings.Contains(said, "decline, not shown: false") {
			t.Errorf("with %s a decline that was in time is %s", lie, said)
		}
		said := ask(slow, `{"action":"decline"`+lie+`}`)
		harness.Eventually(t, "question at the desk for a decline that was too fast, with "+lie+": "+said, func() bool {
			for q, err := range slow.Waiting(t.Context(), desk.Waiting{As: &desk.Person{Name: "carol"}}) {
				if err == nil && q.Fallback && strings.Contains(said, q.Name) {
					return true
				}
			}
			return false
		})
		if said := ask(slow, `{"action":"accept","content":{"text":"kept"}`+lie+`}`); !strings.Contains(said, `"kept"`) {
			t.Errorf("with %s an accept is %s", lie, said)
		}
		quick.serves(t, "quick"+lie)
		slow.serves(t, "slow"+lie)
	}
}
