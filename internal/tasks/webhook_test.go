package tasks_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/signedhook"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// secretOf returns a secret of a subscriber.
func secretOf(n byte) string { return signedhook.Secret(bytes.Repeat([]byte{n}, 32)) }

// delivery is a message that a receiver got.
type delivery struct {
	host, path, id, subscription string
	body                         map[string]any
	header                       http.Header
	raw                          []byte
	at                           time.Time
}

// kind is the type of an envelope, or the task of an event.
func (d *delivery) kind() string {
	if kind, ok := d.body["type"].(string); ok {
		return kind
	}
	id, _ := harness.At(d.body, "data", "taskId").(string)
	return id
}

// signedBy reports whether the message has a signature of a secret.
func (d *delivery) signedBy(secret string) bool {
	key, _ := signedhook.Key(secret)
	return signedhook.Verify(d.header, [][]byte{key}, d.at, d.raw) == nil
}

// receiver is the world outside: it takes all that is sent to any host.
type receiver struct {
	mu  sync.Mutex
	got []*delivery
	// answer answers what is no challenge. Nil accepts it.
	answer func(d *delivery, r *http.Request) (status int, err error)
	// echo answers a challenge. Nil echoes it.
	echo func(d *delivery, challenge string) (status int, body string, err error)
}

func (w *receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	d := &delivery{host: r.URL.Host, path: r.URL.Path, id: r.Header.Get("webhook-id"), header: r.Header, raw: body,
		subscription: r.Header.Get("X-MCP-Subscription-Id"), at: time.Now()}
	_ = json.Unmarshal(body, &d.body)
	w.mu.Lock()
	w.got = append(w.got, d)
	answer, echo := w.answer, w.echo
	w.mu.Unlock()
	status, said, err := http.StatusNoContent, "the endpoint's own words", error(nil)
	challenge, _ := d.body["challenge"].(string)
	switch {
	case d.kind() == "verification" && echo != nil:
		status, said, err = echo(d, challenge)
	case d.kind() == "verification":
		status, said = http.StatusOK, fmt.Sprintf(`{"challenge":%q}`, challenge)
	case answer != nil:
		status, err = answer(d, r)
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(said)), Header: http.Header{}}, nil
}

// take returns what has come since the last take, after everything that was due was sent.
func (w *receiver) take(after time.Duration) []*delivery {
	time.Sleep(after)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.got
	w.got = nil
	return got
}

// want requires that these have come since the last look.
func (w *receiver) want(t *testing.T, when string, after time.Duration, kinds ...string) []*delivery {
	t.Helper()
	got := w.take(after)
	var came []string
	for _, d := range got {
		came = append(came, d.kind())
	}
	if !slices.Equal(came, kinds) {
		t.Fatalf("%s there came %q, want %q", when, came, kinds)
	}
	return got
}

func (w *receiver) answers(with func(d *delivery, r *http.Request) (int, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = with
}

// soon is when what has happened is delivered: looks are at most a second and a half apart.
const soon = 3 * time.Second

// hookServer is a server with webhooks, whose principal is the caller's token.
func hookServer(t *testing.T, w *receiver, change func(*askback.Options)) (*askback.Server, *task.MemoryStore) {
	t.Helper()
	keys := harness.NewRing(t)
	opts := withEvents()
	opts.Principal, opts.Keys = byToken, keys
	opts.Events.Webhooks = &askback.WebhookOptions{UncheckedTransport: w}
	if change != nil {
		change(opts)
	}
	srv, _ := deskServer(t, opts)
	store, _ := opts.Tasks.Store.(*task.MemoryStore)
	return srv, store
}

// withHooks runs a test in a bubble with a server with webhooks, to which ask sends requests of alice.
func withHooks(t *testing.T, test func(*testing.T, *receiver, *askback.Server, *task.MemoryStore, harness.Ask)) {
	t.Helper()
	harness.Bubble(t, func(t *testing.T) {
		w := new(receiver)
		srv, store := hookServer(t, w, nil)
		test(t, w, srv, store, dialAs(t, srv, "alice"))
	})
}

func dialAs(t *testing.T, srv *askback.Server, user string) harness.Ask {
	t.Helper()
	if user == "" {
		return harness.Fronts[0].Dial(t, srv, nil)
	}
	return harness.Fronts[0].Dial(t, srv, &auth.TokenInfo{UserID: user})
}

// hook is the members of a subscription to call.ended.
func hook(url string, more string) string {
	return fmt.Sprintf(`"name":"call.ended","delivery":{"mode":"webhook","url":%q,"secret":%q}%s`, url, secretOf(1), more)
}

// subscribe subscribes, and returns the result.
func subscribe(t *testing.T, ask harness.Ask, members string) map[string]any {
	t.Helper()
	response := ask("events/subscribe", members)
	result, _ := response["result"].(map[string]any)
	if result == nil {
		t.Fatalf("events/subscribe with %s: %v", members, response)
	}
	return result
}

const endpoint = "https://hooks.example/alice"

// An endpoint that has answered its challenge gets the caller's events, as polls have them, until the caller leaves.
func TestEventsArePosted(t *testing.T) {
	withHooks(t, func(t *testing.T, w *receiver, srv *askback.Server, store *task.MemoryStore, ask harness.Ask) {
		start := pollEvents(t, ask, `"name":"call.ended"`)["cursor"]
		sub := subscribe(t, ask, hook(endpoint, ""))
		asked := w.want(t, "to verify the endpoint", 0, "verification")[0]
		if !strings.HasPrefix(asked.id, "msg_verification_") || asked.path != "/alice" {
			t.Errorf("the challenge is %+v", asked)
		}
		id, _ := sub["id"].(string)
		refresh, err := time.Parse(time.RFC3339, sub["refreshBefore"].(string))
		if !strings.HasPrefix(id, "sub_") || err != nil || !refresh.Equal(time.Now().Add(time.Hour)) ||
			sub["truncated"] != false || sub["resultType"] != "complete" || sub["deliveryStatus"] != nil {
			t.Errorf("the subscription is %v", sub)
		}
		first := end(t, store, time.Hour)
		got := w.want(t, "for the first event", soon, first)[0]
		polled := harness.At(pollEvents(t, ask, `"name":"call.ended","cursor":%q`, start), "events", 0)
		for _, d := range []*delivery{asked, got} {
			if d.subscription != id || d.header.Get("Content-Type") != "application/json" || !d.signedBy(secretOf(1)) ||
				d.signedBy(secretOf(2)) {
				t.Errorf("the message has the headers %v", d.header)
			}
		}
		for _, member := range []string{"eventId", "name", "timestamp", "data"} {
			if fmt.Sprint(harness.At(polled, member)) != fmt.Sprint(got.body[member]) {
				t.Errorf("the %s is %v, and by a poll %v", member, got.body[member], harness.At(polled, member))
			}
		}
		expect.Equal[any](t, "the message", got.id, got.body["eventId"])
		// The event's own cursor is behind it. The cursor of the subscription is before it.
		if page := pollEvents(t, ask, `"name":"call.ended","cursor":%q`, got.body["cursor"]); len(tasksOn(page)) > 0 {
			t.Errorf("behind the event there is %v", page)
		}
		expect.Equal(t, "behind the subscription there",
			len(tasksOn(pollEvents(t, ask, `"name":"call.ended","cursor":%q`, sub["cursor"]))), 1)
		bob := dialAs(t, srv, "bob")
		if other := bob("events/unsubscribe", hook(endpoint, "")); harness.At(other, "error", "code") != -32023.0 ||
			harness.At(other, "error", "data", "kind") != "subscription" {
			t.Errorf("bob unsubscribes alice: %v", other)
		}
		left := ask("events/unsubscribe", `"name":"call.ended","arguments":null,"delivery":{"url":"`+endpoint+`"}`)
		harness.Want(t, "unsubscribed", left, "complete", "result", "resultType")
		end(t, store, time.Hour)
		w.want(t, "after the end", time.Hour)
		harness.Want(t, "unsubscribed again", ask("events/unsubscribe", hook(endpoint, "")), -32023.0, "error", "code")
	})
}

// What a call of this instance makes happen is posted at once, and not when somebody looks.
func TestEventsArePostedAtOnce(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w := new(receiver)
		opts := withEvents()
		keys := harness.NewRing(t)
		opts.Principal, opts.Keys, opts.Events.Webhooks = byToken, keys, &askback.WebhookOptions{UncheckedTransport: w}
		srv, _ := deskServer(t, opts, harness.AddText("quick", nil, asksColors()))
		ask := dialAs(t, srv, "alice")
		subscribe(t, ask, hook(endpoint, ""))
		for range 5 {
			w.take(soon)
			began := time.Now()
			ask("tools/call", `"name":"quick","arguments":{}`)
			got := w.take(soon)
			if len(got) != 1 || got[0].at.Sub(began) > 250*time.Millisecond {
				t.Errorf("there came %d events, the first %v after the call", len(got), got[0].at.Sub(began))
			}
		}
	})
}

