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

	"github.com/askback-mcp/askback/task"
)

// crashFile, if set, turns the test binary into a process that writes until it is killed.
const crashFile = "ASKBACK_TEST_CRASH_FILE"

// endedByItself is how such a process exits if it was not killed.
const endedByItself = 3

func TestMain(m *testing.M) {
	if path := os.Getenv(crashFile); path != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(path))
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
	// Should nobody kill it, it ends.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
		_, entries, err := s.Journal(ctx, t.ID)
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
	kills := 20
	if testing.Short() {
		kills = 4
	}
	path := filepath.Join(t.TempDir(), "tasks.db")
	type child struct {
		process *exec.Cmd
		lines   chan string
	}
	start := func() child {
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), crashFile+"="+path)
		process.Stderr = os.Stderr
		out, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
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
		// The first line shows that it has begun.
		line, ok := <-c.lines
		if !ok {
			t.Fatal("the process ended by itself")
		}
		acknowledged = append(acknowledged, line)
		time.Sleep(mathrand.N(40 * time.Millisecond))
		c.process.Process.Kill()
		for line := range c.lines {
			acknowledged = append(acknowledged, line)
		}
		if c.process.Wait(); c.process.ProcessState.ExitCode() == endedByItself {
			t.Fatal("the process ended by itself")
		}
	}
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
		for _, line := range acknowledged {
			var what, id string
			var number int64
			if _, err := fmt.Sscan(line, &what, &id, &number); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			tk, err := s.Get(t.Context(), id)
			if err != nil {
				t.Fatalf("%s, but: %v", line, err)
			}
			_, entries, err := s.Journal(t.Context(), id)
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
