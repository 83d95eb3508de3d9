package servecmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/storage"
)

// place has the data that outlive the process.
type place struct {
	tasks       *storage.Store // nil for --store none
	machines    string         // the directory of the machines of provision_vm, unless machinesErr is set
	machinesErr error          // why there is no such directory
}

// openPlace opens the store that --store names and finds a place for the machines. Dir is the directory of --data, or
// empty.
func openPlace(ctx context.Context, dir, storeName string) (*place, error) {
	p := new(place)
	var err error
	if dir == "" {
		if dir, err = cli.StateDir(); err != nil {
			p.machinesErr = fmt.Errorf("there is no directory for machines: %w; name one with --data DIR", err)
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	p.machines = filepath.Join(dir, "machines")
	switch {
	case storeName == "none":
	case storeName == "" && p.machinesErr != nil:
		return nil, p.machinesErr
	case storeName == "":
		// Machines and tasks belong together: a server that shares the tasks continues making their machines.
		if err = os.MkdirAll(dir, 0o700); err == nil {
			p.tasks, err = storage.Open(ctx, "sqlite:"+filepath.Join(dir, storage.ServerFile))
		}
		if err != nil {
			return nil, fmt.Errorf("the store of the tasks: %w; name another one with --store, or none with --store none", err)
		}
	default:
		if p.tasks, err = storage.Open(ctx, storeName); err != nil {
			return nil, fmt.Errorf("--store: %w", err)
		}
	}
	return p, nil
}

func (p *place) close() error {
	if p.tasks == nil {
		return nil
	}
	return p.tasks.Close()
}

// options returns the options for tasks. They are nil without a store, and then no call becomes a task.
func (p *place) options(workers int) *askback.Tasks {
	if p.tasks == nil {
		return nil
	}
	return p.tasks.Options(workers)
}
