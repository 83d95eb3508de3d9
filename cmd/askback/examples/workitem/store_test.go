package workitem

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
)

func by(step string) Write { return Write{Step: step, By: "ada", At: noon} }

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// both runs a test on a store in memory and on one in a file.
func both(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Run("memory", func(t *testing.T) { test(t, open(t, "")) })
	t.Run("file", func(t *testing.T) { test(t, open(t, filepath.Join(t.TempDir(), "items.db"))) })
}

func TestBundledItemsObeyTheProcess(t *testing.T) {
	var items []Item
	if err := json.Unmarshal(itemsJSON, &items); err != nil {
		t.Fatal(err)
	}
	types := make(map[string]int)
	for _, item := range items {
		types[item.Type]++
		if err := bundledProcess().check(item.Fields); err != nil {
			t.Errorf("%s: %v", item, err)
		}
		if item.Fields["System.Title"] == "" || item.Fields["System.State"] == "" {
			t.Errorf("%s has no title or no state", item)
		}
	}
	if len(items) < 12 || len(types) < 4 {
		t.Errorf("%d items of %d types are not varied", len(items), len(types))
	}
}

func TestAFreshStoreHoldsTheBundledItems(t *testing.T) {
	both(t, func(t *testing.T, s *Store) {
		got, err := s.Item(ctx, 4522)
		if err != nil {
			t.Fatal(err)
		}
		want := Item{ID: 4522, Type: "Bug", Fields: map[string]string{
			"System.Title":                   "Exporting the yearly report never finishes",
			"System.State":                   "Active",
			"System.AssignedTo":              "Ada Lovelace",
			"Microsoft.VSTS.Common.Priority": "2",
			"Microsoft.VSTS.Common.Severity": "2 - High",
			"System.Tags":                    "export",
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("item (-want +got):\n%s", diff)
		}
		if original, err := s.Item(ctx, 4301); err != nil || original.String() != "Bug #4301" {
			t.Errorf("got %v, %v; want Bug #4301", original, err)
		}
	})
}

func TestAMissingItemIsAnsweredWithWhatIsNear(t *testing.T) {
	both(t, func(t *testing.T, s *Store) {
		for id, want := range map[int]string{
			9999:            "work item #9999 does not exist; the nearest are Issue #4540, Bug #4523, Bug #4522",
			4521:            "work item #4521 does not exist; the nearest are Bug #4522, Bug #4523, Task #4515",
			0:               "work item #0 does not exist; the nearest are Bug #4301, Bug #4302, User Story #4310",
			-1 << 63:        "work item #-9223372036854775808 does not exist; the nearest are ",
			1<<63 - 1:       "work item #9223372036854775807 does not exist; the nearest are ",
			-(1<<63 - 4522): "work item #-9223372036854771286 does not exist; the nearest are ",
		} {
			_, err := s.Item(ctx, id)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("Item(%d):\n got %v\nwant %s", id, err, want)
			}
		}
	})
}

func TestTheOriginalOfADuplicate(t *testing.T) {
	s := open(t, "")
	bug := Item{ID: 4522, Type: "Bug"}
	for _, tt := range []struct {
		number float64
		want   string
	}{
		{4301, ""},
		{4301.5, "4301.5 is not the id of a work item: an id is a positive whole number"},
		{0, "0 is not the id of a work item: an id is a positive whole number"},
		{-4301, "-4301 is not the id of a work item: an id is a positive whole number"},
		{1e300, "1e+300 is not the id of a work item: an id is a positive whole number"},
		{4522, "Bug #4522 cannot be a duplicate of itself"},
		{4300, "work item #4300 does not exist; the nearest are Bug #4301, Bug #4302, User Story #4310"},
	} {
		original, err := s.original(ctx, bug, tt.number)
		switch {
		case tt.want == "" && (err != nil || original.ID != int(tt.number)):
			t.Errorf("original(%v) = %v, %v", tt.number, original, err)
		case tt.want != "" && (err == nil || err.Error() != tt.want):
			t.Errorf("original(%v):\n got %v\nwant %s", tt.number, err, tt.want)
		}
	}
}

