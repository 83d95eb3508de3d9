package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// crashFile, if set, turns the test binary into a process that writes until it is killed, and crashWrites names what it
// writes.
const (
	crashFile   = "ASKBACK_TEST_CRASH_FILE"
	crashWrites = "ASKBACK_TEST_CRASH_WRITES"
)

var crashKills = flag.Int("kills", 20, "how many processes each test of killed processes kills")

// endedByItself is how such a process exits if it was not killed.
const endedByItself = 3

// mostChecked is how many of the acknowledged writes are looked for after a kill.
const mostChecked = 500

// unkilled is how long such a process lives if nobody kills it. On a slow disk the checks between two kills take long.
const unkilled = 10 * time.Minute

func TestMain(m *testing.M) {
	if path := os.Getenv(crashFile); path != "" {
		write := writeUntilKilled
		if os.Getenv(crashWrites) == "votes" {
			write = voteUntilKilled
		}
		fmt.Fprintln(os.Stderr, write(path))
		os.Exit(endedByItself)
	}
	// Most of the tests wait more than they compute. A -parallel on the command line counts nevertheless.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// writeUntilKilled prints a line for each thing done, once the store has said that it is.
func writeUntilKilled(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), unkilled)
	defer cancel()
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	for {
		t := &task.Task{ID: rand.Text(), Principal: rand.Text()[:1], Status: task.Working}
		if err := s.Create(ctx, t, time.Hour, 0, []byte("call"), [][]byte{[]byte("created")}, task.Quota{}); err != nil {
			return err
		}
		fmt.Println("created", t.ID, 0)
		if t, err = claimOne(s, ctx, t.Principal, nil, time.Hour); err != nil || t == nil {
			return fmt.Errorf("claimed %v: %w", t, err)
		}
		fmt.Println("claimed", t.ID, t.Fence)
		_, entries, err := s.Journal(ctx, t.ID, -1)
		if err != nil {
			return err
		}
		if err := s.Append(ctx, t.ID, t.Claim, len(entries), fmt.Appendf(nil, "appended %d", t.Fence)); err != nil {
			return err
		}
		fmt.Println("appended", t.ID, t.Fence)
		padding := bytes.Repeat([]byte("."), mathrand.IntN(20_000))
		if err := s.Update(ctx, t, task.Update{Leased: true, Due: -1 + time.Duration(mathrand.IntN(2)), Entries: [][]byte{
			fmt.Appendf(nil, "updated %d %s", t.Version+1, padding), fmt.Appendf(nil, "updated %d", t.Version+1),
		}}); err != nil {
			return err
		}
		fmt.Println("updated", t.ID, t.Version)
	}
}

// What the store has acknowledged is there after its process was killed, and of what it
// has not, all or nothing, while another process goes on.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	check := func(acknowledged []string) {
		t.Helper()
		s := open(t, path)
		defer s.Close()
		if got := query[string](t, s.conn, "PRAGMA integrity_check"); got != "ok" {
			t.Fatalf("integrity_check: %s", got)
		}
		if n := query[int](t, s.conn, "SELECT count(*) FROM journal WHERE task NOT IN (SELECT seq FROM task)"); n != 0 {
			t.Fatalf("%d entries have no task", n)
		}
		// In memory a process writes more than can be read before the next kill: what came last is the most at risk.
		for _, line := range acknowledged[max(0, len(acknowledged)-mostChecked):] {
			var what, id string
			var number int64
			if _, err := fmt.Sscan(line, &what, &id, &number); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			tk, err := s.Get(t.Context(), id)
			if err != nil {
				t.Fatalf("%s, but: %v", line, err)
			}
			_, entries, err := s.Journal(t.Context(), id, -1)
			if err != nil || len(entries) == 0 || string(entries[0]) != "created" {
				t.Fatalf("%s, but the journal has %d entries: %v", line, len(entries), err)
			}
			has, updates := false, int64(0)
			for _, e := range entries {
				has = has || string(e) == fmt.Sprintf("%s %d", what, number)
				if strings.HasPrefix(string(e), "updated ") {
					updates++
				}
			}
			if (what == "appended" || what == "updated") && !has {
				t.Errorf("%s, but the journal does not show it", line)
			}
			if what == "claimed" && tk.Fence < number || what == "updated" && tk.Version < number {
				t.Errorf("%s, but Fence is %d and Version %d", line, tk.Fence, tk.Version)
			}
			// The other process may have updated it since it was read.
			if again, err := s.Get(t.Context(), id); err != nil || again.Version == tk.Version && updates != 2*tk.Version {
				t.Errorf("%d entries came with %d updates, want two with each", updates, tk.Version)
			}
		}
	}

	killProcesses(t, path, "tasks", func(lines <-chan string) string {
		line := <-lines // it shows that the process has begun
		time.Sleep(mathrand.N(40 * time.Millisecond))
		return line
	}, check)
}

// killProcesses lets two processes write, and kills them in turns, each when wait has read a line and returned. It
// calls check with the lines of each process that was killed, and with all lines at the end.
func killProcesses(
	t *testing.T, path, writes string, wait func(lines <-chan string) string, check func(acknowledged []string),
) {
	kills := *crashKills
	if testing.Short() {
		kills = min(kills, 4)
	}
	type child struct {
		process *exec.Cmd
		lines   chan string
	}
	start := func() child {
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), crashFile+"="+path, crashWrites+"="+writes)
		process.Stderr = os.Stderr
		out, err := process.StdoutPipe()
		expect.Check(t, err)
		expect.Check(t, process.Start())
		c := child{process, make(chan string, 1_000_000)}
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				c.lines <- lines.Text()
			}
			close(c.lines)
		}()
		return c
	}
	var acknowledged []string
	kill := func(c child) {
		line := wait(c.lines)
		if line == "" {
			t.Fatal("the process ended by itself")
		}
		acknowledged = append(acknowledged, line)
		c.process.Process.Kill()
		for line := range c.lines {
			acknowledged = append(acknowledged, line)
		}
		if c.process.Wait(); c.process.ProcessState.ExitCode() == endedByItself {
			t.Fatal("the process ended by itself")
		}
	}
	children := []child{start(), start()}
	for i := range kills {
		before := len(acknowledged)
		kill(children[i%2])
		check(acknowledged[before:])
		children[i%2] = start()
	}
	for _, c := range children {
		kill(c)
	}
	check(acknowledged)
	t.Logf("%d writes were acknowledged between %d kills", len(acknowledged), kills+len(children))
}
