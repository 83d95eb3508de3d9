// Upgrade runs the release before this one and this one on the same store, while clients call both:
//
//	go run ./judge/chaos/upgrade -tasks 200000
//
// A server of the release before makes the store and works on it. Servers of this release migrate it: the first ones
// are killed while they do. Then both work, and each is stopped and started again. At last this release is rolled back.
// No call may fail, no task may go wrong, no worker may lose a lease, nothing that the release before uses may be gone,
// and no statement may wait for the migration for longer than -wait.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// before is the commit of the release before this one.
const before = "17e539f13d514494605d71abbb33c59f5f62f343"

type options struct {
	store string        // postgres or sqlite
	tasks int           // are parked in the store before it is migrated
	from  string        // the commit of the release before
	wait  time.Duration // how long a statement may wait for the migration
	kills int           // servers of this release that are killed while they migrate
	phase time.Duration // how long each phase takes

	old, now string // the commands of both releases, if they have been built
	dsn      string // of an empty database; without it a PostgreSQL is started
}

func main() {
	var o options
	flag.StringVar(&o.store, "store", "postgres", "`STORE` of the tasks: postgres or sqlite")
	flag.IntVar(&o.tasks, "tasks", 200_000, "`NUMBER` of parked tasks in the store")
	flag.StringVar(&o.from, "from", before, "`COMMIT` of the release before")
	flag.DurationVar(&o.wait, "wait", 500*time.Millisecond, "`TIME` that a statement may wait for the migration")
	flag.IntVar(&o.kills, "kills", 3, "`NUMBER` of servers that are killed while they migrate")
	flag.DurationVar(&o.phase, "phase", 10*time.Second, "`TIME` of each phase")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	r, err := run(ctx, o)
	stop()
	if r != nil {
		fmt.Print(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
	if len(r.wrong) > 0 {
		os.Exit(1)
	}
}

// report is what a run has found.
type report struct {
	options
	calls     int
	ended     int
	slowest   map[string]time.Duration // call, by phase
	waited    time.Duration            // the longest wait of a statement for the migration
	migration time.Duration            // until the last row was filled
	wrong     []string
	phases    []string
}

func (r *report) fail(format string, args ...any) {
	if len(r.wrong) < 20 {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d parked tasks: the migration took %v beside both releases\n",
		r.store, r.tasks, r.migration.Round(10*time.Millisecond))
	fmt.Fprintf(&b, "%d tasks ended as they should, with %d calls; the slowest:\n", r.ended, r.calls)
	for _, phase := range r.phases {
		fmt.Fprintf(&b, "  %v  %s\n", r.slowest[phase].Round(time.Millisecond), phase)
	}
	if r.store == "postgres" {
		fmt.Fprintf(&b, "the longest that a statement waited for the migration: %v\n", r.waited.Round(time.Millisecond))
	}
	for _, w := range r.wrong {
		fmt.Fprintln(&b, "WRONG:", w)
	}
	return b.String()
}

// run makes one run. The error says why it could not be made.
func run(ctx context.Context, o options) (r *report, err error) {
	dir, err := os.MkdirTemp("", "upgrade-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.old == "" {
		if o.old, o.now, err = build(ctx, dir, o.from); err != nil {
			return nil, err
		}
	}
	old, now := o.old, o.now
	s, err := openStore(o, dir)
	if err != nil {
		return nil, err
	}
	defer s.close()

	r = &report{options: o, slowest: make(map[string]time.Duration)}
	f := &fleet{dir: dir, store: s.url, ctx: ctx}
	defer f.killAll()
	defer f.checkLogs(r)
	if err := f.start("old", old); err != nil {
		return r, err
	}
	if err := s.fill(ctx, o.tasks); err != nil {
		return nil, fmt.Errorf("fill the store: %w", err)
	}
	l := newLoad(ctx, f, r)
	defer l.stop()
	work := func(phase string, do func() error) error {
		l.begin(phase)
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		return l.work(o.phase)
	}
	nothing := func() error { return nil }

	if err := work("the release before, alone", nothing); err != nil {
		return r, err
	}
	begun := time.Now()
	watched := s.watch(ctx)
	for n := range o.kills {
		after := time.Duration(n+1) * killAfter
		err := work(fmt.Sprintf("a server of this release is killed %v after it began", after), func() error {
			return f.startAndKill(now, after)
		})
		if err != nil {
			return r, err
		}
	}
	err = work("this release migrates", func() error { return f.start("new", now) })
	if err != nil {
		return r, err
	}
	if err := s.migrated(ctx); err != nil {
		return r, err
	}
	r.migration, r.waited = time.Since(begun), watched()
	for _, again := range []struct{ phase, name, program string }{
		{"the release before starts again", "old", old},
		{"this release starts again", "new", now},
	} {
		err := work(again.phase, func() error {
			if err := f.stop(again.name); err != nil {
				return err
			}
			return f.start(again.name, again.program)
		})
		if err != nil {
			return r, err
		}
	}
	if err := work("this release is rolled back", func() error { return f.stop("new") }); err != nil {
		return r, err
	}
	l.finish()
	if r.waited > o.wait {
		r.fail("a statement waited %v for the migration", r.waited)
	}
	s.check(ctx, r)
	return r, nil
}

// killAfter is how much later each next server is killed after it began.
const killAfter = 150 * time.Millisecond

// build builds the command of both releases. The source of the previous release comes from the repository's history.
func build(ctx context.Context, dir, commit string) (old, now string, err error) {
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", "", fmt.Errorf("find the repository: %w", err)
	}
	here, there := strings.TrimSpace(string(root)), filepath.Join(dir, "before")
	if err := os.Mkdir(there, 0o700); err != nil {
		return "", "", err
	}
	archive := there + ".tar"
	out, err := exec.CommandContext(ctx, "git", "-C", here, "archive", "-o", archive, commit).CombinedOutput()
	if err != nil {
		return "", "", &missingError{fmt.Sprintf("the release before, commit %.7s, is not in this clone: "+
			"fetch its history with git fetch --unshallow: %s", commit, out)}
	}
	if out, err = exec.CommandContext(ctx, "tar", "-xf", archive, "-C", there).CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("unpack the release before: %w: %s", err, out)
	}
	programs := make([]string, 2)
	for i, tree := range []string{there, here} {
		programs[i] = filepath.Join(dir, fmt.Sprint("askback", i))
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", programs[i], "./cmd/askback")
		cmd.Dir, cmd.Env = tree, append(os.Environ(), "GOWORK="+filepath.Join(tree, "go.work"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("build the command in %s: %w: %s", tree, err, out)
		}
	}
	return programs[0], programs[1], nil
}

// missingError says that this clone has no release before.
type missingError struct{ reason string }

func (e *missingError) Error() string { return e.reason }
