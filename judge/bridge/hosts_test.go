// Package bridge judges askback bridge from outside: by hosts that can be asked nothing, in front of servers that ask.
//
//	go test ./judge/bridge         # raw clients, in front of askback serve and of examples in Go
//	go test ./judge/bridge -npm    # also what npm installs: the Inspector, server-everything, TypeScript's examples
//
// A person answers at the inbox of the bridge.
package bridge

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/test/judge"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/judge/interop/typescript"
	"github.com/askback-mcp/askback/judge/process"
)

var withNPM = flag.Bool("npm", false, "also judge with what npm installs")

// patience bounds a test. A bridge that was killed keeps its leases for ten seconds.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	// The tests wait for processes for most of their time.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "bridge-")
	if err != nil {
		panic(err)
	}
	built := sync.OnceValues(func() (string, error) { return process.Build(context.Background(), dir) })
	askback = func(t *testing.T) string { return must(built())(t) }
	code := judge.Run(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// askback returns the askback command.
var askback func(t *testing.T) string

// must returns a value, or ends the test with its error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// installed returns the Node.js and the directory of the packages that npm installs.
func installed(t *testing.T) (node, modules string) {
	t.Helper()
	if !*withNPM {
		t.Skip("it needs npm, and is run with -npm")
	}
	npm.Lock()
	defer npm.Unlock()
	dir := must(filepath.Abs("peers"))(t)
	return must(typescript.Install(dir))(t), filepath.Join(dir, "node_modules")
}

var npm sync.Mutex

// kind is a kind of host. Its open starts a bridge, and returns a host that calls it, and what kills the bridge.
type kind struct {
	name string
	open func(t *testing.T, b *rig.Bridge, flags ...string) (host rig.Host, kill func())
}

var kinds = []kind{
	{"raw over HTTP", func(t *testing.T, b *rig.Bridge, flags ...string) (rig.Host, func()) {
		p, url, err := b.Start(flags...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return must(rig.OpenSession(t.Context(), url))(t), p.Kill
	}},
	{"raw over stdio", func(t *testing.T, b *rig.Bridge, flags ...string) (rig.Host, func()) {
		host := must(rig.OpenStdio(t.Context(), b.Command(flags...), b.Log(), nil))(t)
		kill := sync.OnceFunc(host.Close)
		t.Cleanup(kill)
		return host, kill
	}},
	{"Inspector", func(t *testing.T, b *rig.Bridge, flags ...string) (rig.Host, func()) {
		node, modules := installed(t)
		p, url, err := b.Start(flags...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return &rig.Inspector{Command: []string{node, filepath.Join(modules, ".bin", "mcp-inspector")}, URL: url}, p.Kill
	}},
}

// call is a call of a tool of askback serve that asks.
type call struct {
	tool, want string
	arguments  map[string]any
	asks       int
}

var calls = []call{
	{"get_weather", "Current weather in Oslo:", map[string]any{"location": "Oslo"}, 1},
	{"update_work_item", "Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link created.",
		map[string]any{"workItemId": 4522, "fields": map[string]any{"System.State": "Resolved"}}, 2},
	{"provision_vm", "octocat is running: 2 CPUs, 1024 MiB of memory, 1 MiB of disk, network nat",
		map[string]any{"name": "octocat", "diskMiB": 1}, 1},
}

var answers = map[string]any{
	"resolution":   map[string]any{"resolution": "Duplicate"},
	"duplicate_of": map[string]any{"duplicateOfId": 4301},
}

// each runs a test for every kind of host and every call, each in front of a server of its own.
func each(t *testing.T, store func(*testing.T) string, test func(*testing.T, kind, *rig.Bridge, call)) {
	t.Parallel()
	for _, k := range kinds {
		for _, c := range calls {
			t.Run(k.name+"/"+c.tool, func(t *testing.T) {
				t.Parallel()
				if k.name == "Inspector" {
					installed(t)
				}
				dir := t.TempDir()
				server, url, err := rig.Serve(askback(t), dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(server.Kill)
				b := must(rig.NewBridge(askback(t), dir, store(t), url))(t)
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("the log of the bridge ends with\n%s", process.Tail(b.Log()))
					}
				})
				test(t, k, b, c)
			})
		}
	}
}

func sqlite(*testing.T) string { return "" }

// A host that waits gets the result itself.
func TestHostsThatWait(t *testing.T) {
	each(t, sqlite, func(t *testing.T, k kind, b *rig.Bridge, c call) {
		host, _ := k.open(t, b, "--wait", "1m")
		asked := answering(t, b, func() {})
		c.check(t, must(host.Call(t.Context(), c.tool, c.arguments))(t), asked())
	})
}

// A host that does not wait gets the result by askback_result, also if the bridge is killed after each answer, and
// started again on the same store.
func TestKilledWhileItWaits(t *testing.T) {
	each(t, sqlite, func(t *testing.T, k kind, b *rig.Bridge, c call) {
		host, kill := k.open(t, b, "--wait", "200ms")
		name := waiting(t, must(host.Call(t.Context(), c.tool, c.arguments))(t))
		kill()
		answered := make(chan struct{}, 10)
		asked := answering(t, b, func() { answered <- struct{}{} })
		for range c.asks {
			_, kill = k.open(t, b, "--wait", "200ms")
			<-answered
			kill() // perhaps while a round is with the server: then the person is asked whether to send it again
		}
		host, _ = k.open(t, b, "--wait", "200ms")
		result := fetch(t, host, name)
		c.check(t, result, min(asked(), c.asks))
	})
}

// Of two bridges on one PostgreSQL one is killed, and the other continues its call.
func TestTwoBridges(t *testing.T) {
	each(t, func(t *testing.T) string { return pgtest.DSN(t) }, func(t *testing.T, k kind, b *rig.Bridge, c call) {
		first, kill := k.open(t, b, "--wait", "200ms")
		second, _ := k.open(t, b, "--wait", "200ms")
		name := waiting(t, must(first.Call(t.Context(), c.tool, c.arguments))(t))
		kill()
		asked := answering(t, b, func() {})
		c.check(t, fetch(t, second, name), asked())
	})
}

// answering has a person answer at the inbox until the test ends, and calls then after each answer. The function that
// it returns tells how many questions were answered.
func answering(t *testing.T, b *rig.Bridge, then func()) (asked func() int) {
	t.Helper()
	store := must(rig.OpenStore(t.Context(), b.Store))(t)
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	n := 0
	person := &rig.Person{Answers: answers, Answered: func(*desk.Question) {
		mu.Lock()
		n++
		mu.Unlock()
		then()
	}}
	var done sync.WaitGroup
	done.Go(func() {
		if err := person.Answer(ctx, store); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
		store.Close()
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

var taskName = regexp.MustCompile(`askback_result with the name "([A-Z2-7]{26})"`)

// waiting returns the name of the call in the words of a result.
func waiting(t *testing.T, result json.RawMessage) string {
	t.Helper()
	m := taskName.FindStringSubmatch(text(t, result))
	if m == nil {
		t.Fatalf("the result does not say under which name the call waits: %s", result)
	}
	return m[1]
}

// fetch asks for the outcome of a call until there is one.
func fetch(t *testing.T, host rig.Host, name string) json.RawMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		result, err := host.Call(ctx, "askback_result", map[string]any{"name": name})
		if err != nil {
			t.Fatal(err)
		}
		if !taskName.MatchString(text(t, result)) {
			return result
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("after %v: %s", patience, result)
		}
	}
}

func text(t *testing.T, result json.RawMessage) string {
	t.Helper()
	var decoded rawclient.Result
	if err := json.Unmarshal(result, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded.Text()
}

// check compares the result with what the tool returns when it has its answers.
func (c *call) check(t *testing.T, result json.RawMessage, asked int) {
	t.Helper()
	var decoded rawclient.Result
	if err := json.Unmarshal(result, &decoded); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(decoded.Text(), c.want) || decoded.IsError {
		t.Errorf("the result is %s, want %q", result, c.want)
	}
	if asked != c.asks {
		t.Errorf("the person was asked %d questions, want %d", asked, c.asks)
	}
}
