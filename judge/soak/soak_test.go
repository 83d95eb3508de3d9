package main

import (
	"bytes"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/judge"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task"
)

// The server and the attacker are this program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "-serve" || os.Args[1] == "-attack") {
		main()
		return
	}
	os.Exit(judge.Run(m))
}

// local is a subject in this process.
func local(t *testing.T) *process.Server {
	srv := expect.Must(newServer(new(task.MemoryStore)))(t)
	web := httptest.NewServer(process.WithUsage(srv.HTTPHandler(nil)))
	t.Cleanup(web.CloseClientConnections)
	go func() {
		if err := srv.RunTasks(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	return &process.Server{URL: web.URL}
}

// Each kind of load does what it is to do.
func TestMixedLoad(t *testing.T) {
	for _, k := range mixedLoad() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(local(t), "alice")
			defer c.close()
			for range 3 {
				expect.Check(t, k.once(c, t.Context()))
			}
		})
	}
}

func TestGrowthIsFound(t *testing.T) {
	level := sample{rss: 100 << 20, heap: 50 << 20, goroutines: 100, descriptors: 50}
	for name, test := range map[string]struct {
		change func(i int, s *sample)
		want   string
	}{
		"nothing":                     {func(int, *sample) {}, ""},
		"noise":                       {func(i int, s *sample) { s.heap += int64(i%3) << 20; s.goroutines += i % 7 }, ""},
		"a single peak":               {func(i int, s *sample) { s.rss += int64(i/59) << 30 }, ""},
		"growth only in the warm-up":  {func(i int, s *sample) { s.goroutines += 100 * min(i, 11) }, ""},
		"resident memory that grows":  {func(i int, s *sample) { s.rss += int64(i) << 20 }, "resident memory"},
		"a heap that grows":           {func(i int, s *sample) { s.heap += int64(i) << 19 }, "the heap"},
		"goroutines that are left":    {func(i int, s *sample) { s.goroutines += 2 * i }, "goroutines"},
		"descriptors that are left":   {func(i int, s *sample) { s.descriptors += 2 * i }, "descriptors"},
		"goroutines that become less": {func(i int, s *sample) { s.goroutines -= i }, ""},
	} {
		samples := make([]sample, 60)
		for i := range samples {
			samples[i] = level
			samples[i].at = time.Duration(i+1) * 10 * time.Second
			test.change(i, &samples[i])
		}
		err := grew(samples, warmUp(10*time.Minute))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBarsOfFloods(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		flooded
		reached bool
	}{
		"no harm":                             {flooded{peak: 50 << 20, quiet: 20 * ms, during: 59 * ms}, true},
		"within what a scheduler needs":       {flooded{peak: 50 << 20, quiet: 1 * ms, during: 29 * ms}, true},
		"too much memory":                     {flooded{peak: 201 << 20, quiet: 20 * ms, during: 20 * ms}, false},
		"another caller waits":                {flooded{peak: 50 << 20, quiet: 20 * ms, during: 61 * ms}, false},
		"an interaction of another is failed": {flooded{peak: 50 << 20, quiet: 20 * ms, during: 20 * ms, failed: 1}, false},
	} {
		if missed := test.missed(); (missed == nil) != test.reached {
			t.Errorf("%s: %v", name, missed)
		}
	}
}

// A flood is measured from its beginning to its full extent.
func TestFloodsAreMeasured(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("memory is read from Linux's /proc")
	}
	var out bytes.Buffer
	// Whether it reaches the bars depends on the machine.
	_ = flooding(t.Context(), "sessions", 50*time.Millisecond, &out)
	if fields := strings.Fields(out.String()); !strings.Contains(out.String(), "2,000 sessions") || len(fields) < 12 {
		t.Errorf("got %s", out.String())
	}
}
