package sqlite

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// BenchmarkDesk lists, at a desk, the first hundred questions of several lists among 100,000 open questions. The calls
// of one person ask all that the person's group is asked, 50,000 questions.
func BenchmarkDesk(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "tasks.db"))
	b.Cleanup(func() { s.Close() })
	askMany(b, s, 100_000, time.Now().Add(time.Hour))
	content, err := stored.Encode(&stored.Asking{
		Key: "approve", Digest: make([]byte, len(journal.Digest{})), Votes: 2, Method: "elicitation/create",
		Params: fmt.Appendf(nil, `{"mode":"form","message":"Deploy %0300d?",`+
			`"requestedSchema":{"type":"object","properties":{}}}`, 1),
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.conn.ExecContext(b.Context(), `UPDATE question SET content = ?`, content); err != nil {
		b.Fatal(err)
	}
	mustExec(b, s.conn, `UPDATE task SET principal = 'carol'`)
	mustExec(b, s.conn, `UPDATE question_list SET principal = 'carol', list = iif(list LIKE '!%', '!carol', list)`)
	d, err := desk.Open(s, nil)
	if err != nil {
		b.Fatal(err)
	}
	person := &desk.Person{Name: "5", Groups: []string{"release", "oncall", "board"}}
	for _, c := range []struct {
		name string
		list func(context.Context) iter.Seq2[*desk.Question, error]
		want int
	}{
		{"a person", waiting(d, desk.Waiting{As: person}), 100},
		{"a person, the newest first", waiting(d, desk.Waiting{As: person, Newest: true}), 100},
		{"a search", waiting(d, desk.Waiting{As: person, Search: "is nowhere"}), 0},
		{"who is asked nothing", waiting(d, desk.Waiting{As: &desk.Person{Name: "nobody", Groups: []string{"nobody"}}}), 0},
		{"whose own calls ask the group",
			waiting(d, desk.Waiting{As: &desk.Person{Name: "carol", Groups: []string{"release"}}}), 0},
		{"who has answered 10000", func(ctx context.Context) iter.Seq2[*desk.Question, error] {
			return d.Answered(ctx, desk.Person{Name: "voter"})
		}, 100},
		{"who began 100000", func(ctx context.Context) iter.Seq2[*desk.Question, error] {
			return d.Began(ctx, desk.Person{Name: "carol"})
		}, 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range c.list(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
					if n++; n == 100 {
						break
					}
				}
				if n != c.want {
					b.Fatalf("%d are listed, want %d", n, c.want)
				}
			}
		})
	}
	b.Run("nothing has changed", func(b *testing.B) {
		_, now, err := s.Changes(b.Context(), nil, 0)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if got, _, err := s.Changes(b.Context(), &task.Question{Changed: now}, 100); err != nil || len(got) > 0 {
				b.Fatal(len(got), err)
			}
		}
	})
}

func waiting(d *desk.Desk, w desk.Waiting) func(context.Context) iter.Seq2[*desk.Question, error] {
	return func(ctx context.Context) iter.Seq2[*desk.Question, error] { return d.Waiting(ctx, w) }
}
