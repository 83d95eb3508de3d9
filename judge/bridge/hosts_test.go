// Package bridge judges askback bridge between hosts and servers that others wrote.
//
//	cd judge && go test ./bridge       # servers in Go
//	cd judge && go test ./bridge -npm  # also what npm installs: the Inspector, server-everything, TypeScript's examples
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

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/judge"
	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/judge/interop/typescript"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task/sqlite"
)

var withNPM = flag.Bool("npm", false, "also judge with what npm installs")

// patience bounds a test.
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
	askback = func(t *testing.T) string { return expect.Must(built())(t) }
	code := judge.Run(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// askback returns the askback command.
var askback func(t *testing.T) string

// installed returns the Node.js and the directory of the packages that npm installs.
func installed(t *testing.T) (node, modules string) {
	t.Helper()
	if !*withNPM {
		t.Skip("it needs npm, and is run with -npm")
	}
	npm.Lock()
	defer npm.Unlock()
	dir := expect.Must(filepath.Abs("peers"))(t)
	return expect.Must(typescript.Install(dir))(t), filepath.Join(dir, "node_modules")
}

var npm sync.Mutex

// call is a call of a tool of askback serve that asks.
type call struct {
	tool, want string
	arguments  map[string]any
}

var calls = []call{
	{"get_weather", "Current weather in Oslo:", map[string]any{"location": "Oslo"}},
	{"update_work_item", "Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link created.",
		map[string]any{"workItemId": 4522, "fields": map[string]any{"System.State": "Resolved"}}},
	{"provision_vm", "octocat is running: 2 CPUs, 1024 MiB of memory, 1 MiB of disk, network nat",
		map[string]any{"name": "octocat", "diskMiB": 1}},
}

var answers = map[string]any{
	"resolution":   map[string]any{"resolution": "Duplicate"},
	"duplicate_of": map[string]any{"duplicateOfId": 4301},
}

// The command line of the Inspector can be asked nothing. It gets the result itself, or by askback_result if the bridge
// does not wait for the answers.
func TestInspector(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"1m", "200ms"} {
		for _, c := range calls {
			t.Run(c.tool+" "+wait, func(t *testing.T) {
				t.Parallel()
				node, modules := installed(t)
				dir := t.TempDir()
				b := expect.Must(rig.NewBridge(askback(t), dir, askback(t), "serve", "--stdio", "--data", dir))(t)
				p := expect.Must(b.Start("--wait", wait))(t)
				t.Cleanup(func() { expect.Check(t, process.Stop(p.Process)) }) // and the server behind it
				host := rig.Inspector([]string{node, filepath.Join(modules, ".bin", "mcp-inspector")}, p.URL)
				if wait == "1m" {
					answering(t, b)
				}
				result := expect.Must(host(t.Context(), c.tool, c.arguments))(t)
				if wait != "1m" {
					name := waiting(t, result)
					answering(t, b)
					result = fetch(t, host, name)
				}
				if got := text(t, result); !strings.Contains(got, c.want) {
					t.Errorf("the result is %s, want %q", result, c.want)
				}
			})
		}
	}
}

// answering has a person answer until the test ends.
func answering(t *testing.T, b *rig.Bridge) {
	t.Helper()
	store := expect.Must(sqlite.Open(t.Context(), b.Store))(t)
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := rig.Answer(ctx, store, answers); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
		store.Close()
	})
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
		result, err := host(ctx, "askback_result", map[string]any{"name": name})
		expect.Check(t, err)
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
	expect.Check(t, json.Unmarshal(result, &decoded))
	return decoded.Text()
}
