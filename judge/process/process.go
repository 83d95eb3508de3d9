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
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/askback-mcp/askback/cmd/askback")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build askback: %w\n%s", err, out)
	}
	return program, nil
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

// StartReady is [Start], and returns the line that the server prints when it listens.
func StartReady(cmd *exec.Cmd, log string) (p *child.Process, line string, err error) {
	if p, err = Start(cmd, log); err != nil {
		return nil, "", err
	}
	if line, err = p.Wait(Patience); err != nil {
		return nil, "", fmt.Errorf("start %s: %w; its log ends with\n%s", filepath.Base(cmd.Path), err, Tail(log))
	}
	return p, line, nil
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

// WaitFor waits until a GET of the URL has one of these statuses.
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
			last = res.Status
			for _, status := range statuses {
				if res.StatusCode == status {
					return nil
				}
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s is not there; its last status was %q: %w", url, last, context.Cause(ctx))
		}
	}
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

// A Server is a process that is measured.
type Server struct {
	*child.Process        // nil is this process itself
	URL            string // without a path
}

// StartServer starts a server that prints its URL.
func StartServer(cmd *exec.Cmd) (*Server, error) {
	p, url, err := StartReady(cmd, "")
	return &Server{p, url}, err
}

// Stop kills the process.
func (s *Server) Stop() {
	if s.Process != nil {
		s.Kill()
	}
}

func (s *Server) pid() int {
	if s.Process == nil {
		return os.Getpid()
	}
	return s.PID()
}
