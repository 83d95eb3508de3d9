// Package upgrade runs the release before this one and this one on the same store, while clients call both:
//
//	go test ./judge/upgrade            # with 2,000 parked tasks, on both stores
//	go test -v ./judge/upgrade -full   # with 200,000, and a bound for what waits for the migration
//
// A server of the release before makes the store and works on it. Servers of this release migrate it: the first ones
// are killed while they do. Then both work, and each is stopped and started again. At last this release is rolled back.
// No call may fail, no task may go wrong, no worker may lose a lease, and nothing that the release before uses may be
// gone.
package upgrade

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/judge/previous"
	"github.com/askback-mcp/askback/judge/process"
)

var full = flag.Bool("full", false,
	"200,000 parked tasks, three kills, phases of ten seconds, a bound of 500ms for statements")

func TestMain(m *testing.M) {
	// The tests wait for their servers for most of their time.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "releases-")
	if err != nil {
		panic(err)
	}
	built = sync.OnceValue(func() (r releases) {
		if r.old, r.err = previous.Build(context.Background(), dir); r.err == nil {
			r.now, r.err = process.Build(context.Background(), dir)
		}
		if r.err == nil {
			r.named, r.err = previous.BuildChanged(context.Background(), dir, named...)
		}
		return r
	})
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// releases are the commands of both releases, or the reason why they cannot be built.
type releases struct {
	old, now string
	named    string // the release before, with callers who have a name
	err      error
}

// built builds both releases for all tests.
var built func() releases

// programs returns the commands of both releases. It skips the test if this clone does not have the release before.
func programs(t *testing.T) (old, now string) {
	t.Helper()
	r := built()
	missing, ok := errors.AsType[*previous.MissingError](r.err)
	if ok && os.Getenv("ASKBACK_TEST_POSTGRES") != "required" {
		t.Skipf("%v", missing)
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.old, r.now
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	old, now := programs(t)
	for name, open := range map[string]func(*run) store{"postgres": openPostgres, "sqlite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &run{
				t: t, dir: t.TempDir(), servers: make(map[string]*server), slowest: make(map[string]time.Duration),
				// Statements may wait for as long as a busy machine makes them: the test of the store bounds that.
				tasks: 2000, wait: time.Minute, kills: 1, phaseTakes: time.Second,
			}
			if *full {
				r.tasks, r.wait, r.kills, r.phaseTakes = 200_000, 500*time.Millisecond, 3, 10*time.Second
			}
			r.store = open(r)
			r.upgrade(old, now)
		})
	}
}

// run is one run, with its servers by their names.
type run struct {
	t     *testing.T
	dir   string
	store store
	flags []string // of each server, beside those that all have
	user  string   // the caller of the servers of this release; empty is anonymous, as in the release before

	tasks      int           // that are parked in the store before it is migrated
	wait       time.Duration // how long a statement may wait for the migration
	kills      int           // servers of this release that are killed while they migrate
	phaseTakes time.Duration

	mu           sync.Mutex
	servers      map[string]*server
	phase        string
	slowest      map[string]time.Duration // call, by phase
	calls, ended int
}

type server struct {
	*child.Process
	url string
}

func (r *run) upgrade(old, now string) {
	if err := process.NewKeys(filepath.Join(r.dir, "keys")); err != nil {
		r.t.Fatal(err)
	}
	defer r.killAll()
	r.start("old", old)
	r.store.fill(r.tasks)
	finish := r.load()
	defer finish()

	work := func(phase string, do func()) {
		r.mu.Lock()
		r.phase = phase
		r.mu.Unlock()
		if do(); r.t.Failed() {
			r.t.FailNow()
		}
		time.Sleep(r.phaseTakes)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.t.Logf("%s: the slowest call took %v", phase, r.slowest[phase].Round(time.Millisecond))
	}
	work("the release before, alone", func() {})
	begun := time.Now()
	longest := r.store.watch()
	for n := range r.kills {
		after := time.Duration(n+1) * 150 * time.Millisecond
		work(fmt.Sprintf("a server of this release is killed %v after it began", after), func() {
			p, err := process.Start(r.command(now), filepath.Join(r.dir, "killed.log"))
			if err != nil {
				r.t.Fatal(err)
			}
			time.Sleep(after)
			p.Kill()
		})
	}
	work("this release migrates", func() { r.start("new", now) })
	r.store.migrated()
	took, waited := time.Since(begun), longest()
	work("the release before starts again", func() { r.stop("old"); r.start("old", old) })
	work("this release starts again", func() { r.stop("new"); r.start("new", now) })
	work("this release is rolled back", func() { r.stop("new") })
	finish()
	r.t.Logf("%d parked tasks were migrated in %v beside both releases; a statement waited %v at the most; "+
		"%d tasks ended as they should, with %d calls", r.tasks, took, waited, r.ended, r.calls)
	if waited > r.wait {
		r.t.Errorf("a statement waited %v for the migration, want at most %v", waited, r.wait)
	}
	if r.ended == 0 {
		r.t.Error("no task has ended")
	}
	r.store.check()
	r.checkLogs()
}

// command returns the command of a server.
func (r *run) command(program string) *exec.Cmd {
	args := append([]string{"serve", "--addr", "127.0.0.1:0", "--pace", "200ms",
		"--keys", filepath.Join(r.dir, "keys"), "--data", filepath.Join(r.dir, "data"), "--store", r.store.url()},
		r.flags...)
	if program == built().now {
		args = append(args, "--user", r.user)
	}
	return exec.CommandContext(r.t.Context(), program, args...)
}

// start starts a server and waits until it serves.
func (r *run) start(name, program string) {
	p, line, err := process.StartReady(r.command(program), filepath.Join(r.dir, name+".log"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers[name] = &server{p, line[strings.Index(line, "http://"):]}
}

// stop stops a server as an operator does. Requests go to the others from then on.
func (r *run) stop(name string) {
	r.mu.Lock()
	s := r.servers[name]
	delete(r.servers, name)
	r.mu.Unlock()
	if err := process.Stop(s.Process); err != nil {
		r.t.Error(err)
	}
}

func (r *run) killAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.servers {
		s.Kill()
	}
}

// checkLogs looks for what servers log when they lose a lease or cannot write.
func (r *run) checkLogs() {
	for _, name := range []string{"old", "new"} {
		log, err := os.ReadFile(filepath.Join(r.dir, name+".log"))
		if err != nil {
			r.t.Error(err)
		}
		for line := range strings.Lines(string(log)) {
			for _, bad := range []string{
				"lease is lost", "renewing a lease failed", "claiming failed", "a write failed", "was not stored",
			} {
				if strings.Contains(line, bad) {
					r.t.Errorf("the log of %s: %s", name, line)
				}
			}
		}
	}
}