// A subscription is one for a caller, an address, a type and arguments. It ends in time, unless it is prolonged.
func TestALifeOfASubscription(t *testing.T) {
	withHooks(t, func(t *testing.T, w *receiver, srv *askback.Server, store *task.MemoryStore, ask harness.Ask) {
		for ttl, want := range map[string]time.Duration{
			"": time.Hour, `,"ttlMs":600000`: 10 * time.Minute, `,"ttlMs":null`: 24 * time.Hour, `,"ttlMs":1`: time.Minute,
			`,"ttlMs":-5`: time.Minute, `,"ttlMs":31536000000`: 24 * time.Hour, `,"ttlMs":1e300`: 24 * time.Hour,
		} {
			got := subscribe(t, ask, hook(endpoint, ttl))["refreshBefore"]
			if at, err := time.Parse(time.RFC3339, got.(string)); err != nil || !at.Equal(time.Now().Add(want)) {
				t.Errorf("with %s until %v, want %v from now", ttl, got, want)
			}
		}
		w.take(0)
		id := subscribe(t, ask, hook(endpoint, `,"arguments":{}`))["id"]
		for says, members := range map[string]string{
			"arguments": hook(endpoint, `,"arguments":{"tool":"deploy"}`), "URL": hook(endpoint+"/2", ""),
			"name": strings.Replace(hook(endpoint, ""), "call.ended", "question.asked", 1),
		} {
			if other := subscribe(t, ask, members)["id"]; other == id {
				t.Errorf("with another %s it is the same subscription", says)
			}
			ask("events/unsubscribe", members)
		}
		one := subscribe(t, ask, hook(endpoint, `,"arguments":{"tool":"a","taskId":"`+end(t, store, time.Hour)+`"}`))
		w.take(soon)
		if one["id"] == id || subscribe(t, ask, hook(endpoint, ""))["id"] != id {
			t.Error("the ID is not that of caller, address, name and arguments")
		}
		if subscribe(t, dialAs(t, srv, "bob"), hook(endpoint, ""))["id"] == id {
			t.Error("bob has alice's subscription")
		}
		time.Sleep(59 * time.Minute)
		status := subscribe(t, ask, hook(endpoint, ""))["deliveryStatus"]
		if harness.At(status, "active") != true || harness.At(status, "lastError") != nil {
			t.Errorf("the status is %v", status)
		}
		w.take(time.Minute)
		last := end(t, store, 100*time.Hour)
		w.want(t, "in the second hour", soon, last)
		time.Sleep(time.Hour)
		w.take(0)
		missed := end(t, store, 100*time.Hour)
		w.want(t, "when it has ended", time.Hour)
		// The subscriber comes back with the cursor that it had, and the endpoint is asked again.
		lapsed := subscribe(t, ask, hook(endpoint, fmt.Sprintf(`,"cursor":%q`, cursorBehind(t, ask, last))))
		w.want(t, "with the cursor of the subscriber", soon, "verification", missed)
		if lapsed["id"] != id || lapsed["deliveryStatus"] != nil || lapsed["truncated"] != false {
			t.Errorf("the subscription is %v", lapsed)
		}
	})
}

// cursorBehind returns a cursor behind the event of a task.
func cursorBehind(t *testing.T, ask harness.Ask, id string) any {
	t.Helper()
	var cursor any = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "0.%d.", time.Now().UnixMilli()))
	for {
		page := pollEvents(t, ask, `"name":"call.ended","maxEvents":1,"cursor":%q`, cursor)
		ids := tasksOn(page)
		if len(ids) == 0 {
			t.Fatalf("no event is of the task %s", id)
		}
		if cursor = page["cursor"]; ids[0] == id {
			return cursor
		}
	}
}

