package provision

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback"
)

// Host is where machines are made. Several processes may make machines on the same one. Its fields must not be changed
// once it is registered.
type Host struct {
	// Root is the directory of the machines, each in a directory of its own name. It is made with the first machine.
	// The file effects.log in it gets a line "time step call-id process-id" whenever a step has been done.
	Root string

	// Delay stretches each step, to watch it. Zero does not.
	Delay time.Duration
}

// machine is one machine as one call sees it.
type machine struct {
	host *Host
	call *askback.Call
	args
}

const (
	claimFile    = "claim"        // holds the id of the call whose machine it is
	manifestFile = "machine.json" // is there once the machine is finished
	partialDir   = "partial"      // where files are written until they are whole
)

func (m *machine) dir() string { return filepath.Join(m.host.Root, m.Name) }

// path is the path of one of the machine's files.
func (m *machine) path(name string) string { return filepath.Join(m.dir(), filepath.FromSlash(name)) }

// id is the machine's id, the same however often the step that needs it is repeated.
func (m *machine) id() string { return m.call.IdempotencyKey("machine-id") }

// claim makes the machine's directory, which appears with the claim in it, and returns the time of the claim. Of several
// calls one gets the name.
func (m *machine) claim() (time.Time, error) {
	if err := os.MkdirAll(m.host.Root, 0o700); err != nil {
		return time.Time{}, err
	}
	prepared, err := os.MkdirTemp(m.host.Root, m.prepared())
	if err != nil {
		return time.Time{}, err
	}
	if err := os.Mkdir(filepath.Join(prepared, "config"), 0o700); err != nil {
		return time.Time{}, err
	}
	if err := os.WriteFile(filepath.Join(prepared, claimFile), []byte(m.call.ID()), 0o600); err != nil {
		return time.Time{}, err
	}
	renaming := os.Rename(prepared, m.dir()) // fails if the directory is there
	err = m.claimed()
	if errors.Is(err, fs.ErrNotExist) && renaming != nil {
		err = renaming
		if _, statErr := os.Lstat(m.dir()); statErr == nil {
			err = fmt.Errorf("%s is there, and no machine: choose another name, or move it away", m.dir())
		}
	}
	if err != nil {
		return time.Time{}, err
	}
	info, err := os.Stat(m.path(claimFile))
	if err != nil {
		return time.Time{}, err
	}
	_, err = m.sweep() // what this attempt, or an earlier one, prepared for nothing
	return info.ModTime().UTC(), err
}

// owner is the ID of the call that has claimed the machine.
func (m *machine) owner() (string, error) {
	id, err := os.ReadFile(m.path(claimFile))
	return string(id), err
}

// claimed is nil while the machine is this call's.
func (m *machine) claimed() error {
	owner, err := m.owner()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("nothing is left of %s, somebody removed it meanwhile: call provision_vm again (%w)", m.Name, err)
	case err != nil:
		return err
	case owner == m.call.ID():
		return nil
	}
	if _, err := os.Lstat(m.path(manifestFile)); err == nil {
		return fmt.Errorf("there is a machine %s already: choose another name, or remove %s first", m.Name, m.dir())
	}
	since := "a moment ago"
	if info, err := os.Stat(m.path(claimFile)); err == nil {
		since = "at " + info.ModTime().Format(time.RFC3339)
	}
	return fmt.Errorf("another call began to provision %s %s: wait until it has, or choose another name; if that call was given up, remove %s",
		m.Name, since, m.dir())
}

// remove deletes what this call has made, and nothing of any other. It may be repeated.
func (m *machine) remove(context.Context) error {
	owner, err := m.owner()
	if err == nil && owner == m.call.ID() {
		// At once: half of a machine is nobody's.
		err = os.Rename(m.dir(), filepath.Join(m.host.Root, m.removed()))
	}
	var swept []string
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		swept, err = m.sweep()
	}
	if err != nil {
		return fmt.Errorf("removing what was made of %s: %w", m.Name, err)
	}
	if slices.Contains(swept, m.removed()) {
		return m.trace("remove")
	}
	return nil
}

// Names of directories that are a call's alone: where it prepares a machine, and what it removes.
func (m *machine) prepared() string { return ".new-" + m.call.ID() + "-" }
func (m *machine) removed() string  { return ".removed-" + m.call.ID() }

// sweep deletes the call's directories beside the machine, and returns their names.
func (m *machine) sweep() (names []string, err error) {
	entries, err := os.ReadDir(m.host.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if name := e.Name(); name == m.removed() || strings.HasPrefix(name, m.prepared()) {
			names = append(names, name)
			err = errors.Join(err, os.RemoveAll(filepath.Join(m.host.Root, name)))
		}
	}
	return names, err
}

// trace notes that a step has been done. One write of one line: lines of several processes do not mix.
func (m *machine) trace(step string) error {
	log, err := os.OpenFile(filepath.Join(m.host.Root, "effects.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(log, "%s %s %s %d\n", time.Now().UTC().Format(time.RFC3339Nano), step, m.call.ID(), os.Getpid())
	return errors.Join(err, log.Close())
}

// progress tells the client how much of the work is done, and what is being done. Each step counts as one, but the
// disk as its size in MiB.
func (m *machine) progress(ctx context.Context, step string, written int, message string) error {
	n, total := slices.Index(steps, step), len(steps)-1+m.DiskMiB
	if n > slices.Index(steps, "write-disk") {
		n += m.DiskMiB - 1
	}
	return m.call.Progress(ctx, float64(n+written), float64(total), message)
}

// pace takes a share of the time that each step is stretched by.
func (h *Host) pace(ctx context.Context, share float64) error {
	select {
	case <-time.After(time.Duration(float64(h.Delay) * share)):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
