package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askback-mcp/askback/task"
)

// askMany adds n parked tasks, each with an open question: for one of a thousand users, every other one also for
// group:release, every hundredth for group:oncall, and one for group:board. A tenth has the voter "voter". The
// deadlines are a millisecond apart.
func askMany(b *testing.B, s *Store, n int, deadline time.Time) {
	b.Helper()
	park(b, s, n)
	mustExec(b, s.conn, `INSERT INTO question (task, key, name, status, version, asked, changed, deadline, expired, equal,
			people, voters, content)
		SELECT seq, 'approve.1', hex(randomblob(13)), 'open', 0, ?1 + seq / 10, ?1, ?2 + seq, 0, hex(randomblob(16)),
			json_array('user:' || (seq % 1000), iif(seq % 2, 'group:other', 'group:release'),
				iif(seq % 100, 'group:some', 'group:oncall'), iif(seq = 77, 'group:board', 'group:none')),
			json_array(iif(seq % 10, 'other', 'voter')), randomblob(300) FROM task`, time.Now().UnixMilli(), deadline.UnixMilli())
	mustExec(b, s.conn, `PRAGMA wal_checkpoint(TRUNCATE)`)
}

// BenchmarkVote adds votes to a question among 100,000, and among a thousand, while eight others vote, too.
func BenchmarkVote(b *testing.B) {
	among := func(n int) func(int) func() error {
		s := open(b, filepath.Join(b.TempDir(), "tasks.db"))
		askMany(b, s, n, time.Now().Add(time.Hour))
		ctx := context.Background() // also while the benchmark ends
		all, err := s.Waiting(ctx, task.QuestionFilter{}, nil, 9)
		if err != nil || len(all) != 9 {
			b.Fatal(len(all), err)
		}
		var done atomic.Bool
		var voting sync.WaitGroup
		for _, q := range all[1:] {
			voting.Go(func() {
				for !done.Load() {
					q.Votes = make([]byte, 300)
					if err := s.ChangeQuestion(ctx, q, false); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		b.Cleanup(func() { done.Store(true); voting.Wait() })
		return func(int) func() error {
			return func() error {
				all[0].Votes = make([]byte, 300)
				return s.ChangeQuestion(ctx, all[0], false)
			}
		}
	}
	compare(b, "100000", "1000", among(100_000), among(1000))
}

// BenchmarkOverdue decides 10,000 questions whose deadlines have passed, with eight goroutines that find them in parts
// of a hundred.
func BenchmarkOverdue(b *testing.B) {
	const n = 10_000
	var took time.Duration
	for b.Loop() {
		s := open(b, filepath.Join(b.TempDir(), "tasks.db"))
		askMany(b, s, n, time.Now().Add(-time.Hour))
		var decided atomic.Int64
		var deciding sync.WaitGroup
		start := time.Now()
		for range 8 {
			deciding.Go(func() {
				for decided.Load() < n {
					overdue, err := s.Overdue(b.Context(), 100)
					if err != nil {
						b.Error(err)
						return
					}
					for _, q := range overdue {
						q.Decision = []byte(`{"action":"unanswered"}`)
						err := s.ChangeQuestion(b.Context(), q, true)
						if err == nil {
							decided.Add(1)
						} else if !errors.Is(err, task.ErrConflict) {
							b.Error(err)
							return
						}
					}
				}
			})
		}
		deciding.Wait()
		took += time.Since(start)
		if due := query[int](b, s.conn, "SELECT count(*) FROM task WHERE due IS NOT NULL AND status = 'working'"); due != n {
			b.Fatal(fmt.Errorf("%d tasks are due, want %d", due, n))
		}
		s.Close()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.Seconds()/float64(b.N), "s")
}