// What a client sends that is no subscription is refused, with the code for it, and nothing is sent to anybody.
func TestMistakesOfSubscriptions(t *testing.T) {
	withHooks(t, func(t *testing.T, w *receiver, _ *askback.Server, _ *task.MemoryStore, ask harness.Ask) {
		with := func(url, secret string) string {
			return fmt.Sprintf(`"name":"call.ended","delivery":{"url":%q,"secret":%q}`, url, secret)
		}
		short := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23))
		long := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))
		for members, want := range map[string]float64{
			``: -32602, `"name":"call.ended"`: -32602, `"name":"call.ended","delivery":"x"`: -32602,
			strings.Replace(hook(endpoint, ""), "call.ended", "nothing", 1):    -32023,
			strings.Replace(hook(endpoint, ""), `"webhook"`, `"push"`, 1):      -32026,
			hook(endpoint, `,"arguments":{"x":1}`):                             -32602,
			hook(endpoint, `,"cursor":"x"`):                                    -32602,
			hook(endpoint, `,"ttlMs":"1 hour"`):                                -32602,
			hook(endpoint, `,"arguments":{"taskId":"unknown"}`):                -32024,
			hook("http://hooks.example/alice", ""):                             -32602,
			hook("https://user@hooks.example/", ""):                            -32602,
			hook("https:///alice", ""):                                         -32602,
			hook("https://hooks.example/#x", ""):                               -32602,
			hook("hooks.example/alice", ""):                                    -32602,
			hook("https://hooks.example/%zz", ""):                              -32602,
			hook("https://hooks.example/"+strings.Repeat("x", 3000), ""):       -32602,
			with(endpoint, ""):                                                 -32602,
			with(endpoint, "secret"):                                           -32602,
			with(endpoint, short):                                              -32602,
			with(endpoint, long):                                               -32602,
			with(endpoint, strings.TrimPrefix(secretOf(1), "whsec_")):          -32602,
			with(endpoint, "whsec_!"+secretOf(1)[7:]):                          -32602,
			fmt.Sprintf(`"name":"call.ended","delivery":{"url":%q}`, endpoint): -32602,
		} {
			got := ask("events/subscribe", members)
			if code := harness.At(got, "error", "code"); code != want {
				t.Errorf("%.200s: %v, want %v", members, got, want)
			}
			if strings.Contains(fmt.Sprint(got), "whsec_A") {
				t.Errorf("the error has the secret: %v", got)
			}
		}
		w.want(t, "by mistake", soon)
	})
}

// Callers without a name have no webhooks, the operator is asked for each request, and a server without webhooks says
// so.
func TestWhoSubscribes(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w := new(receiver)
		var may error
		var asked []string
		srv, _ := hookServer(t, w, func(opts *askback.Options) {
			opts.Authorize = func(_ context.Context, a askback.Access) error {
				asked = append(asked, a.Principal+" "+a.Method+" "+a.Target)
				return may
			}
		})
		for _, method := range []string{"events/subscribe", "events/unsubscribe"} {
			harness.Want(t, method+" of an anonymous caller", dialAs(t, srv, "")(method, hook(endpoint, "")), -32024.0,
				"error", "code")
		}
		ask := dialAs(t, srv, "alice")
		listed := ask("events/list", "")
		expect.Equal(t, "the type has the modes", fmt.Sprint(harness.At(listed, "result", "events", 0, "delivery")),
			"[poll push webhook]")
		subscribe(t, ask, hook(endpoint, ""))
		w.take(0)
		may = errors.New("no")
		harness.Want(t, "refused when it is prolonged", ask("events/subscribe", hook(endpoint, "")), -32024.0, "error",
			"code")
		if !slices.Contains(asked, "alice events/subscribe call.ended") {
			t.Errorf("the operator was asked for %q", asked)
		}
		w.want(t, "after a refusal", 0)
	})
	synctest.Test(t, func(t *testing.T) {
		ask, _ := logServer(t)
		if got := ask("events/subscribe", hook(endpoint, "")); harness.At(got, "error", "code") != -32026.0 ||
			harness.At(got, "error", "data", "value") != "webhook" {
			t.Errorf("a server without webhooks: %v", got)
		}
	})
}

// A caller has as many subscriptions as it may, and no more is sent for it. Another one still has its own.
func TestTooManySubscriptions(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w := new(receiver)
		srv, store := hookServer(t, w, func(opts *askback.Options) { opts.Events.Webhooks.PerPrincipal = 2 })
		alice, bob := dialAs(t, srv, "alice"), dialAs(t, srv, "bob")
		for i := range 2 {
			subscribe(t, alice, hook(fmt.Sprint(endpoint, i), ""))
		}
		w.take(0)
		got := alice("events/subscribe", hook(endpoint, ""))
		if harness.At(got, "error", "code") != -32025.0 || harness.At(got, "error", "data", "limit") != "subscriptions" ||
			harness.At(got, "error", "data", "max") != 2.0 {
			t.Errorf("the third: %v", got)
		}
		w.want(t, "for the third", 0)
		subscribe(t, alice, hook(endpoint+"0", "")) // is prolonged
		subscribe(t, bob, hook(endpoint, ""))
		w.want(t, "for bob", 0, "verification")
		id := end(t, store, time.Hour)
		w.want(t, "for alice", soon, id, id)
		alice("events/unsubscribe", hook(endpoint+"1", ""))
		subscribe(t, alice, hook(endpoint, ""))
	})
}

