package otelaskback

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/askback-mcp/askback/task"
)

const (
	// countTime bounds reading a store for one export, and waitingTime the part of it in which questions are read.
	countTime   = 5 * time.Second
	waitingTime = countTime / 2
	// mostWaiting bounds the questions that are read for one export, and pageOfWaiting those that are read at once.
	mostWaiting   = 1000
	pageOfWaiting = 100
)

// ObserveTasks measures how many tasks of a store have not ended, by status, as the gauge askback.tasks. It also
// measures what waits for people, by tool: askback.waiting is the number of open questions, and askback.waiting.age is
// how long the oldest of them has been open. Of more than 1000 open questions it reads the oldest 1000: then the number
// counts only these, and a tool that has only younger questions is left out.
//
// The store is asked once for each export. Instances that share a store report the same numbers: register it in one of
// them, or aggregate by max and not by sum. The registration's Unregister ends it; call it before the store is closed.
// Nil options are the zero Options. An error of the store goes to the error handler of OpenTelemetry.
func ObserveTasks(store task.Store, opts *Options) (metric.Registration, error) {
	m := opts.meter()
	tasks, err1 := m.Int64ObservableGauge("askback.tasks", metric.WithUnit("{task}"),
		metric.WithDescription("Tasks in the store that have not ended, by status. Instances that share a store report the "+
			"same number."))
	waiting, err2 := m.Int64ObservableGauge("askback.waiting", metric.WithUnit("{question}"),
		metric.WithDescription("Open questions for people in the store, by tool: at most 1000, the oldest. Instances that "+
			"share a store report the same number."))
	age, err3 := m.Float64ObservableGauge("askback.waiting.age", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest open question for people has been open, by tool, and 0 if none is. "+
			"Instances that share a store report the same number."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	countTasks := func(ctx context.Context, o metric.Observer) error {
		counts, err := store.Count(ctx)
		if err != nil {
			return err
		}
		for _, status := range []task.Status{task.Working, task.InputRequired} {
			o.ObserveInt64(tasks, int64(counts[status]), metric.WithAttributes(attrTaskStatus.String(string(status))))
		}
		return nil
	}
	w := &waitingQuestions{store: store}
	return m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, countTime)
		defer cancel()
		tools, err1 := w.read(ctx)
		err2 := countTasks(ctx, o)
		for name, t := range tools {
			of := metric.WithAttributeSet(attribute.NewSet(attrTool.String(name)))
			o.ObserveInt64(waiting, t.questions, of)
			o.ObserveFloat64(age, t.age.Seconds(), of)
		}
		return errors.Join(err1, err2)
	}, tasks, waiting, age)
}

// waitingQuestions reads what waits for people.
type waitingQuestions struct {
	store task.Store

	mu     sync.Mutex // several readers may export at the same time
	labels labels
}

type tool struct {
	questions int64
	age       time.Duration // of the oldest question
}

// read returns the tools whose questions it has read, also if there is an error. If it has read all open questions, the
// tools that had one before are among them.
func (w *waitingQuestions) read(ctx context.Context) (map[string]tool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, waitingTime)
	defer cancel()
	tools := make(map[string]tool)
	var last *task.Question
	for read := 0; read < mostWaiting; read += pageOfWaiting {
		page, err := w.store.Waiting(ctx, task.QuestionFilter{}, last, pageOfWaiting)
		if err != nil {
			return tools, err
		}
		for _, q := range page {
			name := w.labels.name("", cut(q.Target))
			t := tools[name]
			t.questions++
			t.age = max(t.age, time.Since(q.Asked)) // the clock of the store may be ahead
			tools[name] = t
		}
		if len(page) < pageOfWaiting {
			for name := range w.labels.names[""] {
				if _, has := tools[name]; !has {
					tools[name] = tool{}
				}
			}
			break
		}
		last = page[len(page)-1]
	}
	return tools, nil
}
