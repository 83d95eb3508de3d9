package otelaskback

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/askback-mcp/askback/task"
)

// countTime bounds counting the tasks of a store for one export.
const countTime = 5 * time.Second

// ObserveTasks measures how many tasks of a store have not ended, by status, as the gauge askback.tasks. The store is
// asked once for each export; those of task/sqlite and task/postgres are Counters. Instances that share a store report
// the same number: register it in one of them, or aggregate by max and not by sum. The registration's Unregister ends
// it; call it before the store is closed. Nil options are the zero Options. An error of the store goes to the error
// handler of OpenTelemetry.
func ObserveTasks(store task.Counter, opts *Options) (metric.Registration, error) {
	m := opts.meter()
	gauge, err := m.Int64ObservableGauge("askback.tasks", metric.WithUnit("{task}"),
		metric.WithDescription("Tasks in the store that have not ended, by status. Instances that share a store report the "+
			"same number."))
	if err != nil {
		return nil, err
	}
	return m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, countTime)
		defer cancel()
		counts, err := store.Count(ctx)
		if err != nil {
			return err
		}
		for _, status := range []task.Status{task.Working, task.InputRequired} {
			o.ObserveInt64(gauge, int64(counts[status]), metric.WithAttributes(attrTaskStatus.String(string(status))))
		}
		return nil
	}, gauge)
}