// An endpoint that does not show that it wants events gets none, and its own words reach nobody. It is asked once for a
// caller and an address.
func TestEndpointsAreVerified(t *testing.T) {
	t.Parallel()
	echoes := func(status int, body string, err error) func(*delivery, string) (int, string, error) {
		return func(_ *delivery, c string) (int, string, error) {
			return status, strings.NewReplacer("CHALLENGE", c, "LOWER", strings.ToLower(c)).Replace(body), err
		}
	}
	for says, c := range map[string]struct {
		echo func(*delivery, string) (int, string, error)
		want string
	}{
		"nothing":          {echoes(200, "", nil), "challenge_failed"},
		"another":          {echoes(200, `{"challenge":"another"}`, nil), "challenge_failed"},
		"no JSON":          {echoes(200, `"challenge":"CHALLENGE"}`, nil), "challenge_failed"},
		"it lower":         {echoes(200, `{"challenge":"LOWER"}`, nil), "challenge_failed"},
		"it and more":      {echoes(200, `{"challenge":"CHALLENGE "}`, nil), "challenge_failed"},
		"as another type":  {echoes(200, `{"challenge":null}`, nil), "challenge_failed"},
		"it in an error":   {echoes(404, `{"challenge":"CHALLENGE"}`, nil), "http_4xx"},
		"that it is ill":   {echoes(503, "the endpoint's own words", nil), "http_5xx"},
		"a redirect":       {echoes(302, "", nil), "http_4xx"},
		"with no TLS":      {echoes(0, "", &tls.CertificateVerificationError{Err: errors.New("x")}), "tls_error"},
		"with another TLS": {echoes(0, "", tls.AlertError(40)), "tls_error"},
		"not":              {echoes(0, "", errors.New("connection refused")), "connection_refused"},
		"late": {func(*delivery, string) (int, string, error) {
			time.Sleep(time.Minute)
			return 0, "", context.DeadlineExceeded
		}, "timeout"},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &receiver{echo: c.echo}
				srv, store := hookServer(t, w, nil)
				got := dialAs(t, srv, "alice")("events/subscribe", hook(endpoint, ""))
				if harness.At(got, "error", "code") != -32027.0 || harness.At(got, "error", "data", "reason") != c.want ||
					strings.Contains(fmt.Sprint(got), "own words") {
					t.Errorf("an endpoint that says %s: %v, want %s", says, got, c.want)
				}
				w.take(0)
				end(t, store, time.Hour)
				w.want(t, "without a subscription", soon)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := new(receiver)
		srv, _ := hookServer(t, w, func(opts *askback.Options) {
			opts.Events.Webhooks.Allow = func(principal, url string) bool {
				return principal == "alice" && strings.HasPrefix(url, "https://known.example/")
			}
		})
		alice, bob := dialAs(t, srv, "alice"), dialAs(t, srv, "bob")
		subscribe(t, alice, hook(endpoint, ""))
		first := w.want(t, "for the first", 0, "verification")[0]
		subscribe(t, alice, hook(endpoint, `,"arguments":{"tool":"a"}`))
		subscribe(t, alice, hook(endpoint, ""))
		subscribe(t, alice, hook("https://known.example/x", ""))
		w.want(t, "for what is verified", 0)
		subscribe(t, bob, hook(endpoint, ""))
		other := w.want(t, "for bob", 0, "verification")[0]
		subscribe(t, bob, hook("https://known.example/x", ""))
		w.want(t, "for what is known for alice", 0, "verification")
		if first.body["challenge"] == other.body["challenge"] || first.id == other.id {
			t.Error("a challenge is used twice")
		}
	})
}

// Nobody has many challenges sent to one host, whoever asks for them, and others are still verified.
func TestChallengesAreFew(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		time.Sleep(time.Minute - time.Duration(time.Now().Second())*time.Second)
		w := &receiver{echo: func(*delivery, string) (int, string, error) { return 404, "", nil }}
		srv, _ := hookServer(t, w, nil)
		try := func(user, url string) any {
			return harness.At(dialAs(t, srv, user)("events/subscribe", hook(url, "")), "error", "data", "limit")
		}
		for range 20 {
			if got := try("mallory", "https://victim.example/"); got != nil {
				t.Fatalf("a challenge is refused: %v", got)
			}
		}
		expect.Equal(t, "the 21st of mallory", try("mallory", "https://other.example/"), "verifications")
		for i := range 40 {
			try(fmt.Sprint("user ", i), "https://victim.example/")
		}
		expect.Equal(t, "the 61st to the host", try("alice", "https://VICTIM.example.:8443/x"), "verifications")
		if got := try("alice", endpoint); got != nil {
			t.Errorf("to another host: %v", got)
		}
		expect.Equal(t, "challenges were sent", len(w.take(0)), 61)
		time.Sleep(time.Minute)
		if got := try("alice", "https://victim.example/"); got != nil {
			t.Errorf("a minute later: %v", got)
		}
	})
}

// An event that is not accepted is tried five times, and others beside it. No cursor is beyond what is open.
func TestEachEventIsTriedByItself(t *testing.T) {
	withHooks(t, func(t *testing.T, w *receiver, _ *askback.Server, store *task.MemoryStore, ask harness.Ask) {
		start := subscribe(t, ask, hook(endpoint, ""))["cursor"]
		w.take(soon)
		refuse := func(status int) (poison string) {
			t.Helper()
			poison = rand.Text()
			w.answers(func(d *delivery, _ *http.Request) (int, error) {
				if d.kind() == poison {
					return status, nil
				}
				return http.StatusOK, nil
			})
			endAs(t, store, poison, 100*time.Hour)
			return poison
		}
		poison := refuse(http.StatusInternalServerError)
		began := w.want(t, "at once", soon, poison)[0]
		second := end(t, store, 100*time.Hour)
		got := w.want(t, "beside it", soon, second)[0]
		covers := func(cursor any) int {
			return len(tasksOn(pollEvents(t, ask, `"name":"call.ended","cursor":%q`, cursor)))
		}
		if covers(got.body["cursor"]) != 2 || covers(start) != 2 {
			t.Errorf("the cursor of the second event is beyond the first one")
		}
		refreshed := subscribe(t, ask, hook(endpoint, ""))
		status := refreshed["deliveryStatus"]
		if covers(refreshed["cursor"]) != 2 || harness.At(status, "active") != true {
			t.Errorf("prolonged meanwhile: %v", refreshed)
		}
		var pauses []int
		for i, d := range w.take(20 * time.Minute) {
			if d.kind() != poison || d.id != began.id || !d.signedBy(secretOf(1)) {
				t.Errorf("attempt %d is %+v", i, d)
			}
			pauses = append(pauses, int(d.at.Sub(began.at).Seconds()+0.5))
			began = d
		}
		for i, least := range []int{10, 40, 160, 640} {
			if len(pauses) != 4 || pauses[i] < least || pauses[i] > least+3 {
				t.Fatalf("the pauses are %v", pauses)
			}
		}
		// It is given up, because the endpoint has accepted another one since.
		third := end(t, store, 100*time.Hour)
		expect.Equal(t, "the cursor of the third event", covers(w.want(t, "after that", soon, third)[0].body["cursor"]), 0)
		for _, refused := range []int{http.StatusGone, http.StatusRequestEntityTooLarge} {
			w.want(t, "an event that is not wanted", 30*time.Minute, refuse(refused))
			last := end(t, store, 100*time.Hour)
			expect.Equal(t, "the cursor after the event that is not wanted",
				covers(w.want(t, "after that", soon, last)[0].body["cursor"]), 0)
			subscribe(t, ask, hook(endpoint, ""))
		}
	})
}

