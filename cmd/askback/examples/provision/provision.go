// Package provision is an example of a tool with long work: provision_vm makes a machine's files on this host, and asks
// in the middle which network to attach it to. The machine is a directory, and its files are real.
//
// Each step may be repeated, because a process can die after a step and before it is recorded. A call claims the
// machine's name first, and touches nothing that another call has claimed. A process that was stopped for longer than
// its lease may still be in a step when another one continues: it can change nothing any more, because the other one
// has renamed its working directory, which has the fencing token of the claim in its name. A call that fails, that the
// user declines or whose task is cancelled removes what it has made.
//
// A client without tasks gets the same in rounds. Nobody can know whether a client will come back, so the machine of a
// call that is never finished stays: the next call for its name tells what to do.
package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
)

type args struct {
	Name      string `json:"name"`
	CPUs      int    `json:"cpus"`
	MemoryMiB int    `json:"memoryMiB"`
	DiskMiB   int    `json:"diskMiB"`
}

// label is a name that may be part of a host name, and a file's name on every system.
var label = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`)

// argsSchema is the schema of args. Arguments that are missing get their default.
var argsSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"name": {"type": "string", "pattern": "` + label.String() + `",
			"description": "the machine's name: lower-case letters, digits and hyphens, beginning with a letter"},
		"cpus": {"type": "integer", "minimum": 1, "maximum": 64, "default": 2, "description": "number of CPUs"},
		"memoryMiB": {"type": "integer", "minimum": 128, "maximum": 1048576, "default": 1024,
			"description": "size of the memory in MiB"},
		"diskMiB": {"type": "integer", "minimum": 1, "maximum": 256, "default": 16, "description": "size of the disk in MiB"}
	},
	"required": ["name"],
	"additionalProperties": false
}`)

// network is the answer to the question in the middle.
type network struct {
	Network  string `json:"network"`
	Hostname string `json:"hostname"`
}

// askNetwork asks which network the machine is attached to. The name is a label, which needs no escaping in JSON.
func askNetwork(call *askback.Call, name string) (network, error) {
	return askback.ElicitWith[network](call, "network", askback.Question{
		Message: fmt.Sprintf("The files of %s are ready. Which network shall it be attached to?", name),
		Schema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"network": {"type": "string", "title": "Network", "enum": ["bridge", "nat", "isolated"], "default": "nat"},
				"hostname": {"type": "string", "title": "Host name", "maxLength": 32, "default": "` + name + `"}
			},
			"required": ["network"]
		}`),
	})
}

// Outcome is the structured result of provision_vm.
type Outcome struct {
	Name     string `json:"name"`
	State    string `json:"state" jsonschema:"running, or removed if the user declined"`
	ID       string `json:"id,omitempty" jsonschema:"the machine's id"`
	Path     string `json:"path,omitempty" jsonschema:"the machine's directory on the host"`
	Network  string `json:"network,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	Files    []File `json:"files,omitempty" jsonschema:"the machine's files"`
	SHA256   string `json:"sha256,omitempty" jsonschema:"hash of the manifest, machine.json, in hexadecimal"`
}

// steps are the names of the steps, in their order.
var steps = []string{
	"create-directories", "write-disk", "write-config", "verify-files", "configure-network", "boot", "write-manifest",
}

// Register adds the tool provision_vm to s, which makes machines on host. For a client that can take a task every call
// is one.
func Register(s *askback.Server, host *Host) {
	output, err := jsonschema.For[Outcome](nil)
	if err != nil {
		panic(err) // a fault of the build
	}
	tool := &mcp.Tool{
		Name:         "provision_vm",
		Description:  "Make a machine: its disk, configuration and network. Asks for the network on the way",
		InputSchema:  argsSchema,
		OutputSchema: output,
	}

	askback.AddTaskTool(s, tool, nil, func(ctx context.Context, call *askback.Call, in args) (*mcp.CallToolResult, error) {
		if !filepath.IsLocal(in.Name) {
			return nil, fmt.Errorf("%q cannot be a file's name on this system; choose another name", in.Name)
		}
		m := &machine{host, call, task.Claim{Fence: call.Fence(), Nonce: call.Nonce()}, in}

		// Before the first step that leaves something behind, and in every run: when a task is cancelled, its handler
		// runs again up to the step where it stopped, to find what cleans up.
		call.OnCancel(m.remove)

		out, err := provision(ctx, m)
		_, declined := errors.AsType[*askback.DeclinedError](err)
		_, failed := errors.AsType[*stepError](err)
		switch {
		case errors.Is(err, task.ErrLeaseLost): // the next worker continues
			return nil, err
		case declined || failed:
			return giveUp(ctx, m, err, declined)
		case err != nil: // the next round or the next worker continues
			return nil, err
		}
		return result(out, "%s is running: %d CPUs, %d MiB of memory, %d MiB of disk, network %s, "+
			"host name %s.\nIts files are in %s.",
			in.Name, in.CPUs, in.MemoryMiB, in.DiskMiB, out.Network, out.Hostname, out.Path), nil
	})
}

