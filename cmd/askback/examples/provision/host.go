package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
)

// Host is where machines are made. Several processes may make machines on the same one. Its fields must not be changed
// once it is registered.
type Host struct {
	// Root is the directory of the machines, each in a directory of its own name. It is made with the first machine.
	// The file effects.log in it gets a line "time step call-id process-id" whenever a step has been done.
	Root string

	// Delay makes each step take longer, so that one can watch it. Zero adds nothing.
	Delay time.Duration
}

// machine is one machine as one call sees it.
type machine struct {
	host  *Host
	call  *askback.Call
	token task.Claim // this worker's; zero outside of tasks
	args
}

const (
	claimFile    = "claim"        // holds the id of the call whose machine it is
	manifestFile = "machine.json" // is there once the machine is finished
)

func (m *machine) dir() string { return filepath.Join(m.host.Root, m.Name) }

// path is the path of one of the machine's files.
func (m *machine) path(name string) string { return filepath.Join(m.dir(), filepath.FromSlash(name)) }

// id is the machine's id, the same however often the step that needs it is repeated.
func (m *machine) id() string { return m.call.IdempotencyKey("machine-id") }

// workDir is where this worker prepares what it changes: each change is one rename from here into the machine's
// directory, or the reverse. The name contains the number and the nonce of the worker's claim. A worker that continues
// renames the directory, and everything that the previous worker still tries fails, because the path is gone.
func (m *machine) workDir() string {
	return filepath.Join(m.host.Root, m.workPrefix()+strconv.FormatInt(m.token.Fence, 10)+"-"+m.token.Nonce)
}

func (m *machine) workPrefix() string { return ".work-" + m.call.ID() + "-" }

// workDirs returns the directories of this call's workers, by the claim of each.
func (m *machine) workDirs() (map[task.Claim]string, error) {
	entries, err := os.ReadDir(m.host.Root)
	dirs := make(map[task.Claim]string)
	for _, e := range entries {
		if claim, ours := strings.CutPrefix(e.Name(), m.workPrefix()); ours {
			fence, nonce, _ := strings.Cut(claim, "-")
			if n, err := strconv.ParseInt(fence, 10, 64); err == nil {
				dirs[task.Claim{Fence: n, Nonce: nonce}] = filepath.Join(m.host.Root, e.Name())
			}
		}
	}
	return dirs, err
}

// errTakenOver is the error of a worker that was out of reach for longer than its lease. It is also the error of a
// worker whose claim has the number of an earlier claim that the database has lost: the next claim has a higher number.
var errTakenOver = fmt.Errorf("another worker has taken over: %w", task.ErrLeaseLost)

// takeOver gives the call's working directory to this worker.
func (m *machine) takeOver() error {
	for {
		dirs, err := m.workDirs()
		if err != nil {
			return err
		}
		_, mine := dirs[m.token]
		delete(dirs, m.token)
		for claim := range dirs {
			if claim.Fence >= m.token.Fence {
				return errTakenOver
			}
		}
		if !mine && len(dirs) == 0 { // the first worker, or one that cannot know whether it finished
			if err := os.Mkdir(m.workDir(), 0o700); err != nil {
				return err
			}
			if m.finishedBy() > m.token.Fence {
				return errors.Join(errTakenOver, os.Remove(m.workDir()))
			}
			return nil
		}
		for _, dir := range dirs { // several, if two workers had the same number
			if mine {
				err = os.RemoveAll(dir)
			} else if err = os.Rename(dir, m.workDir()); err == nil {
				mine = true
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if mine {
			return nil
		}
	}
}

// finishedBy returns the number of the claim of the worker that finished the machine, or -1.
func (m *machine) finishedBy() int64 {
	finished := manifest{Fence: -1}
	if data, err := os.ReadFile(m.path(manifestFile)); err != nil || json.Unmarshal(data, &finished) != nil ||
		finished.Call != m.call.ID() {
		return -1
	}
	return finished.Fence
}

// claim makes the machine's directory, which appears with the claim in it, and returns the time of the claim. Of
// several calls one gets the name.
func (m *machine) claim() (time.Time, error) {
	prepared, err := os.MkdirTemp(m.workDir(), "new-*")
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
		return time.Time{}, errors.Join(err, m.sweep())
	}
	info, err := os.Stat(m.path(claimFile))
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime().UTC(), nil
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
	return fmt.Errorf("another call began to provision %s %s: wait until it has, or choose another name; "+
		"if that call was given up, remove %s",
		m.Name, since, m.dir())
}

// remove deletes what this call has made, and nothing of any other. It may be repeated.
func (m *machine) remove(context.Context) error {
	err := m.takeOver()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no machine was ever made here
	}
	removed := filepath.Join(m.workDir(), "removed")
	if err == nil {
		var owner string
		if owner, err = m.owner(); err == nil && owner == m.call.ID() {
			err = os.Rename(m.dir(), removed) // at once: half of a machine is nobody's
		}
	}
	_, none := os.Lstat(removed)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = m.sweep()
	}
	if err != nil {
		return fmt.Errorf("removing what was made of %s: %w", m.Name, err)
	}
	if none == nil {
		return m.trace("remove")
	}
	return nil
}

// sweep deletes the call's working directories, of this worker and of those before it.
func (m *machine) sweep() error {
	dirs, err := m.workDirs()
	for claim, dir := range dirs {
		if claim.Fence < m.token.Fence || claim == m.token {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}

// trace notes that a step has been done. Each line is one write, so that lines of several processes do not mix.
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

// pace waits for a part of Delay. It returns an error if the worker must stop.
func (m *machine) pace(ctx context.Context, share float64) error {
	select {
	case <-time.After(time.Duration(float64(m.host.Delay) * share)):
	case <-ctx.Done():
	}
	return ctx.Err()
}
