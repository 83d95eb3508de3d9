package inbox_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// settled is how long a test waits until nothing that happens then can be missed.
const settled = 5 * time.Second

// street is an inbox that is served, and who watches it. All of it is in one bubble of time.
type street struct {
	*office
	conns  chan net.Conn
	client *http.Client
}

// bubble runs a test with an inbox that is served in a bubble of time.
func bubble(t *testing.T, test func(s *street)) {
	synctest.Test(t, func(t *testing.T) {
		s := &street{office: newOffice(t), conns: make(chan net.Conn)}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.in.ServeHTTP(w, r)
		})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(s) }()
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return s.dial(), nil
		}}
		s.client = &http.Client{Transport: transport}
		defer func() {
			server.Close()
			transport.CloseIdleConnections()
			<-served
		}()
		test(s)
	})
}

// dial returns a connection without any buffer: what nobody reads cannot be written.
func (s *street) dial() net.Conn {
	client, server := net.Pipe()
	s.conns <- server
	return client
}

// Accept, Close and Addr make the street the listener of its server.
func (s *street) Accept() (net.Conn, error) {
	if c, ok := <-s.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (s *street) Close() error { close(s.conns); return nil }

func (*street) Addr() net.Addr { return &net.UnixAddr{Name: "a pipe", Net: "unix"} }

// viewer is somebody who watches a stream of events.
type viewer struct {
	events chan string // each with its data; closed when the stream ends
	close  func()
}

// watch opens a stream of events.
func (s *street) watch(as string) *viewer {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://inbox/events", nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("As", as)
	r.Header.Set("Accept", "text/event-stream")
	res, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		s.Fatalf("%s: %s %v", as, res.Status, res.Header)
	}
	v := &viewer{make(chan string, 8), cancel}
	go func() {
		defer close(v.events)
		defer res.Body.Close()
		kind := ""
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				kind = value
			case "data":
				v.events <- kind + " " + value
			case "retry":
				if value == "60000" {
					v.events <- "later"
				}
			}
		}
	}()
	s.Cleanup(cancel)
	return v
}

// until reads events until this one, and returns those before. It is "end" for the end of the stream.
func (v *viewer) until(t *testing.T, want string) (before []string) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case e, ok := <-v.events:
			if !ok {
				e = "end"
			}
			if e == want {
				return before
			}
			if before = append(before, e); !ok {
				t.Fatalf("the stream ends after %q without %q", before, want)
			}
		case <-limit:
			t.Fatalf("no %q within a minute, but %q", want, before)
		}
	}
}

// Everybody is told what concerns them, and nothing else: neither more of it, nor that there is anything else.
func TestEvents(t *testing.T) { bubble(t, testEvents) }

func testEvents(o *street) {
	t := o.T
	alice, carol, mallory := o.watch("alice:release"), o.watch("carol"), o.watch("mallory:oncall")
	for _, v := range []*viewer{alice, carol, mallory} {
		v.until(t, "refresh {}")
		v.until(t, "refresh {}") // once the loop has begun
	}
	name := o.ask("one", asked(2))
	hers := o.askFor("two", task.Task{ID: "two", Principal: "mallory", Target: "deploy"}, `{}`, asked(1))
	one := fmt.Sprintf(`question {"name":%q,"key":"q"}`, name)
	two := fmt.Sprintf(`question {"name":%q,"key":"q"}`, hers)
	seen := slices.Concat(alice.until(t, one), carol.until(t, one))
	if slices.ContainsFunc(seen, func(e string) bool { return e != two && e != "refresh {}" }) {
		t.Errorf("before it there is %q", seen)
	}
	if before := mallory.until(t, two); before != nil {
		t.Errorf("mallory is told %q", before)
	}
	o.api(200, "alice:release", "POST", path(name, "/answer"), accepted)
	alice.until(t, one)
	carol.until(t, one)
	o.api(200, "alice:release", "POST", path(hers, "/answer"), accepted)
	if before := mallory.until(t, two); before != nil { // and not of carol's
		t.Errorf("mallory is told %q", before)
	}
}

// counting counts the queries for changes.
type counting struct {
	*task.MemoryStore
	queries atomic.Int64
}

func (c *counting) Changes(
	ctx context.Context, after *task.Question, limit int,
) ([]*task.Question, time.Time, error) {
	c.queries.Add(1)
	return c.MemoryStore.Changes(ctx, after, limit)
}

// One loop asks for all viewers, and only while there are some.
func TestEventsOfOneLoop(t *testing.T) { bubble(t, testEventsOfOneLoop) }

func testEventsOfOneLoop(o *street) {
	t := o.T
	s := &counting{MemoryStore: o.store.(*task.MemoryStore)}
	o.store = s
	o.in, o.log = newInbox(t, s, inbox.IdentityFunc(who))
	var viewers []*viewer
	for i := range 50 {
		viewers = append(viewers, o.watch(fmt.Sprintf("viewer-%d:release", i)))
	}
	time.Sleep(settled)
	name := o.ask("one", asked(1))
	for _, v := range viewers {
		v.until(t, fmt.Sprintf(`question {"name":%q,"key":"q"}`, name))
	}
	if n := s.queries.Load(); n > 10 {
		t.Errorf("%d queries for 50 viewers", n)
	}
	for _, v := range viewers {
		v.close()
	}
	time.Sleep(2 * time.Second)
	before := s.queries.Load()
	time.Sleep(time.Hour)
	if n := s.queries.Load(); n != before {
		t.Errorf("%d queries while nobody watches", n-before)
	}
	o.watch("alice:release")
	time.Sleep(2 * time.Second)
	if s.queries.Load() == before {
		t.Error("no query for somebody who comes later")
	}
}

