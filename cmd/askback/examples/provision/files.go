package provision

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/crypto/ssh"
)

// File is a file of a machine as it was written.
type File struct {
	Name   string `json:"name" jsonschema:"its path in the machine's directory"`
	Size   int64  `json:"size" jsonschema:"in bytes"`
	SHA256 string `json:"sha256"`
}

// write writes a file of the machine atomically: a reader finds all of the file or nothing. It fails if another worker
// has taken over meanwhile.
func (m *machine) write(name string, content func(io.Writer) error) (File, error) {
	f, err := os.CreateTemp(m.workDir(), filepath.Base(name)+"-*")
	if err != nil {
		return File{}, err
	}
	hash := sha256.New()
	if err = content(io.MultiWriter(f, hash)); err == nil {
		err = f.Sync()
	}
	size, seekErr := f.Seek(0, io.SeekCurrent)
	if err = errors.Join(err, seekErr, f.Close()); err == nil {
		err = os.Rename(f.Name(), m.path(name))
	}
	if err != nil {
		os.Remove(f.Name())
		return File{}, err
	}
	return File{Name: name, Size: size, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

func (m *machine) writeBytes(name string, data []byte) (File, error) {
	return m.write(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func (m *machine) writeJSON(name string, v any) (File, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return File{}, err
	}
	return m.writeBytes(name, append(data, '\n'))
}

// writeDisk writes the disk image. Its content depends only on the machine's ID, so that a repeated step writes the
// same content.
func (m *machine) writeDisk(ctx context.Context) (File, error) {
	return m.write("disk.img", func(w io.Writer) error {
		noise := mathrand.NewChaCha8(sha256.Sum256([]byte(m.id())))
		chunk := make([]byte, 1<<20)
		for n := range m.DiskMiB {
			if err := m.progress(ctx, "write-disk", n, fmt.Sprintf("Writing the disk image: %d of %d MiB", n,
				m.DiskMiB)); err != nil {
				return err
			}
			_, _ = noise.Read(chunk) // which cannot fail
			if _, err := w.Write(chunk); err != nil {
				return err
			}
			if err := m.pace(ctx, 1/float64(m.DiskMiB)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *machine) writeConfig(context.Context) ([]File, error) {
	// A secret of this call, so that a repeated step makes the same key.
	seed := sha256.Sum256([]byte(m.call.IdempotencyKey("ssh-host-key")))
	private := ed25519.NewKeyFromSeed(seed[:])
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		return nil, err
	}
	hardware, err := m.writeJSON("config/hardware.json", map[string]int{"cpus": m.CPUs, "memoryMiB": m.MemoryMiB,
		"diskMiB": m.DiskMiB})
	if err != nil {
		return nil, err
	}
	files := []File{hardware}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"config/machine-id", []byte(m.id() + "\n")},
		{"config/ssh_host_ed25519_key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})},
		{"config/ssh_host_ed25519_key.pub", ssh.MarshalAuthorizedKey(public)},
	} {
		file, err := m.writeBytes(f.name, f.data)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// verify compares the files with what was recorded when they were written.
func (m *machine) verify(files []File) error {
	for _, want := range files {
		f, err := os.Open(m.path(want.Name))
		if err != nil {
			return err
		}
		hash := sha256.New()
		size, err := io.Copy(hash, f)
		f.Close()
		if err != nil {
			return err
		}
		if got := hex.EncodeToString(hash.Sum(nil)); size != want.Size || got != want.SHA256 {
			return fmt.Errorf("%s is not as it was written: %d bytes with SHA-256 %s, want %d with %s; "+
				"call provision_vm again, and if that fails too, check the disk",
				f.Name(), size, got, want.Size, want.SHA256)
		}
	}
	return nil
}

// bootCommand returns the command that stands for the boot of a machine. The user's text is in none of its arguments.
func bootCommand(ctx context.Context) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, "uname", "-a")
	if runtime.GOOS == "windows" {
		cmd = exec.CommandContext(ctx, "cmd", "/c", "ver")
	}
	if cmd.Err != nil {
		return nil, fmt.Errorf("the host lacks a program that the boot needs: %w; install it, or add its directory to PATH",
			cmd.Err)
	}
	cmd.WaitDelay = time.Second // for what it may have started
	return cmd, nil
}

// boot runs the boot command, and writes its output to the machine's log.
func (m *machine) boot(ctx context.Context, to network) (File, error) {
	cmd, err := bootCommand(ctx)
	if err != nil {
		return File{}, err
	}
	cmd.Dir = m.dir()
	output, err := cmd.CombinedOutput()
	if err != nil {
		return File{}, fmt.Errorf("%s: %w: %.200s", cmd, err, bytes.TrimSpace(output))
	}
	return m.writeBytes("boot.log", fmt.Appendf(nil, "%s: %d CPUs, %d MiB of memory, network %s\n%s\n%s",
		to.Hostname, m.CPUs, m.MemoryMiB, to.Network, cmd, output))
}

// manifest is the content of machine.json: the request, and its outcome.
type manifest struct {
	Outcome
	Begun     time.Time `json:"begun"`
	Call      string    `json:"call"`
	CPUs      int       `json:"cpus"`
	MemoryMiB int       `json:"memoryMiB"`
	DiskMiB   int       `json:"diskMiB"`
	Fence     int64     `json:"fence"` // of the claim of the worker that finished the machine
}

// writeManifest finishes the machine: a machine with a manifest is complete.
func (m *machine) writeManifest(begun time.Time, out Outcome) (File, error) {
	file, err := m.writeJSON(manifestFile,
		manifest{out, begun, m.call.ID(), m.CPUs, m.MemoryMiB, m.DiskMiB, m.token.Fence})
	if err != nil {
		return File{}, err
	}
	return file, m.sweep() // with what earlier attempts left
}
