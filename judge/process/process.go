// Package process starts the servers that are judged, each in a process of its own, and reads what they use.
//
// A judge measures either the askback command, which [Build] builds and [Start] runs, or a server of its own: then the
// judge runs itself as that server, with [Self] in the one process and [Serve] in the other.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/seal"
)

// Patience is how long a server may take to start or to stop.
const Patience = 2 * time.Minute

// Build builds the askback command of this tree into a directory, and returns its file.
func Build(ctx context.Context, dir string) (program string, err error) {
	program = filepath.Join(dir, "askback")
	return program, BuildGo(ctx, program, "github.com/askback-mcp/askback/cmd/askback")
}

// BuildGo builds a program from a package of this module or of one that its go.mod pins, or from files.
func BuildGo(ctx context.Context, program string, from ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", program}, from...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// FreeAddresses returns addresses of this machine that nobody listens on at present.
func FreeAddresses(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// StartAt is [Start] for a server that is told the address, as HOST:PORT, on which it is to serve a path.
func StartAt(ctx context.Context, path, log string, command func(address string) *exec.Cmd) (*Server, error) {
	at, err := FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	p, err := Start(command(at[0]), log)
	if err != nil {
		return nil, err
	}
	s := &Server{p, "http://" + at[0] + path}
	if err := WaitFor(ctx, s.URL); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%w; its log ends with\n%s", err, Tail(log))
	}
	return s, nil
}

// NewKeys writes a new key into a file that several instances share.
func NewKeys(file string) error {
	ring, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(ring.EncodeSecrets()), 0o600)
}

// Start starts a command whose standard error is appended to the file log. Without a file it is this process's.
func Start(cmd *exec.Cmd, log string) (*child.Process, error) {
	cmd.Stderr = os.Stderr
	if log != "" {
		file, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		cmd.Stderr = file
	}
	p, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, nil
}

// A Server is a process that serves.
type Server struct {
	*child.Process
	URL string // as it is printed when the server listens
}

// StartServer is [Start] for a server that prints a line with its URL, and waits until it listens.
func StartServer(cmd *exec.Cmd, log string) (*Server, error) {
	p, err := Start(cmd, log)
	if err != nil {
		return nil, err
	}
	line, err := p.Wait(Patience)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w; its log ends with\n%s", filepath.Base(cmd.Path), err, Tail(log))
	}
	return &Server{p, line[max(0, strings.Index(line, "http://")):]}, nil
}

// Tail returns the end of a log, or nothing if there is none.
func Tail(log string) string {
	text, _ := os.ReadFile(log)
	return string(text[max(0, len(text)-2000):])
}

// Stop ends a server by SIGTERM, as a supervisor does, and kills it if it takes longer than [Patience].
func Stop(p *child.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop a server: %w", err)
	}
	select {
	case <-p.Dead:
		return nil
	case <-time.After(Patience):
		p.Kill()
		return fmt.Errorf("a server did not stop within %v", Patience)
	}
}

// Sleep waits, and returns the error of ctx if that is done first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WaitFor waits until a GET of the URL has one of these statuses, or any if there are none.
func WaitFor(ctx context.Context, url string, statuses ...int) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	last := "none"
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			if last = res.Status; len(statuses) == 0 || slices.Contains(statuses, res.StatusCode) {
				return nil
			}
		}
		if Sleep(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("%s is not there; its last status was %q: %w", url, last, context.Cause(ctx))
		}
	}
}

// NginxConfig writes a configuration that lets nginx run as a child, with these texts in its block http, and returns
// its file. Nothing of it is outside of dir.
func NginxConfig(dir string, texts ...string) (file string, err error) {
	whole := "daemon off;\npid " + dir + "/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	if os.Geteuid() == 0 { // its workers could not read the files otherwise
		whole = "user root;\n" + whole
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		whole += kind + "_temp_path " + dir + "/" + kind + ";\n"
	}
	file = filepath.Join(dir, "nginx.conf")
	return file, os.WriteFile(file, []byte(whole+strings.Join(texts, "\n")+"\n}\n"), 0o600)
}

// Self returns the command that runs this program again, with these arguments.
func Self(args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	return exec.Command(self, args...), err
}

// Serve serves a handler on a free port of this machine, and prints its URL. It also serves what [Server.Usage]
// reads. It returns when ctx is done, or when standard input ends, as it does with the process that started this one.
func Serve(ctx context.Context, server *http.Server, handler http.Handler) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server.Handler = WithUsage(handler)
	defer context.AfterFunc(ctx, func() { server.Close() })()
	fmt.Printf("http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
