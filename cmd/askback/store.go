package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
	"github.com/askback-mcp/askback/task/sqlite"
)

// storage is the place of the data that outlives the process.
type storage struct {
	tasks       task.Store // nil for --store none
	name        string     // the store in the log, without its password
	machines    string     // the directory of the machines of provision_vm, unless machinesErr is set
	machinesErr error      // why there is no such directory
}

// openStorage opens the store that --store names and finds a place for the machines. Dir is the directory of
// --data, or empty.
func openStorage(ctx context.Context, dir, storeName string) (*storage, error) {
	s := new(storage)
	var err error
	if dir == "" {
		if dir, err = stateDir(); err != nil {
			s.machinesErr = fmt.Errorf("there is no directory for machines: %w; name one with --data DIR", err)
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	s.machines = filepath.Join(dir, "machines")
	s.name = storeName
	switch path, isSQLite := strings.CutPrefix(storeName, "sqlite:"); {
	case storeName == "none":
	case storeName == "" && s.machinesErr != nil:
		return nil, s.machinesErr
	case storeName == "":
		// Machines and tasks belong together: a server that shares the tasks continues making their machines.
		path = filepath.Join(dir, "tasks.db")
		s.name = "sqlite:" + path
		if err = os.MkdirAll(dir, 0o700); err == nil {
			s.tasks, err = sqlite.Open(ctx, path)
		}
		if err != nil {
			return nil, fmt.Errorf("the store of the tasks: %w; name another one with --store, or none with --store none", err)
		}
	case isSQLite:
		s.tasks, err = sqlite.Open(ctx, path)
	default:
		s.name = databaseName(storeName)
		s.tasks, err = postgres.Open(ctx, storeName)
	}
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err) // the error does not contain the URL
	}
	return s, nil
}

// checkStore checks the form of --store. Its error does not repeat the value, which may contain a password.
func checkStore(name string) error {
	if scheme, rest, _ := strings.Cut(name, ":"); name == "" || name == "none" || scheme == "sqlite" && rest != "" ||
		(scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//") {
		return nil
	}
	return usagef("--store: want sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE or none")
}

// databaseName reduces the URL of a database to the parts that are not secret.
func databaseName(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "postgres"
	}
	return "postgres://" + u.Host + u.Path
}

func (s *storage) close() error {
	if s.tasks == nil {
		return nil
	}
	return s.tasks.Close()
}

// options returns the options for tasks. They are nil without a store, and then no call becomes a task.
func (s *storage) options(workers int) *askback.Tasks {
	if s.tasks == nil {
		return nil
	}
	return &askback.Tasks{
		Store:         s.tasks,
		Settings:      task.Settings{Workers: workers},
		ListAnonymous: true, // with --user "" all callers are one user, too
	}
}

// stateDir returns the directory for the data of this user's servers, by the XDG conventions or the system's
// conventions.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "askback"), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "askback"), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "askback"), err
}

// serveWithTasks runs the tasks while serve runs: run returns when ctx is done, or with an error. When ctx is done, the
// tasks stop at once, so that other instances continue them, while serve finishes its requests.
func serveWithTasks(ctx context.Context, run func(context.Context) error, o *drain.Options,
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

// runTasks returns the function that runs the tasks of a server.
func runTasks(srv *askback.Server) func(context.Context) error {
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