// While an endpoint is away for hours nothing is lost for a subscriber who comes back, and it is told what is wrong.
func TestAnEndpointThatIsAway(t *testing.T) {
	withHooks(t, func(t *testing.T, w *receiver, _ *askback.Server, store *task.MemoryStore, ask harness.Ask) {
		subscribe(t, ask, hook(endpoint, `,"ttlMs":null`))
		w.take(soon)
		before := end(t, store, 100*time.Hour)
		w.want(t, "before", soon, before)
		w.answers(func(*delivery, *http.Request) (int, error) { return 0, errors.New("connection refused") })
		var ids []string
		for range 40 {
			if ids = append(ids, end(t, store, 100*time.Hour)); len(ids) > 5 { // the first ones together
				time.Sleep(5 * time.Minute)
			}
		}
		tried := w.take(0)
		if n := len(tried); n < 32 || n > 32*5 {
			t.Errorf("there were %d attempts", n)
		}
		short := 0 // where an event has just come
		for i := range tried[1:] {
			if pause := tried[i+1].at.Sub(tried[i].at); pause < 900*time.Millisecond {
				short++
			}
		}
		if short > 4 {
			t.Errorf("%d of %d attempts follow another one at once", short, len(tried))
		}
		w.want(t, "while it waits", time.Hour)
		refreshed := subscribe(t, ask, hook(endpoint, `,"ttlMs":null`))
		status := refreshed["deliveryStatus"]
		if harness.At(status, "active") != false || harness.At(status, "lastError") != "connection_refused" ||
			harness.At(status, "failedSince") == nil || harness.At(status, "lastDeliveryAt") == nil {
			t.Errorf("the status is %v", status)
		}
		expect.Equal(t, "the cursor covers events",
			len(tasksOn(pollEvents(t, ask, `"name":"call.ended","cursor":%q`, refreshed["cursor"]))), 40)
		w.take(time.Hour)
		w.answers(nil)
		subscribe(t, ask, hook(endpoint, ""))
		var came []string
		for _, d := range w.take(time.Minute) {
			came = append(came, d.kind())
		}
		slices.Sort(came)
		slices.Sort(ids)
		expect.Same(t, "events came", came, ids)
		if status := subscribe(t, ask, hook(endpoint, ""))["deliveryStatus"]; harness.At(status, "active") != true ||
			harness.At(status, "lastError") != nil {
			t.Errorf("the status is %v", status)
		}
	})
}

// What waits is tried again as soon as the endpoint accepts something, without its subscriber.
func TestAnEndpointThatComesBack(t *testing.T) {
	withHooks(t, func(t *testing.T, w *receiver, srv *askback.Server, store *task.MemoryStore, _ harness.Ask) {
		subscribe(t, dialAs(t, srv, "alice"), hook(endpoint, ""))
		w.take(soon)
		w.answers(func(*delivery, *http.Request) (int, error) { return 503, nil })
		first := end(t, store, 100*time.Hour)
		w.want(t, "while it is away", 30*time.Minute, first, first, first, first, first)
		w.answers(nil)
		w.want(t, "while nothing happens", 10*time.Minute)
		second := end(t, store, 100*time.Hour)
		w.want(t, "when it is back", soon, second, first)
	})
}

// A subscription whose caller may no longer have its events ends, and its endpoint is told, but of nothing else.
func TestAccessIsLookedAtAgain(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w := new(receiver)
		var refusal atomic.Pointer[error]
		may := func(err error) { refusal.Store(&err) }
		may(nil)
		srv, store := hookServer(t, w, func(opts *askback.Options) {
			opts.AuthorizeContinues = true
			opts.Authorize = func(_ context.Context, a askback.Access) error {
				if a.Continues && (a.Method != "events/subscribe" || a.Principal != "alice" || a.Target != "call.ended") {
					t.Errorf("asked for %+v", a)
				}
				return *refusal.Load()
			}
		})
		ask := dialAs(t, srv, "alice")
		subscribe(t, ask, hook(endpoint, ""))
		w.take(soon)
		may(fmt.Errorf("no answer: %w", askback.ErrUndecided))
		waits := end(t, store, 100*time.Hour)
		w.want(t, "while the operator cannot tell", 5*time.Minute)
		may(nil)
		w.want(t, "when they can", 2*time.Minute, waits)
		may(errors.New("revoked"))
		w.answers(func(*delivery, *http.Request) (int, error) { return 500, nil })
		end(t, store, 100*time.Hour)
		told := w.want(t, "when access is gone", soon, "terminated")[0]
		want := map[string]any{"code": -32024.0, "message": "Forbidden", "data": map[string]any{"reason": "Access revoked"}}
		if fmt.Sprint(told.body["error"]) != fmt.Sprint(want) || !strings.HasPrefix(told.id, "msg_terminated_") ||
			!told.signedBy(secretOf(1)) {
			t.Errorf("the endpoint is told %v", told.body)
		}
		w.answers(nil)
		expect.Equal(t, "it is told", w.want(t, "again", time.Minute, "terminated")[0].id, told.id)
		end(t, store, 100*time.Hour)
		w.want(t, "afterwards", 2*time.Hour)
		may(nil)
		if got := subscribe(t, ask, hook(endpoint, "")); got["deliveryStatus"] != nil {
			t.Errorf("a subscription that had ended is prolonged: %v", got)
		}
		w.take(soon)
		// A subscriber who comes back before the endpoint was told begins anew, and the endpoint is told no more.
		may(errors.New("revoked"))
		w.answers(func(*delivery, *http.Request) (int, error) { return 500, nil })
		end(t, store, 100*time.Hour)
		w.want(t, "when access is gone again", soon, "terminated")
		may(nil)
		if got := subscribe(t, ask, hook(endpoint, "")); got["deliveryStatus"] != nil {
			t.Errorf("a subscription that ends is prolonged: %v", got)
		}
		w.answers(nil)
		w.want(t, "from now on", time.Minute)
		id := end(t, store, time.Minute)
		w.want(t, "of all", soon, id)
		one := subscribe(t, ask, hook(endpoint+"/one", `,"ttlMs":null,"arguments":{"taskId":"`+id+`"}`))
		w.take(soon)
		time.Sleep(2 * time.Hour) // its task is deleted
		w.take(0)
		w.answers(func(d *delivery, _ *http.Request) (int, error) { return 500, nil })
		end(t, store, time.Hour)
		var ended []*delivery
		for _, d := range w.take(soon) {
			if d.kind() == "terminated" {
				ended = append(ended, d)
			}
		}
		if len(ended) != 1 || ended[0].subscription != one["id"] {
			t.Fatalf("for the task that is gone there came %v", ended)
		}
		// Its subscriber may come back before the endpoint has taken note, and is refused: the task is still gone.
		got := ask("events/subscribe", hook(endpoint+"/one", `,"arguments":{"taskId":"`+id+`"}`))
		harness.Want(t, "subscribed to a task that is gone", got, -32024.0, "error", "code")
	})
}

