package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatMakesAMachineWhole(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, dir string, o *order)
		want  string
	}{
		{"nothing is wrong", func(*testing.T, string, *order) {}, ""},
		{"a file was changed", func(t *testing.T, dir string, _ *order) { write(t, filepath.Join(dir, "disk.img"), "x") },
			"disk.img has 1 bytes"},
		{"a file is missing", func(t *testing.T, dir string, _ *order) { os.Remove(filepath.Join(dir, "boot.log")) },
			"boot.log is missing"},
		{"a file is too many", func(t *testing.T, dir string, _ *order) { write(t, filepath.Join(dir, "x"), "") },
			"x does not belong"},
		{"a directory is too many", func(t *testing.T, dir string,
			_ *order) {
			os.Mkdir(filepath.Join(dir, "partial"), 0o700)
		}, "partial does not belong"},
		{"the manifest is missing", func(t *testing.T, dir string,
			_ *order) {
			os.Remove(filepath.Join(dir, "machine.json"))
		}, "machine.json"},
		{"another's claim", func(t *testing.T, dir string, _ *order) { write(t, filepath.Join(dir, "claim"), "d") },
			"belongs to call"},
		{"another answer", func(_ *testing.T, _ string, o *order) { o.network = "bridge" }, "machine.json is"},
		{"another result", func(_ *testing.T, _ string, o *order) { o.result.SHA256 = "" }, "the task's result"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "vm")
			if err := os.MkdirAll(filepath.Join(dir, "config"), 0o700); err != nil {
				t.Fatal(err)
			}
			m := manifest{outcome: outcome{Name: "vm", State: "running", Network: "nat", Hostname: "h"}, Call: "c", CPUs: 1,
				MemoryMiB: 128, DiskMiB: 1}
			for _, name := range machineFiles {
				write(t, filepath.Join(dir, filepath.FromSlash(name)), name)
				m.Files = append(m.Files, file{name, int64(len(name)), hash([]byte(name))})
			}
			data, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "machine.json"), string(data))
			write(t, filepath.Join(dir, "claim"), "c")
			o := &order{name: "vm", network: "nat", hostname: "h", cpus: 1, memory: 128, result: m.outcome}
			o.result.SHA256 = hash(data)
			tt.spoil(t, dir, o)
			err = checkMachine(root, o, "c")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