// Of the streams of one person the oldest goes, and comes again later; others keep theirs.
func TestEventsOfOnePerson(t *testing.T) { bubble(t, testEventsOfOnePerson) }

func testEventsOfOnePerson(o *street) {
	t := o.T
	bob := o.watch("bob:release")
	time.Sleep(settled)
	first := o.watch("alice:release")
	for range 4 {
		o.watch("alice:release").until(t, "refresh {}")
	}
	last := o.watch("alice:release")
	first.until(t, "later")
	first.until(t, "end")
	name := o.ask("one", asked(1))
	for _, v := range []*viewer{bob, last} {
		v.until(t, fmt.Sprintf(`question {"name":%q,"key":"q"}`, name))
	}
}

// In all there are a thousand streams. Somebody new has one all the same, in place of one of who has most.
func TestEventsOfAll(t *testing.T) { bubble(t, testEventsOfAll) }

func testEventsOfAll(o *street) {
	t := o.T
	var crowd []*viewer
	for i := range 200 {
		for range 5 {
			crowd = append(crowd, o.watch(fmt.Sprintf("crowd-%d", i)))
		}
	}
	alice := o.watch("alice:release")
	time.Sleep(settled)
	ended := 0
	for _, v := range crowd {
		for open := true; open && len(v.events) > 0; {
			_, open = <-v.events
		}
		select {
		case <-v.events:
			ended++
		default:
		}
	}
	name := o.ask("one", asked(1))
	alice.until(t, fmt.Sprintf(`question {"name":%q,"key":"q"}`, name))
	expect.Equal(t, "streams have ended for one", ended, 1)
}

// Who signs out, or loses a group, is told nothing more.
func TestEventsOfAnEndedSession(t *testing.T) { bubble(t, testEventsOfAnEndedSession) }

func testEventsOfAnEndedSession(o *street) {
	t := o.T
	var mu sync.Mutex
	people := map[string]desk.Person{}
	set := func(name string, groups ...string) {
		mu.Lock()
		defer mu.Unlock()
		people[name] = desk.Person{Name: name, Groups: groups}
	}
	set("alice", "release")
	set("bob", "release")
	o.in, o.log = newInbox(t, o.store, inbox.IdentityFunc(func(r *http.Request) (desk.Person, error) {
		mu.Lock()
		defer mu.Unlock()
		return people[r.Header.Get("As")], nil
	}))
	alice, bob := o.watch("alice"), o.watch("bob")
	bob.until(t, "refresh {}")
	alice.until(t, "refresh {}")
	time.Sleep(settled)
	set("alice")
	name := o.ask("one", asked(1))
	if before := alice.until(t, "end"); slices.ContainsFunc(before, func(e string) bool { return e != "refresh {}" }) {
		t.Errorf("alice is told %q", before)
	}
	bob.until(t, fmt.Sprintf(`question {"name":%q,"key":"q"}`, name))
}

// Somebody who opens a stream and never reads it is dropped, and others do not wait for them.
func TestEventsThatNobodyReads(t *testing.T) { bubble(t, testEventsThatNobodyReads) }

func testEventsThatNobodyReads(o *street) {
	conn := o.dial()
	if _, err := fmt.Fprint(conn, "GET /events HTTP/1.1\r\nHost: x\r\nAs: mallory:release\r\n\r\n"); err != nil {
		o.Fatal(err)
	}
	bob := o.watch("bob:release")
	time.Sleep(settled)
	name := o.ask("one", asked(1))
	bob.until(o.T, fmt.Sprintf(`question {"name":%q,"key":"q"}`, name))
	time.Sleep(time.Minute)
	if text, err := io.ReadAll(conn); err != nil || strings.Contains(string(text), "question") {
		o.Errorf("the stream is not ended: %q, %v", text, err)
	}
}

// Who is told more at once than is kept for them is told to read everything.
func TestEventsAtOnce(t *testing.T) { bubble(t, testEventsAtOnce) }

func testEventsAtOnce(o *street) {
	bob := o.watch("bob:release")
	time.Sleep(settled)
	for len(bob.events) > 0 {
		<-bob.events
	}
	for i := range 300 {
		o.ask(fmt.Sprint(i), asked(1))
	}
	time.Sleep(2 * time.Second)
	bob.until(o.T, "refresh {}")
}

// A stream ends after a while, so that the proxy that signs people in sees them again.
func TestEventsEnd(t *testing.T) { bubble(t, testEventsEnd) }

func testEventsEnd(o *street) {
	bob := o.watch("bob:release")
	began := time.Now()
	bob.until(o.T, "refresh {}")
	time.Sleep(16 * time.Minute)
	bob.until(o.T, "end")
	if at := time.Since(began); at != 16*time.Minute {
		o.Errorf("it ends after %v", at)
	}
}
