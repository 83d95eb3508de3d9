package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// formOf30 is a form with three fields of each kind that the page has.
var formOf30 = func() json.RawMessage {
	kinds := []string{`"type":"string"`, `"type":"string","maxLength":2000`, `"type":"integer","minimum":0`,
		`"type":"number"`, `"type":"boolean"`, `"type":"string","enum":["a","b","c"]`,
		`"type":"string","enum":["a","b","c","d","e","f","g","h","i"]`,
		`"type":"array","maxItems":2,"items":{"type":"string","enum":["a","b","c"]}`,
		`"type":"string","format":"email"`, `"type":"string","format":"date"`}
	var properties []string
	for i := range 30 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"title":"Field %d",%s}`, i, i, kinds[i%len(kinds)]))
	}
	return json.RawMessage(`{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`)
}()

func askLongForm(_ context.Context, call *askback.Call, _ map[string]any) (string, error) {
	answer, err := askback.ElicitWith[map[string]any](call, "long", askback.Question{
		Message: "How shall the report be made?", For: []string{askback.Group("release")}, Schema: formOf30,
	})
	text, _ := json.Marshal(answer)
	return string(text), err
}

// front is the server of an inbox. It can be stopped and started again, at an address that nobody else has.
type front struct {
	*testing.T
	addr   string
	who    inbox.Identity
	desk   *desk.Desk
	server *http.Server
	cut    atomic.Bool // no response to an answer leaves
}

func (s *scene) newFront(who func(net.Addr) inbox.Identity) *front {
	s.Helper()
	at := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	l := expect.Must(net.Listen("tcp", at))(s)
	f := &front{T: s.T, addr: l.Addr().String(), desk: s.desk, who: who(l.Addr())}
	f.serve(l)
	s.Cleanup(func() { f.server.Close() })
	return f
}

func (f *front) serve(l net.Listener) {
	f.Helper()
	pages := expect.Must(inbox.New(f.desk, &inbox.Options{Identity: f.who, Logger: slog.New(slog.DiscardHandler)}))(f)
	f.server = &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && f.cut.Load() {
				pages.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			pages.ServeHTTP(w, r)
		})}
	go func() { _ = f.server.Serve(l) }()
}

func (f *front) start() {
	f.Helper()
	l := expect.Must(net.Listen("tcp", f.addr))(f)
	f.serve(l)
}

// byHeader takes people for whom a header names, while they are signed in.
func byHeader(out *atomic.Bool) func(net.Addr) inbox.Identity {
	return func(net.Addr) inbox.Identity {
		return inbox.IdentityFunc(func(r *http.Request) (desk.Person, error) {
			if out.Load() {
				return desk.Person{}, errors.New("the session has ended")
			}
			return desk.Person{Name: r.Header.Get("X-User"), Groups: []string{"release"}}, nil
		})
	}
}

// fill writes into each field of the page, and returns what they have afterwards. Of several choices it ticks some.
func (v *viewer) fill(ticks int) map[string]string {
	v.Helper()
	type control struct{ ID, Kind string }
	controls := read(v, chromedp.Evaluate[[]control](`[...document.querySelectorAll(
		"#answer :is(input, textarea, select), .rest input")].filter((f) => f.type !== "hidden")
		.map((f) => ({ ID: f.id, Kind: f.type }))`))
	v.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
	ticked := make(map[string]int)
	for i, c := range controls {
		set := func(script string) {
			v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const f = document.getElementById(%q); %s }`, c.ID, script)))
		}
		text := fmt.Sprintf("Written by ada into %s: ä日😀", c.ID)
		group, _, _ := strings.Cut(c.ID, "-")
		switch c.Kind {
		case "checkbox":
			if ticked[group]++; ticked[group] > ticks {
				continue
			}
			set("f.click()")
			continue
		case "radio":
			if ticked[group]++; ticked[group] == 2 {
				set("f.click()")
			}
			continue
		case "select-one":
			set(`f.selectedIndex = 3; f.dispatchEvent(new Event("change", { bubbles: true }))`)
			continue
		case "date":
			set(`f.value = "2026-12-24"; f.dispatchEvent(new Event("input", { bubbles: true }))`)
			continue
		case "number":
			text = fmt.Sprint(1000 + i)
		case "email":
			text = fmt.Sprintf("ada%d@example.com", i)
		case "textarea":
			text += "\n second line \n"
		}
		set("f.focus(); f.select()")
		order(v, input.InsertText, input.InsertTextParams{Text: text})
	}
	return v.written()
}

// written is what the fields of the page have.
func (v *viewer) written() map[string]string {
	v.Helper()
	return read(v, chromedp.Evaluate[map[string]string](`Object.fromEntries([...document.querySelectorAll(
		"#answer :is(input, textarea, select), .rest input")].filter((f) => f.type !== "hidden")
		.map((f) => [f.id, f.type === "checkbox" || f.type === "radio" ? String(f.checked) : f.value]))`))
}

