package law

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/task"
)

// patience is how long receivers may take to have been told of everything. They have 60 units more, because a server
// that dies is replaced only when its calls have ended, after up to 20. After a long absence they have an hour more,
// because a server pauses for so long at most between two attempts.
const patience = 20 * time.Minute

// notified takes a notice that a server delivers.
func (r *run) notified(ctx context.Context, part *sim.Part, n desk.Notice) error {
	switch waited := time.Since(n.Time); {
	case part.IsDead():
		return sim.ErrDead
	case time.Since(r.began) < time.Duration(r.Dead)*r.Unit:
		return errors.New("nobody takes notices yet")
	case r.Crowded && n.Principal == "mallory":
		<-ctx.Done()
		return context.Cause(ctx)
	case r.Crowded && waited > 5*r.Unit:
		r.violate("%q was told after %v that %q was %s", n.Principal, waited, n.Key, n.Kind)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := n.Name + " " + n.Key
	if !slices.Contains(r.told[of], n.Kind) {
		r.told[of] = append(slices.Clip(r.told[of]), n.Kind)
	}
	return nil
}

// checkNotices waits until everybody has been told what has become of every question for people.
func (r *run) checkNotices(ctx context.Context) {
	wait := patience + 60*r.Unit
	if r.Dead > 0 {
		wait += time.Duration(r.Dead)*r.Unit + time.Hour
	}
	missing := r.untold(ctx)
	for end := time.Now().Add(wait); len(missing) > 0 && time.Now().Before(end); missing = r.untold(ctx) {
		time.Sleep(time.Minute)
	}
	for _, m := range missing {
		r.violate("%s", m)
	}
}

// untold returns what nobody was told, also of tasks that were deleted since.
func (r *run) untold(ctx context.Context) (missing []string) {
	for _, t := range r.tasks(ctx) {
		rows, err := r.Store.Questions(ctx, task.Name(t.ID))
		if err != nil {
			return []string{"the questions of a task: " + err.Error()}
		}
		r.mu.Lock()
		for _, row := range rows {
			if len(row.For) > 0 && t.Principal != "mallory" {
				r.asked[nameOf(row)] = row
			}
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range slices.Sorted(maps.Keys(r.asked)) {
		told := r.told[of]
		if !slices.Contains(told, task.NoticeAsked) {
			missing = append(missing, "nobody was told that "+of+" was asked")
		}
		ends := slices.ContainsFunc(told, func(k task.NoticeKind) bool {
			return k == task.NoticeDecided || k == task.NoticeUnanswered || k == task.NoticeEnded
		})
		if status := r.asked[of].Status; status != task.QuestionOpen && !ends {
			missing = append(missing, "nobody was told that "+of+" is "+string(status))
		}
	}
	return missing
}

// nameOf names a question.
func nameOf(row *task.Question) string { return task.Name(row.Task) + " " + row.Key }

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
