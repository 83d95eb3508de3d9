package serving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
)

// WithTasks runs the tasks while serve runs: run returns when ctx is done, or with an error. When ctx is done, the
// tasks stop at once, so that other instances continue them, while serve finishes its requests.
func WithTasks(ctx context.Context, run func(context.Context) error, o *drain.Options,
	serve func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx)
		stop()
		ended <- err
	}()

	err := serve(ctx)
	stop()
	select {
	case failure := <-ended:
		if failure != nil && !errors.Is(failure, context.Canceled) {
			err = errors.Join(err, failure)
		}
	case <-time.After(o.Grace):
		o.Logger.Warn("tasks did not stop in time: another server continues them, or this one after its next start", "limit",
			o.Grace)
	}
	return err
}

// RunTasks returns the function that runs the tasks of a server.
func RunTasks(srv *askback.Server) func(context.Context) error {
	return func(ctx context.Context) error {
		err := srv.RunTasks(ctx)
		if err == nil && ctx.Err() == nil {
			err = errors.New("the engine stopped by itself")
		}
		if err != nil {
			return fmt.Errorf("running tasks: %w", err)
		}
		return nil
	}
}