// keeps requires that nothing is lost, now and a second of the page's own time later.
func (v *viewer) keeps(when string, before map[string]string) {
	v.Helper()
	for _, wait := range []string{"0", "1000"} {
		v.do(chromedp.Evaluate[chromedp.Void](`new Promise((done) => setTimeout(done, `+wait+`))`, chromedp.EvalAwaitPromise))
		after, lost := v.written(), 0
		for id, text := range before {
			if after[id] != text {
				lost += len([]rune(text))
				v.Errorf("%s, after %s ms: %s had %q, and has %q", when, wait, id, text, after[id])
			}
		}
		if lost > 0 {
			v.Fatalf("%s: %d characters are lost; the page is\n%s", when, lost, v.text())
		}
	}
}

// says requires a text directly above the buttons, and that they are off.
func (v *viewer) says(text string) {
	v.Helper()
	v.eventually(fmt.Sprintf("%q beside the buttons", text), func() bool {
		return read(v, chromedp.Evaluate[bool](fmt.Sprintf(
			`!!document.querySelector("#answer-form .buttons")?.previousElementSibling?.textContent.includes(%q)`, text)))
	})
	if v.enabled() {
		v.Errorf("it says %q, and the buttons are on", text)
	}
}

// enabled reports whether any button of the card is on.
func (v *viewer) enabled() bool {
	return read(v, chromedp.Evaluate[bool](`!!document.querySelector("#card button:enabled")`))
}

// follows has the page show that others have done something, so that it has looked at the question again.
func (v *viewer) follows(d *desk.Desk, q *desk.Question, who string) {
	v.Helper()
	by := desk.Person{Name: who, Groups: []string{"release"}}
	if _, err := d.Claim(v.Context(), q.Name, q.Key, by, time.Hour); err != nil {
		v.Fatal(err)
	}
	v.reads(who + ", until")
	if _, err := d.Claim(v.Context(), q.Name, q.Key, by, 0); err != nil {
		v.Fatal(err)
	}
	v.eventually("end of the claim", func() bool { return !strings.Contains(v.text(), who+", until") })
}

// Whatever happens while somebody fills in a form, or when they send it, nothing that they have written is lost. Where
// nothing can be sent the buttons are off, and what is beside them says why. They come back by themselves.
func TestWhatIsWrittenStays(t *testing.T) {
	b := browser(t)
	all := newScene(t)
	for _, c := range []struct {
		name string
		// happens does what the name says; the page says so. Ends undoes it, if that can be.
		happens func(v *viewer, f *front, out *atomic.Bool, q *desk.Question)
		ends    func(v *viewer, f *front, out *atomic.Bool)
		says    string
	}{
		{"refused", func(v *viewer, _ *front, _ *atomic.Bool, _ *desk.Question) {
			mouse{}.press(v, "[value=accept]")
			v.reads("Not everything in the form can be taken")
			v.reads("at most 2")
		}, nil, ""},
		{"signed out", func(_ *viewer, f *front, out *atomic.Bool, q *desk.Question) {
			out.Store(true)
			by := desk.Person{Name: "bob", Groups: []string{"release"}}
			if _, err := f.desk.Claim(f.Context(), q.Name, q.Key, by, time.Hour); err != nil { // the stream notices at an event
				f.Fatal(err)
			}
		}, func(_ *viewer, _ *front, out *atomic.Bool) { out.Store(false) }, "You are signed out."},
		{"signed out, and sent", func(v *viewer, _ *front, out *atomic.Bool, _ *desk.Question) {
			out.Store(true)
			v.do(chromedp.Click(chromedp.CSS("[value=accept]")))
		}, func(_ *viewer, _ *front, out *atomic.Bool) { out.Store(false) }, "You are signed out."},
		{"offline, and sent", func(v *viewer, _ *front, _ *atomic.Bool, _ *desk.Question) {
			v.offline(true)
			v.do(chromedp.Click(chromedp.CSS("[value=accept]")))
		}, func(v *viewer, _ *front, _ *atomic.Bool) { v.offline(false) }, "The inbox cannot be reached."},
		{"restarted while it is sent", func(v *viewer, f *front, _ *atomic.Bool, _ *desk.Question) {
			f.cut.Store(true) // the answer is recorded, and nobody is told
			v.do(chromedp.Click(chromedp.CSS("[value=accept]")))
		}, nil, "is recorded: you accepted it. It can no longer be answered."},
		{"restarted", func(_ *viewer, f *front, _ *atomic.Bool, _ *desk.Question) { f.server.Close() },
			func(_ *viewer, f *front, _ *atomic.Bool) { f.start() }, "The inbox cannot be reached."},
		{"decided", func(v *viewer, _ *front, _ *atomic.Bool, q *desk.Question) {
			all.in(v.T).votes(q, "bob", "decline")
		}, nil, "Declined by bob. It can no longer be answered."},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := all.in(t)
			var out atomic.Bool
			f := s.newFront(byHeader(&out))
			s.url = "http://" + f.addr
			q := s.call("report", map[string]any{"for": c.name})
			v := s.open(b, "ada", "", wide)
			v.visit(pathOf(q))
			ticks := 2
			if c.name == "refused" {
				ticks = 3
			}
			before := v.fill(ticks)
			c.happens(v, f, &out, q)
			if c.says != "" {
				v.says(c.says)
			}
			v.keeps(c.name, before)
			switch {
			case strings.Contains(c.says, "no longer"):
				return
			case c.ends != nil:
				c.ends(v, f, &out)
				v.eventually("button", v.enabled)
				v.keeps("after it", before)
			}
			v.follows(s.desk, q, "bob")
			v.keeps("when others do something", before)
			for id, value := range before {
				if strings.HasSuffix(id, "-2") && value == "true" && ticks == 3 {
					v.do(chromedp.Click(chromedp.CSS("#" + id)))
				}
			}
			mouse{}.press(v, "[value=accept]")
			v.reads("Accepted by ada")
			s.ends(q, `"p1":"Written by ada into f1: ä日😀\n second line \n"`)
		})
	}
}

