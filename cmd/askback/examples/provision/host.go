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
	name string
	dir  string
	disk int // its size in MiB
}

const (
	claimFile    = "claim"        // holds the id of the call whose machine it is
	manifestFile = "machine.json" // is there once the machine is finished
	partialDir   = "partial"      // where files are written until they are whole
)

func (h *Host) machine(call *askback.Call, in args) *machine {
	return &machine{host: h, call: call, name: in.Name, dir: filepath.Join(h.Root, in.Name), disk: in.DiskMiB}
}

// id is the machine's id, the same however often the step that needs it is repeated.
func (m *machine) id() string { return m.call.IdempotencyKey("machine-id") }

// claim makes the machine's directory, which appears at once with the claim in it, and returns since when it is
// there. Of several calls one gets the name.
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
	claim, err := os.OpenFile(filepath.Join(prepared, claimFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return time.Time{}, err
	}
	_, err = claim.WriteString(m.call.ID())
	if err := errors.Join(err, claim.Close()); err != nil {
		return time.Time{}, err
	}
	renaming := os.Rename(prepared, m.dir) // fails if the directory is there
	if err := m.claimed(); err != nil {
		if errors.Is(err, fs.ErrNotExist) && renaming != nil {
			err = m.unclaimed(renaming)
		}
		return time.Time{}, err
	}
	info, err := os.Stat(filepath.Join(m.dir, claimFile))
	if err != nil {
		return time.Time{}, err
	}
	_, err = m.sweep() // what this attempt, or an earlier one, prepared for nothing
	return info.ModTime().UTC(), err
}

// unclaimed tells why the directory could not be made although nobody claims it.
func (m *machine) unclaimed(renaming error) error {
	if _, err := os.Lstat(m.dir); err == nil {
		return fmt.Errorf("%s is there, and no machine: choose another name, or move it away", m.dir)
	}
	return renaming
}

// owner is the id of the call whose the machine is.
func (m *machine) owner() (string, error) {
	id, err := os.ReadFile(filepath.Join(m.dir, claimFile))
	return string(id), err
}

// claimed is nil while the machine is this call's.
func (m *machine) claimed() error {
	owner, err := m.owner()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("nothing is left of %s, somebody removed it meanwhile: call provision_vm again (%w)", m.name, err)
	case err != nil:
		return err
	case owner == m.call.ID():
		return nil
	}
	if _, err := os.Lstat(filepath.Join(m.dir, manifestFile)); err == nil {
		return fmt.Errorf("there is a machine %s already: choose another name, or remove %s first", m.name, m.dir)
	}
	since := "a moment ago"
	if info, err := os.Stat(filepath.Join(m.dir, claimFile)); err == nil {
		since = "at " + info.ModTime().Format(time.RFC3339)
	}
	return fmt.Errorf("another call began to provision %s %s: wait until it has, or choose another name; if that call was given up, remove %s",
		m.name, since, m.dir)
}

// remove deletes what this call has made, and nothing of any other. It may be repeated.
func (m *machine) remove(context.Context) error {
	owner, err := m.owner()
	if err == nil && owner == m.call.ID() {
		// At once: half of a machine is nobody's.
		err = os.Rename(m.dir, filepath.Join(m.host.Root, m.removed()))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing what was made of %s: %w", m.name, err)
	}
	swept, err := m.sweep()
	if err != nil {
		return fmt.Errorf("removing what was made of %s: %w", m.name, err)
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
	n, total := slices.Index(steps, step), len(steps)-1+m.disk
	if n > slices.Index(steps, "write-disk") {
		n += m.disk - 1
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
