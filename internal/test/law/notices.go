package law

import (
	"context"
	"slices"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/task"
)

// patience is how long receivers may take to have been told of everything.
const patience = 20 * time.Minute

// notified takes a notice that a server delivers.
func (r *run) notified(part *sim.Part, n desk.Notice) error {
	select {
	case <-part.Dead():
		return sim.ErrDead
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := n.Name + " " + n.Key
	if !slices.Contains(r.told[of], n.Kind) {
		r.told[of] = append(r.told[of], n.Kind)
	}
	return nil
}

// checkNotices waits until everybody has been told what has become of every question for people.
func (r *run) checkNotices(ctx context.Context) {
	for end := time.Now().Add(patience); ; {
		missing := r.untold(ctx)
		if len(missing) == 0 {
			return
		}
		if time.Now().After(end) {
			for _, m := range missing {
				r.violate("%s", m)
			}
			return
		}
		time.Sleep(time.Minute)
	}
}

// untold returns what nobody was told.
func (r *run) untold(ctx context.Context) (missing []string) {
	for _, t := range r.tasks(ctx) {
		rows, err := r.Store.Questions(ctx, task.Name(t.ID))
		if err != nil {
			return []string{"the questions of a task: " + err.Error()}
		}
		for _, row := range rows {
			missing = append(missing, r.untoldOf(row)...)
		}
	}
	return missing
}

// tasks returns all tasks.
func (l *law) tasks(ctx context.Context) (all []*task.Task) {
	for after := ""; ; after = all[len(all)-1].ID {
		page, err := l.Store.Select(ctx, task.Filter{}, after, 100)
		if err != nil {
			l.violate("listing the tasks: %v", err)
		}
		if all = append(all, page...); len(page) == 0 {
			return all
		}
	}
}

func (r *run) untoldOf(row *task.Question) (missing []string) {
	if len(row.For) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := task.Name(row.Task) + " " + row.Key
	told := r.told[of]
	ends := slices.ContainsFunc(told, func(k task.NoticeKind) bool {
		return k == task.NoticeDecided || k == task.NoticeUnanswered || k == task.NoticeEnded
	})
	if !slices.Contains(told, task.NoticeAsked) {
		missing = append(missing, "nobody was told that "+of+" was asked")
	}
	if row.Status != task.QuestionOpen && !ends {
		missing = append(missing, "nobody was told that "+of+" is "+string(row.Status))
	}
	return missing
}
