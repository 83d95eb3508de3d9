package main

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/askback-mcp/askback/desk"
)

// person is somebody who answers at a page, over its API.
type person struct {
	*record
	name string
	page string // the URL
}

// carol is who calls through the bridge. Its page asks her.
const carol = "carol"

// personHeader is the header in which a page is told who somebody is.
const personHeader = "X-Auth-Request-User"

// vote is what somebody has sent, at least once. It is the same each time.
type vote struct{ task, key, who, action string }

// startPeople lets people answer until the end of the world.
func (w *world) startPeople() {
	for name, page := range map[string]string{"ada": w.inboxURL, "bob": w.inboxURL, carol: w.bridgePageURL} {
		p, over := &person{w.record, name, page}, make(map[string]bool)
		w.running.Go(func() {
			for pause(w.ctx, rand.N(200*time.Millisecond)) {
				var list struct{ Questions []*desk.Question }
				p.ask(w.ctx, http.MethodGet, "/api/questions?limit=200", nil, &list)
				for _, q := range list.Questions {
					if of := q.Name + " " + q.Key; !over[of] && rand.IntN(2) == 0 {
						over[of] = p.answer(w.ctx, q, of)
					}
				}
			}
		})
	}
}

// answer answers a question, and reports whether there is no more to do. Some deadlines are to pass.
func (p *person) answer(ctx context.Context, q *desk.Question, of string) (over bool) {
	h := fnv.New64a()
	h.Write([]byte(p.name + of))
	mood := rand.New(rand.NewPCG(h.Sum64(), 0))
	v := vote{task: q.Name, key: q.Key, who: p.name, action: "accept"}
	answer := make(map[string]any)
	switch {
	case !q.Deadline.IsZero() && mood.IntN(3) == 0:
		return true
	case q.AuthorKey == "login":
		answer["content"] = map[string]any{"name": "octocat"}
	case mood.IntN(8) == 0, strings.Contains(q.Message, "unknown"): // the bridge asks whether to run it again
		v.action = "decline"
	}
	answer["action"] = v.action
	p.change(func() { p.tried = append(p.tried, v) })
	status := p.ask(ctx, http.MethodPost, "/api/questions/"+q.Name+"/"+url.PathEscape(q.Key)+"/answer", answer, nil)
	if status == http.StatusOK {
		p.change(func() { p.taken = append(p.taken, v) })
	}
	return status == http.StatusOK || status == http.StatusConflict || status == http.StatusNotFound
}

// ask sends a request to the page, and returns the status of its response, or zero without one.
func (p *person) ask(ctx context.Context, method, path string, body, result any) (status int) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	data, _ := json.Marshal(body) // it has strings only
	req, err := http.NewRequestWithContext(ctx, method, p.page+path, bytes.NewReader(data))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	if p.name == carol {
		req.Header.Set(personHeader, carol)
	} else {
		req.SetBasicAuth(p.name, p.name) // nginx tells the page
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if result != nil && res.StatusCode == http.StatusOK && json.NewDecoder(res.Body).Decode(result) != nil {
		return 0
	}
	return res.StatusCode
}

// effect is what an instance has done.
type effect struct {
	ID      string // of the order
	Key     string // the idempotency key; empty for what must not be repeated
	Verdict string // the decision that it follows
	PID     int    // of the instance
	at      time.Time
}

// notice is one that was taken.
type notice struct {
	desk.Notice
	at time.Time
}

// slowCaller is the caller whose notices are received slowly.
const slowCaller = "mallory"

// webhookSecret signs the notices.
const webhookSecret = "whsec_dGhpcnR5LXR3byBieXRlcyB0aGF0IGFyZSByYW5kb20="

// outside is what the instances know of the world: POST /effects pays, POST /notices receives.
func (r *record) outside() http.Handler {
	hook, _ := standardwebhooks.NewWebhook(webhookSecret)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /effects", func(_ http.ResponseWriter, req *http.Request) {
		var e effect
		if err := json.NewDecoder(req.Body).Decode(&e); err != nil {
			return // its sender is gone
		}
		e.at = time.Now()
		r.change(func() { r.effects = append(r.effects, e) })
	})
	mux.HandleFunc("POST /notices", func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		var message struct{ Data desk.Notice }
		if err = hook.Verify(body, req.Header); err == nil {
			err = json.Unmarshal(body, &message)
		}
		switch {
		case err != nil:
			r.violate("a notice is not signed, or cannot be read: %v", err)
		case message.Data.Principal == slowCaller:
			time.Sleep(3 * time.Second)
		case rand.IntN(20) == 0:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.change(func() { r.notices = append(r.notices, notice{message.Data, time.Now()}) })
		if rand.IntN(20) == 0 {
			w.WriteHeader(http.StatusBadGateway) // it is taken, and its sender does not know
		}
	})
	return mux
}