func TestAnUpdateChangesFieldsAndTellsWho(t *testing.T) {
	both(t, func(t *testing.T, s *Store) {
		err := s.Update(ctx, by("a"), 4522, map[string]string{
			"System.State":      "Resolved", // changed
			"Custom.Resolution": "Fixed",    // new
			"System.AssignedTo": "",         // cleared
			"System.Tags":       "export",   // as before
		})
		if err != nil {
			t.Fatal(err)
		}
		item, err := s.Item(ctx, 4522)
		if err != nil {
			t.Fatal(err)
		}
		if _, assigned := item.Fields["System.AssignedTo"]; assigned || item.Fields["System.State"] != "Resolved" ||
			item.Fields["Custom.Resolution"] != "Fixed" {
			t.Errorf("fields after the update: %v", item.Fields)
		}
		got, err := s.History(ctx, 4522)
		if err != nil {
			t.Fatal(err)
		}
		want := []Entry{
			{Field: "Custom.Resolution", From: "", To: "Fixed", By: "ada", At: noon},
			{Field: "System.AssignedTo", From: "Ada Lovelace", To: "", By: "ada", At: noon},
			{Field: "System.State", From: "Active", To: "Resolved", By: "ada", At: noon},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}

func TestARepeatedStepHasNoEffect(t *testing.T) {
	both(t, func(t *testing.T, s *Store) {
		resolve := map[string]string{"System.State": "Resolved"}
		for _, update := range []struct {
			step   string
			fields map[string]string
		}{
			{"call-1", resolve},
			{"call-2", map[string]string{"System.State": "Active"}}, // by somebody else
			{"call-1", resolve},
		} {
			if err := s.Update(ctx, by(update.step), 4522, update.fields); err != nil {
				t.Fatal(err)
			}
		}
		item, err := s.Item(ctx, 4522)
		if err != nil || item.Fields["System.State"] != "Active" {
			t.Errorf("the repetition undid what came after the first: %v, %v", item.Fields, err)
		}
		if history, err := s.History(ctx, 4522); err != nil || len(history) != 2 {
			t.Errorf("history %v, %v; want the two changes", history, err)
		}
	})
}

func TestAStepCannotStandForTwoChanges(t *testing.T) {
	both(t, func(t *testing.T, s *Store) {
		if err := s.Update(ctx, by("call-1"), 4522, map[string]string{"Custom.Resolution": "Fixed"}); err != nil {
			t.Fatal(err)
		}
		const taken = "already done with other values"
		err := s.Update(ctx, by("call-1"), 4522, map[string]string{"Custom.Resolution": "By Design"})
		if err == nil || !strings.Contains(err.Error(), taken) {
			t.Errorf("other fields: %v, want that the step was %s", err, taken)
		}
		err = s.Update(ctx, by("call-1"), 4301, map[string]string{"Custom.Resolution": "Fixed"})
		if err == nil || !strings.Contains(err.Error(), taken) {
			t.Errorf("another item: %v, want that the step was %s", err, taken)
		}
		if err := s.Update(ctx, by(""), 4522, map[string]string{"Custom.Resolution": "Fixed"}); err == nil {
			t.Error("a write without a step is accepted")
		}
	})
}

func TestALinkIsUnique(t *testing.T) {
	both(t, func(t *testing.T, s *Store) {
		for _, step := range []string{"call-1", "call-1", "call-2"} { // the last lost its step's name
			if err := s.CreateLink(ctx, by(step), 4522, duplicateOf, 4301); err != nil {
				t.Error(err)
			}
		}
		if got, want := links(t, s), "4522 Duplicate Of 4301"; got != want {
			t.Errorf("links %q, want %q", got, want)
		}
		history, err := s.History(ctx, 4522)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Entry{{Field: duplicateOf, To: "4301", By: "ada", At: noon}}, history); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}

// links are all links in a store.
func links(t *testing.T, s *Store) (all string) {
	t.Helper()
	err := s.db.QueryRow(`SELECT group_concat(format('%d %s %d', source, kind, target), '; ') FROM ` +
		`work_item_links`).Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAFailedWriteLeavesNothingBehind(t *testing.T) {
	both(t, func(t *testing.T, s *Store) {
		if err := s.Update(ctx, by("a"), 9999, map[string]string{"System.State": "Closed"}); err == nil {
			t.Error("an item that does not exist was updated")
		}
		for _, target := range []int{9999, 4522} {
			if err := s.CreateLink(ctx, by("b"), 4522, duplicateOf, target); err == nil {
				t.Errorf("a link from #4522 to #%d was created", target)
			}
		}
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		if err := s.Update(cancelled, by("c"), 4522, map[string]string{"System.State": "Closed"}); !errors.Is(err,
			context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		var steps, entries int
		err := s.db.QueryRow(`SELECT (SELECT count(*) FROM work_item_steps), (SELECT count(*) FROM `+
			`work_item_history)`).Scan(&steps, &entries)
		if err != nil || steps != 0 || entries != 0 {
			t.Errorf("%d steps and %d entries remain (%v)", steps, entries, err)
		}
	})
}

func TestAFileIsSeededOnlyWhenNew(t *testing.T) {
	// A path may hold what a URI gives a meaning to.
	path := filepath.Join(t.TempDir(), "what? 100%#items&x=1.db")
	s := open(t, path)
	if err := s.Update(ctx, by("a"), 4522, map[string]string{"System.State": "Closed"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	item, err := open(t, path).Item(ctx, 4522)
	if err != nil || item.Fields["System.State"] != "Closed" {
		t.Errorf("reopened: %v, %v", item, err)
	}
}

func TestOpenWaitsForWhoeverIsWritingTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "items.db")
	other, err := sql.Open("sqlite", path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()

	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := Open(brief, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the other writes: %v, want to have waited until the deadline", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, path).Item(ctx, 4522); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestStoresInMemoryAreApart(t *testing.T) {
	a, b := open(t, ""), open(t, ":memory:")
	if err := a.Update(ctx, by("a"), 4522, map[string]string{"System.State": "Closed"}); err != nil {
		t.Fatal(err)
	}
	item, err := b.Item(ctx, 4522)
	if err != nil || item.Fields["System.State"] != "Active" {
		t.Errorf("the other store: %v, %v", item, err)
	}
}

func TestAPathThatCannotBeOpenedIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no", "such", "directory.db")
	if _, err := Open(ctx, path); err == nil || !strings.Contains(err.Error(), "directory.db") {
		t.Errorf("Open: %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	both(t, func(t *testing.T, s *Store) {
		const workers, rounds = 8, 20
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for r := range rounds {
					// Every worker attempts the same steps, as instances that race to finish one call would.
					step := fmt.Sprint("call-", r)
					if err := s.Update(ctx, by(step+"/update"), 4522, map[string]string{"System.Tags": step}); err != nil {
						t.Error(err)
					}
					if err := s.CreateLink(ctx, by(step+"/link"), 4522, duplicateOf, 4301); err != nil {
						t.Error(err)
					}
					if _, err := s.Item(ctx, 4522); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		history, err := s.History(ctx, 4522)
		if err != nil {
			t.Fatal(err)
		}
		times := make(map[string]int)
		for _, e := range history {
			times[e.Field]++
		}
		if diff := cmp.Diff(map[string]int{duplicateOf: 1, "System.Tags": rounds}, times); diff != "" {
			t.Errorf("changes by field (-want +got):\n%s", diff)
		}
	})
}

// TestMain lets the test binary stand for another process that opens the same file: told so by the environment, it
// says that it is ready, waits for its input to end, opens the store, and makes one change.
func TestMain(m *testing.M) {
	path := os.Getenv("WORKITEM_TEST_OPEN")
	if path == "" {
		os.Exit(m.Run())
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadByte()
	if err := openAndChange(path); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func openAndChange(path string) error {
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	err = s.Update(ctx, by(fmt.Sprint("process-", os.Getpid())), 4522,
		map[string]string{"System.Tags": fmt.Sprint(os.Getpid())})
	return errors.Join(err, s.Close())
}

func TestProcessesThatOpenANewFileAtOnceSeedItOnce(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		const processes = 6
		path := filepath.Join(t.TempDir(), "items.db")
		var starts []func() error
		var wait []func() error
		for range processes {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), "WORKITEM_TEST_OPEN="+path)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			if !lines.Scan() || lines.Text() != "ready" {
				t.Fatalf("a process says %q, not that it is ready", lines.Text())
			}
			starts = append(starts, in.Close)
			wait = append(wait, func() error {
				var said []string
				for lines.Scan() {
					said = append(said, lines.Text())
				}
				if err := cmd.Wait(); err != nil {
					return fmt.Errorf("%w: %s", err, strings.Join(said, "\n"))
				}
				return nil
			})
		}
		for _, start := range starts {
			if err := start(); err != nil {
				t.Fatal(err)
			}
		}
		for _, wait := range wait {
			if err := wait(); err != nil {
				t.Error(err)
			}
		}

		var bundled []Item
		if err := json.Unmarshal(itemsJSON, &bundled); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		var items int
		var mode string
		if err := s.db.QueryRow(`SELECT count(*) FROM work_items`).Scan(&items); err != nil || items != len(bundled) {
			t.Errorf("%d items, %v; want %d", items, err, len(bundled))
		}
		if err := s.db.QueryRow(`PRAGMA journal_mode`).Scan(&mode); err != nil || mode != "wal" {
			t.Errorf("journal mode %q, %v; want wal", mode, err)
		}
		if history, err := s.History(ctx, 4522); err != nil || len(history) != processes {
			t.Errorf("%d changes survive, %v; want %d", len(history), err, processes)
		}
	}
}