// A subscriber is told, once, that there may have been events that it did not get.
func TestGapsAreTold(t *testing.T) {
	withHooks(t, func(t *testing.T, w *receiver, _ *askback.Server, store *task.MemoryStore, ask harness.Ask) {
		subscribe(t, ask, hook(endpoint, `,"ttlMs":null`))
		w.take(soon)
		w.answers(func(*delivery, *http.Request) (int, error) { return 500, nil })
		end(t, store, time.Minute)
		stays := end(t, store, 100*time.Hour)
		time.Sleep(2 * time.Hour) // the first one is deleted
		w.take(0)
		w.answers(nil)
		next := end(t, store, 100*time.Hour)
		got := w.want(t, "with the next event", soon, "gap", next, stays)
		gap := got[0]
		if !strings.HasPrefix(gap.id, "msg_gap_") || !gap.signedBy(secretOf(1)) {
			t.Errorf("the gap is %v", gap.body)
		}
		expect.Equal(t, "the cursor of the gap covers",
			len(tasksOn(pollEvents(t, ask, `"name":"call.ended","cursor":%q`, gap.body["cursor"]))), 2)
		last := end(t, store, 100*time.Hour)
		w.want(t, "afterwards", soon, last)
		harness.Want(t, "prolonged", subscribe(t, ask, hook(endpoint, "")), false, "truncated")
		// A new subscription is told at once, and not again.
		old := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "0.%d.", time.Now().UnixMilli()))
		begun := subscribe(t, ask, hook(endpoint+"/2", fmt.Sprintf(`,"cursor":%q`, old)))
		expect.Equal(t, "begun", begun["truncated"], true)
		w.want(t, "from the beginning", soon, "verification", stays, next, last)
		// The newest event alone is young enough.
		begun = subscribe(t, ask, hook(endpoint+"/3", fmt.Sprintf(`,"cursor":%q,"maxAgeMs":8000`, old)))
		w.want(t, "of eight seconds", soon, "verification", last)
		expect.Equal(t, "begun", begun["truncated"], true)
	})
}

// A secret is nowhere to be read. When it is replaced, both sign for a while.
func TestSecretsOfSubscribers(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w := new(receiver)
		var logged bytes.Buffer
		ring, other := new(seal.Ring), seal.NewKey(time.Now().Add(time.Second))
		srv, store := hookServer(t, w, func(opts *askback.Options) {
			ring = opts.Keys
			opts.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
			opts.Audit = func(_ context.Context, e askback.AuditEvent) { fmt.Fprintf(&logged, "%+v", e) }
		})
		ask := dialAs(t, srv, "alice")
		with := func(n byte) string { return strings.Replace(hook(endpoint, ""), secretOf(1), secretOf(n), 1) }
		subscribe(t, ask, with(1))
		w.take(soon)
		subscribe(t, ask, with(2))
		signed := func(when string, want ...byte) {
			t.Helper()
			d := w.want(t, when, soon, end(t, store, 100*time.Hour))[0]
			for n := range byte(4) {
				if d.signedBy(secretOf(n)) != slices.Contains(want, n) {
					t.Errorf("%s it is signed by secret %d: %v", when, n, d.signedBy(secretOf(n)))
				}
			}
		}
		signed("just replaced", 1, 2)
		subscribe(t, ask, with(2))
		signed("prolonged meanwhile", 1, 2)
		time.Sleep(10 * time.Minute)
		signed("later", 2)
		stored := func() string {
			subs, err := store.Subscribed(t.Context(), "alice")
			if err != nil || len(subs) != 1 {
				t.Fatal(subs, err)
			}
			return string(subs[0].State)
		}
		w.answers(func(*delivery, *http.Request) (int, error) { return 500, nil })
		end(t, store, 100*time.Hour)
		w.take(time.Hour / 2)
		w.answers(nil)
		key := bytes.Repeat([]byte{2}, 32)
		for says, text := range map[string]string{"the store": stored(), "the log": logged.String()} {
			for _, secret := range []string{secretOf(2)[6:], string(key), strings.Repeat("02", 32)} {
				if strings.Contains(text, secret) {
					t.Errorf("%s has the secret: %s", says, text)
				}
			}
		}
		expect.Contains(t, "the log", logged.String(), "accepts no events")
		// The key of the server is replaced: what it has sealed is sealed again when it is read, and the old key goes.
		old := ring.Keys()[0]
		both := expect.Must(seal.NewRing(other, old))(t)
		expect.Check(t, ring.Replace(both))
		end(t, store, 100*time.Hour)
		got, now := w.take(soon), stored()
		if len(got) != 2 || !strings.Contains(now, other.ID()) || strings.Contains(now, old.ID()) {
			t.Errorf("%d events came, and the store has %s", len(got), now)
		}
		only := expect.Must(seal.NewRing(other))(t)
		expect.Check(t, ring.Replace(only))
		signed("with another key of the server", 2)
	})
}