// emulateNetwork takes the network away from a window, and tells its page.
var emulateNetwork = cdp.Command[network.OverrideNetworkStateParams, cdp.Empty]{
	Method: "Network.emulateNetworkConditions",
}

func (v *viewer) offline(is bool) {
	v.Helper()
	order(v, emulateNetwork, network.OverrideNetworkStateParams{Offline: is, DownloadThroughput: -1, UploadThroughput: -1})
}

// leavesAnyway reloads the page, although the browser asks whether to leave what is written.
func (v *viewer) leavesAnyway() {
	v.Helper()
	if err := chromedp.Listen(v.ctx, func(event any) {
		if _, asks := event.(*page.EventJavascriptDialogOpening); asks {
			go func() {
				_, _ = chromedp.Call(v.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
			}()
		}
	}); err != nil {
		v.Fatal(err)
	}
	v.do(chromedp.Reload())
}

// newTab opens another window of the same browser profile.
func (v *viewer) newTab() *viewer {
	v.Helper()
	ctx, stop := chromedp.NewContext(v.ctx)
	v.Cleanup(stop)
	expect.Check(v, chromedp.Do(ctx))
	return &viewer{T: v.T, ctx: ctx, url: v.url}
}

// Somebody whose session has ended signs in again, in another tab or in the same one, and sends what they had written:
// with JavaScript and without. An answer whose response was lost is recorded once, and the page says that it is.
func TestSignedInAgain(t *testing.T) {
	b := browser(t)
	s := newScene(t)
	var local *inbox.Local
	f := s.newFront(func(at net.Addr) inbox.Identity {
		local = expect.Must(inbox.NewLocal(desk.Person{Name: "ada", Groups: []string{"release"}}, at))(t)
		return local
	})
	s.url = "http://" + f.addr
	signIn := func(v *viewer) {
		t.Helper()
		v.do(chromedp.Navigate(local.URL()))
		v.eventually("page of somebody who is signed in", func() bool {
			is, err := chromedp.Run(v.ctx, chromedp.Evaluate[bool](`!!document.querySelector("nav.tabs")`))
			return err == nil && is // between two pages there is nothing to ask
		})
	}
	for _, plain := range []bool{false, true} {
		q := s.call("report", map[string]any{"plain": plain})
		v := s.open(b, "", "", look{width: wide.width, height: wide.height, plain: plain})
		order(v, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{}})
		signIn(v.newTab())
		v.visit(pathOf(q))
		before := v.fill(2)
		order(v, network.ClearBrowserCookies, cdp.Empty{})
		if plain {
			mouse{}.press(v, "[value=accept]")
			v.reads("You are signed out, so nothing is recorded. What you have written is still here.")
			v.reads("Written by ada into reason")
			signIn(v.newTab())
			mouse{}.press(v, "form button")
		} else {
			v.do(chromedp.Click(chromedp.CSS("[value=accept]")))
			v.says("Sign in in a new tab")
			signIn(v.newTab())
			v.eventually("button", v.enabled)
			v.keeps("signed in in another tab", before)
			order(v, network.ClearBrowserCookies, cdp.Empty{})
			v.leavesAnyway()
			v.reads("the token of such an address")
			signIn(v)
			v.visit(pathOf(q))
			v.reads("What you had written here is back.")
			v.keeps("signed in in the same tab", before)
			mouse{}.press(v, "[value=accept]")
		}
		v.reads("Accepted by ada")
		s.ends(q, `"p1":"Written by ada into f1: ä日😀\n second line \n"`)
		v.visit(pathOf(q))
		v.reads("is recorded: you accepted it.")
	}
}
