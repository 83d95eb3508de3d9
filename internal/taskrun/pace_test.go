package taskrun_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// distant is a store whose every call takes a while, of which so many may be under way at once.
type distant struct {
	task.Store
	takes       time.Duration
	connections chan struct{}
}

func (d *distant) wait(ctx context.Context) error {
	select {
	case d.connections <- struct{}{}:
		defer func() { <-d.connections }()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-time.After(d.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *distant) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	if err := d.wait(ctx); err != nil {
		return nil, nil, err
	}
	return d.Store.Journal(ctx, id, most)
}

func (d *distant) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	return d.Store.Renew(ctx, leases, lease)
}

// When it starts, an engine finds out whether its settings and its store fit together, and says which to change.
func TestAStoreThatIsTooSlowIsWarnedOf(t *testing.T) {
	const lease, workers, timeout = "raise Lease", "pool_max_conns", "raise StoreTimeout"
	for _, tt := range []struct {
		name        string
		takes       time.Duration
		connections int
		settings    task.Settings
		want        []string
	}{
		{"a database nearby", time.Millisecond, 4, task.Settings{}, nil},
		{"far away, and the defaults", 300 * time.Millisecond, 4, task.Settings{}, nil},
		{"far away, and one connection", 300 * time.Millisecond, 1, task.Settings{}, []string{workers}},
		{"far away, one connection and fewer workers", 300 * time.Millisecond, 1, task.Settings{Workers: 8}, nil},
		{"far away, and a short lease", 300 * time.Millisecond, 4, task.Settings{Lease: 3 * time.Second, Workers: 4},
			[]string{lease}},
		{"very far away", time.Second, 16, task.Settings{}, []string{lease}},
		{"very far away, and a long lease", time.Second, 16, task.Settings{Lease: time.Minute}, []string{timeout}},
		{"very far away, with the times for it", time.Second, 16, task.Settings{Lease: time.Minute,
			StoreTimeout: 20 * time.Second}, nil},
		{"very many workers", 20 * time.Millisecond, 4, task.Settings{Workers: 2000}, []string{workers}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				f := newFixture(t)
				f.store = &distant{f.store, tt.takes, make(chan struct{}, tt.connections)}
				_, stop := f.engine(&taskrun.Options{Settings: tt.settings, Logger: slog.New(slog.NewTextHandler(&log, nil)),
					Handler: completes})
				time.Sleep(time.Minute)
				stop()
				for _, says := range []string{lease, workers, timeout} {
					said, wanted := strings.Contains(log.String(), says), strings.Contains(strings.Join(tt.want, " "), says)
					if said != wanted {
						t.Errorf("the log says %q: %v, want %v:\n%s", says, said, wanted, &log)
					}
				}
			})
		})
	}
}

// A store that becomes slow while tasks run is warned of, before their leases end.
func TestRenewalsThatTakeLongAreWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newFixture(t)
		d := &distant{f.store, 2 * time.Second, make(chan struct{}, 4)}
		f.store = d
		ended := make(chan error, 1)
		opts := &taskrun.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		opts.Handler = func(ctx context.Context, _ *taskrun.Work) (taskrun.Verdict, error) {
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
			case <-time.After(time.Minute):
				ended <- nil
			}
			return completed(""), nil
		}
		e, stop := f.engine(opts)
		f.create(e, new(taskrun.New))
		if err := <-ended; err != nil {
			t.Errorf("the run ended because %v", err)
		}
		stop()
		expect.Contains(t, "the log has", log.String(), "renewing leases takes long")
	})
}
