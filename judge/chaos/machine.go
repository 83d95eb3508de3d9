package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// manifest is what machine.json of a machine says.
type manifest struct {
	outcome
	Call      string `json:"call"`
	CPUs      int    `json:"cpus"`
	MemoryMiB int    `json:"memoryMiB"`
	DiskMiB   int    `json:"diskMiB"`
}

// checkMachine reports in what the machine of an order is not as it was ordered and as the result of its task says.
func checkMachine(root string, o *order, call string) error {
	dir := filepath.Join(root, o.name)
	data, err := os.ReadFile(filepath.Join(dir, "machine.json"))
	if err != nil {
		return err
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("machine.json: %w", err)
	}
	claim, err := os.ReadFile(filepath.Join(dir, "claim"))
	if err != nil {
		return err
	}

	want := manifest{
		outcome: outcome{
			Name: o.name, State: "running", ID: m.ID, Path: m.Path, Network: o.network, Hostname: o.hostname, Files: m.Files,
		},
		Call: call, CPUs: o.cpus, MemoryMiB: o.memory, DiskMiB: 1,
	}
	if !reflect.DeepEqual(m, want) {
		return fmt.Errorf("machine.json is %+v, want %+v", m, want)
	}
	if string(claim) != call {
		return fmt.Errorf("it belongs to call %q, want %q", claim, call)
	}
	result := m.outcome
	result.SHA256 = hash(data)
	if !reflect.DeepEqual(o.result, result) {
		return fmt.Errorf("the task's result is %+v, want %+v", o.result, result)
	}
	return checkFiles(dir, m.Files)
}

// machineFiles are the files of every machine, besides its manifest and claim.
var machineFiles = []string{
	"disk.img", "config/hardware.json", "config/machine-id", "config/ssh_host_ed25519_key",
	"config/ssh_host_ed25519_key.pub", "config/network.json", "boot.log",
}

// checkFiles compares the files of a machine with its manifest.
func checkFiles(dir string, files []file) error {
	listed := map[string]*file{}
	for _, f := range files {
		listed[f.Name] = &f
	}
	for _, name := range machineFiles {
		if listed[name] == nil {
			return fmt.Errorf("the manifest does not list %s", name)
		}
	}
	var wrong []error
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path) // which cannot fail below dir
		name = filepath.ToSlash(name)
		switch {
		case name == "." || name == "config" || name == "claim" || name == "machine.json":
			return nil
		case d.IsDir() || listed[name] == nil:
			wrong = append(wrong, fmt.Errorf("%s does not belong to the machine", name))
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if f := listed[name]; int64(len(data)) != f.Size || hash(data) != f.SHA256 {
			wrong = append(wrong, fmt.Errorf("%s has %d bytes with SHA-256 %s, want %d with %s",
				name, len(data), hash(data), f.Size, f.SHA256))
		}
		delete(listed, name)
		return nil
	})
	for name := range listed {
		wrong = append(wrong, fmt.Errorf("%s is missing", name))
	}
	return errors.Join(append(wrong, err)...)
}

func hash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// remains returns what is left in the directory of the machines of a machine of this name and of this call.
func remains(root, name, call string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var left []string
	for _, e := range entries {
		if e.Name() == name || strings.Contains(e.Name(), call) {
			left = append(left, e.Name())
		}
	}
	return left, err
}