// What a subscriber says while an event is posted holds, and the event does not come again: otherwise it would come for
// ever to a host that prolongs its subscription whenever it gets one. Who unsubscribes then has no more.
func TestSubscribersMayComeWhileAnEventIsPosted(t *testing.T) {
	withHooks(t, func(t *testing.T, w *receiver, _ *askback.Server, store *task.MemoryStore, ask harness.Ask) {
		subscribe(t, ask, hook(endpoint, ""))
		w.take(soon)
		// meanwhile has something done while the next event is posted.
		meanwhile := func(do func()) {
			var done atomic.Bool
			w.answers(func(*delivery, *http.Request) (int, error) {
				if !done.Swap(true) {
					do()
				}
				return 200, nil
			})
		}
		slowly := func() { time.Sleep(2 * soon) }
		post := func(when string) *delivery {
			t.Helper()
			return w.want(t, when, soon, end(t, store, 100*time.Hour))[0]
		}
		meanwhile(slowly)
		first := post("at first")
		subscribe(t, ask, strings.Replace(hook(endpoint, ""), secretOf(1), secretOf(2), 1))
		w.want(t, "prolonged meanwhile", 10*time.Minute)
		if next := post("afterwards"); first.signedBy(secretOf(2)) || !next.signedBy(secretOf(2)) {
			t.Errorf("after %v the next event has the headers %v", first.header, next.header)
		}
		another := make(chan string, 1)
		meanwhile(func() {
			another <- end(t, store, 100*time.Hour)
			subscribe(t, ask, hook(endpoint, ""))
		})
		one := end(t, store, 100*time.Hour)
		w.want(t, "when another event comes, too", 10*time.Minute, one, <-another)
		w.answers(func(*delivery, *http.Request) (int, error) { // an endpoint that prolongs whenever an event comes
			for range 3 {
				subscribe(t, ask, hook(endpoint, ""))
				time.Sleep(time.Second)
			}
			return 200, nil
		})
		post("prolonged each time")
		post("and again")
		w.want(t, "as both were taken", 10*time.Minute)
		meanwhile(slowly)
		post("before the end")
		ask("events/unsubscribe", hook(endpoint, ""))
		w.take(soon)
		end(t, store, 100*time.Hour)
		w.want(t, "after the end", time.Hour)
	})
}

// Of two who subscribe to the same at once, one adds the subscription, and the other one prolongs it.
func TestTwoSubscribeAtOnce(t *testing.T) {
	withHooks(t, func(t *testing.T, w *receiver, _ *askback.Server, _ *task.MemoryStore, ask harness.Ask) {
		var first map[string]any
		var once atomic.Bool
		w.echo = func(_ *delivery, challenge string) (int, string, error) {
			if !once.Swap(true) {
				first = subscribe(t, ask, hook(endpoint, ""))
			}
			return 200, fmt.Sprintf(`{"challenge":%q}`, challenge), nil
		}
		second := subscribe(t, ask, hook(endpoint, ""))
		if first["id"] == nil || first["id"] != second["id"] || first["deliveryStatus"] != nil ||
			second["deliveryStatus"] == nil {
			t.Errorf("the first has %v, the second %v", first, second)
		}
	})
}

// conflicting is a store in which somebody else changes each subscription first.
type conflicting struct {
	*task.MemoryStore
	saves atomic.Int32
}

func (s *conflicting) SaveSubscription(context.Context, *task.Subscription, int) error {
	s.saves.Add(1)
	return task.ErrConflict
}

// Who subscribes while others do gives up after a few times, and is told to come again.
func TestASubscriptionThatOthersChange(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		store := &conflicting{MemoryStore: new(task.MemoryStore)}
		srv, _ := hookServer(t, new(receiver), func(o *askback.Options) { o.Tasks.Store = store })
		res := dialAs(t, srv, "alice")("events/subscribe", hook(endpoint, ""))
		if said := fmt.Sprint(harness.At(res, "error", "message")); !strings.Contains(said, "send the request again") ||
			store.saves.Load() != 10 {
			t.Errorf("saved %d times, and then: %v", store.saves.Load(), res)
		}
	})
}

// A subscription to what the server does not offer any more ends. Until then another release may know the type.
func TestATypeThatIsGone(t *testing.T) {
	withHooks(t, func(t *testing.T, w *receiver, _ *askback.Server, store *task.MemoryStore, ask harness.Ask) {
		becomes := func(from, to string) {
			t.Helper()
			subscribe(t, ask, hook(endpoint, `,"ttlMs":null`))
			w.take(soon)
			subs, err := store.Subscribed(t.Context(), "alice")
			if err != nil || len(subs) != 1 {
				t.Fatal(subs, err)
			}
			subs[0].State, subs[0].Due = bytes.Replace(subs[0].State, []byte(from), []byte(to), 1), time.Now()
			expect.Check(t, store.SaveSubscription(t.Context(), subs[0], 1))
		}
		becomes(`"name":"call.ended"`, `"name":"call.began"`)
		w.want(t, "while the type may be known elsewhere", 59*time.Minute)
		e := w.want(t, "later", 5*time.Minute, "terminated")[0].body["error"]
		if harness.At(e, "code") != -32023.0 || harness.At(e, "data", "kind") != "event" {
			t.Errorf("the subscriber is told %v", e)
		}
		becomes(`"arguments":{}`, `"arguments":{"x":1}`)
		e = w.want(t, "when the arguments are not taken", soon, "terminated")[0].body["error"]
		if harness.At(e, "code") != -32026.0 || harness.At(e, "data", "reason") != "schema_changed" {
			t.Errorf("the subscriber is told %v", e)
		}
	})
}

// People are told what they are asked, and who is in a group then is told within a minute what that is asked.
func TestPeopleAreTold(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w := new(receiver)
		groups := new(directory)
		srv, store := hookServer(t, w, func(opts *askback.Options) { opts.Events.Groups = groups.of })
		for _, name := range []string{"alice", "bob"} {
			subscribe(t, dialAs(t, srv, name),
				strings.Replace(hook("https://hooks.example/"+name, ""), "call.ended", "question.asked", 1))
		}
		w.take(soon)
		told := func(when string, after time.Duration, want ...string) {
			t.Helper()
			var got []string
			for _, d := range w.take(after) {
				got = append(got, fmt.Sprint(d.path, " ", harness.At(d.body, "data", "call")))
			}
			slices.Sort(got)
			expect.Same(t, when+" there came", got, want)
		}
		call := asks(t, store, "alice", "user:bob", "group:release")
		told("when bob is asked", soon, "/alice "+call, "/bob "+call)
		asks(t, store, "carol", "group:release")
		told("when others are asked", 2*time.Minute)
		groups.set(nil, errors.New("no answer"))
		told("when groups are unknown", 2*time.Minute)
		groups.set(map[string][]string{"bob": {"release"}}, nil)
		call = asks(t, store, "carol", "group:release")
		got := w.take(2 * time.Minute)
		if n := len(got); n == 0 || got[n-1].path != "/bob" || harness.At(got[n-1].body, "data", "call") != call {
			t.Errorf("when bob's group is asked there came %v", got)
		}
	})
}