// giveUp ends a call that failed or was declined, and removes what it made. Once ctx is done it removes nothing: the
// step was stopped, and another worker continues.
func giveUp(ctx context.Context, m *machine, why error, declined bool) (*mcp.CallToolResult, error) {
	if err := m.call.Do(ctx, "remove", m.remove); err != nil {
		return nil, errors.Join(why, err)
	}
	if !declined {
		return nil, why
	}
	out := Outcome{Name: m.Name, State: "removed"}
	return result(out, "%s was not provisioned: %v. What had been made of it is removed.", m.Name, why), nil
}

// provision is the work, from top to bottom.
func provision(ctx context.Context, m *machine) (Outcome, error) {
	begun, err := step(ctx, m, "create-directories", "Creating the directories",
		func(ctx context.Context) (time.Time, error) {
			if !m.call.Can(askback.CapabilityForm) {
				// now, not after the work
				return time.Time{}, &askback.CapabilityError{Key: "network", Need: askback.CapabilityForm}
			}
			if _, err := bootCommand(ctx); err != nil {
				return time.Time{}, err
			}
			return m.claim()
		})
	if err != nil {
		return Outcome{}, err
	}

	disk, err := step(ctx, m, "write-disk", "Writing the disk image", m.writeDisk)
	if err != nil {
		return Outcome{}, err
	}

	config, err := step(ctx, m, "write-config", "Writing the configuration", m.writeConfig)
	if err != nil {
		return Outcome{}, err
	}

	files := slices.Concat([]File{disk}, config)
	_, err = step(ctx, m, "verify-files", "Verifying the files", func(context.Context) (bool, error) {
		return true, m.verify(files)
	})
	if err != nil {
		return Outcome{}, err
	}

	to, err := askNetwork(m.call, m.Name)
	if err != nil {
		return Outcome{}, err // a task waits for the answer as a row of the store
	}
	to.Hostname = cmp.Or(to.Hostname, m.Name)
	for n := 1; !label.MatchString(to.Hostname); n++ {
		again, err := askback.Elicit[struct {
			Hostname string `json:"hostname" title:"Host name" maxLength:"32"`
		}](m.call, fmt.Sprintf("hostname-%d", n), fmt.Sprintf(
			"%q cannot be a host name: it takes lower-case letters, digits and hyphens, "+
				"and begins with a letter. Which one shall %s have?",
			to.Hostname, m.Name))
		if err != nil {
			return Outcome{}, err
		}
		to.Hostname = again.Hostname
	}

	attached, err := step(ctx, m, "configure-network", "Configuring the network "+to.Network,
		func(context.Context) (File, error) {
			return m.writeJSON("config/network.json", to)
		})
	if err != nil {
		return Outcome{}, err
	}

	log, err := step(ctx, m, "boot", "Booting", func(ctx context.Context) (File, error) {
		return m.boot(ctx, to)
	})
	if err != nil {
		return Outcome{}, err
	}

	out := Outcome{
		Name: m.Name, State: "running", ID: m.id(), Path: m.dir(), Network: to.Network, Hostname: to.Hostname,
		Files: append(files, attached, log),
	}
	manifest, err := step(ctx, m, "write-manifest", "Writing the manifest", func(context.Context) (File, error) {
		return m.writeManifest(begun, out)
	})
	out.SHA256 = manifest.SHA256
	return out, err
}

// stepError says that a step could not do its work: the call cannot go on.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// step is [askback.Do] for a step of m: it reports progress, keeps the host's pace, and writes to the log of effects.
func step[T any](ctx context.Context, m *machine, name, message string,
	do func(context.Context) (T, error)) (T, error) {
	return askback.Do(ctx, m.call, name, func(ctx context.Context) (T, error) {
		var none T
		if err := m.progress(ctx, name, 0, message); err != nil {
			return none, err
		}
		if name == "create-directories" {
			if err := os.MkdirAll(m.host.Root, 0o700); err != nil {
				return none, &stepError{name, err}
			}
		} else if err := m.claimed(); err != nil {
			return none, &stepError{name, err}
		}
		if err := m.takeOver(); errors.Is(err, errTakenOver) {
			return none, err // which goes on with the call
		} else if err != nil {
			return none, &stepError{name, err}
		}
		if name != "write-disk" { // which takes it in portions
			if err := m.pace(ctx, 1); err != nil {
				return none, err
			}
		}
		result, err := do(ctx)
		if err == nil {
			err = m.trace(name)
		}
		if err != nil {
			return none, &stepError{name, err}
		}
		return result, nil
	})
}

// result is an outcome for programs, and the same in words.
func result(out Outcome, format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}},
		StructuredContent: out,
	}
}