// Callers who name many endpoints that hang delay nobody else.
func TestDeadEndpointsHoldUpNobody(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w := new(receiver)
		srv, store := hookServer(t, w, func(opts *askback.Options) {
			opts.Events.Webhooks.Allow = func(string, string) bool { return true }
		})
		ends := func(principal string) {
			t.Helper()
			n := &task.Task{ID: rand.Text(), Principal: principal, Method: "tools/call", Status: task.Completed, Events: true}
			expect.Check(t, store.Insert(t.Context(), n, time.Hour, nil, task.Update{Due: -1}, task.Quota{}))
		}
		const dead = 6
		for i := range dead * 40 {
			user := fmt.Sprint("dead ", i%dead)
			subscribe(t, dialAs(t, srv, user), hook(fmt.Sprintf("https://dead%d.example/%d", i%dead, i), ""))
		}
		subscribe(t, dialAs(t, srv, "bob"), hook("https://hooks.example/bob", ""))
		w.take(time.Minute)
		w.answers(func(d *delivery, r *http.Request) (int, error) {
			if d.path != "/bob" {
				<-r.Context().Done()
				return 0, r.Context().Err()
			}
			return 200, nil
		})
		for i := range dead {
			ends(fmt.Sprint("dead ", i))
			if n := len(w.take(soon)); n == 0 {
				t.Errorf("nothing of the %dth caller hangs", i)
			}
		}
		for range 5 {
			ends("bob")
			bobs := 0
			for _, d := range w.take(2 * time.Second) {
				if d.path == "/bob" {
					bobs++
				}
			}
			expect.Equal(t, "bob got events while the endpoints of others hang", bobs, 1)
		}
	})
}

// Several instances deliver an event once. One that stops leaves what it was about to deliver to the others.
func TestInstancesDeliverOnce(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w := new(receiver)
		var first *askback.Options
		srv, store := hookServer(t, w, func(opts *askback.Options) { first = opts })
		var stops []context.CancelFunc
		var running sync.WaitGroup
		for range 2 {
			opts := *first
			opts.Logger = slog.New(slog.DiscardHandler)
			other := harness.NewServer(t, &opts, addDeploy)
			ctx, stop := context.WithCancel(context.Background())
			stops = append(stops, stop)
			running.Go(func() { _ = other.RunTasks(ctx) })
		}
		t.Cleanup(func() {
			for _, stop := range stops {
				stop()
			}
			running.Wait()
		})
		for i := range 10 {
			subscribe(t, dialAs(t, srv, "alice"), hook(fmt.Sprint(endpoint, i), ""))
		}
		w.take(soon)
		for range 5 {
			end(t, store, time.Hour)
			expect.Equal(t, "ten subscribers got messages", len(w.take(soon)), 10)
		}
		var hanging sync.Once
		interrupted := 0
		w.answers(func(_ *delivery, r *http.Request) (int, error) {
			hang := false
			hanging.Do(func() { hang = true })
			if !hang {
				return 200, nil
			}
			for _, stop := range stops {
				stop() // one of those that hang, or none: the third goes on
			}
			select {
			case <-r.Context().Done():
				interrupted++
				return 0, r.Context().Err()
			case <-time.After(time.Second):
				return 200, nil
			}
		})
		end(t, store, time.Hour)
		if got := w.take(soon); len(got) != 10+interrupted {
			t.Errorf("ten subscribers got %d messages, of which %d were interrupted", len(got), interrupted)
		}
	})
}

// Without a transport of the operator's, no address that a caller names leads to this machine, and the caller is not
// told more than of an endpoint that is not there.
func TestNoEndpointIsInside(t *testing.T) {
	t.Parallel()
	srv, _ := hookServer(t, nil, func(opts *askback.Options) { opts.Events.Webhooks.UncheckedTransport = nil })
	inside := httptest.NewUnstartedServer(http.NotFoundHandler())
	var connections atomic.Int32
	inside.Config.ConnState = func(net.Conn, http.ConnState) { connections.Add(1) }
	inside.StartTLS()
	defer inside.Close()
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	expect.Check(t, err)
	ask := dialAs(t, srv, "alice")
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::1]", "127.1"} {
		got := ask("events/subscribe", hook("https://"+host+":"+port+"/", ""))
		if harness.At(got, "error", "code") != -32027.0 ||
			harness.At(got, "error", "data", "reason") != "connection_refused" {
			t.Errorf("%s: %v", host, got)
		}
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

// Webhooks need keys, and a store that keeps them.
func TestOptionsOfWebhooks(t *testing.T) {
	t.Parallel()
	keys := harness.NewRing(t)
	type log struct {
		task.Store
		task.EventLog
	}
	store := new(task.MemoryStore)
	for says, c := range map[string]struct {
		keys  *seal.Ring
		store task.Store
		hooks askback.WebhookOptions
	}{
		"needs Options.Keys":   {nil, store, askback.WebhookOptions{}},
		"task.Subscriptions":   {keys, log{store, store}, askback.WebhookOptions{}},
		"less than a minute":   {keys, store, askback.WebhookOptions{TTL: time.Second}},
		"more than MaxTTL":     {keys, store, askback.WebhookOptions{TTL: time.Hour, MaxTTL: time.Minute}},
		"or a negative number": {keys, store, askback.WebhookOptions{PerPrincipal: -1}},
	} {
		opts := &askback.Options{Keys: c.keys, Tasks: &askback.Tasks{Store: c.store}, Logger: slog.New(slog.DiscardHandler),
			Events: &askback.EventOptions{Webhooks: &c.hooks}}
		_, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil), opts)
		expect.Fails(t, "the error", err, says)
	}
}
