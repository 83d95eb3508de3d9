package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
	"github.com/askback-mcp/askback/cmd/askback/internal/ptytest"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/judge"
)

// The reader of docs/tutorial.md begins in an empty folder, writes its blocks of Go, types its blocks of shell and sees
// what its blocks of text show.
func TestTutorial(t *testing.T) {
	judge.Skip(t)
	t.Parallel()
	page := expect.Must(os.ReadFile("../../docs/tutorial.md"))(t)
	const address = "127.0.0.1:8080"
	r := newTutorialReader(t)
	text := strings.ReplaceAll(string(page), address, r.address)
	if !strings.Contains(text, `ListenAndServe("`+r.address) {
		t.Fatalf("the tutorial's server does not listen on %s", address)
	}
	blocks := regexp.MustCompile("(?ms)(?:^Write `([\\w.]+)`:\n\n)?^```(\\w*)\n(.*?)^```$")
	for _, block := range blocks.FindAllStringSubmatch(text, -1) {
		switch kind, body := block[2], block[3]; kind {
		case "go":
			if block[1] == "" {
				t.Fatalf("the tutorial does not say to which file to write\n%s", body)
			}
			r.write(block[1], body, strings.Count(body, "\n"))
		case "diff":
			r.change(body)
		case "sh":
			r.run(body)
		case "text":
			r.compare(body)
		default:
			t.Errorf("a block of %q, which nobody checks:\n%s", kind, body)
		}
	}
	promised := regexp.MustCompile(`and (\d+) lines of Go`).FindStringSubmatch(text)
	if promised == nil || promised[1] != strconv.Itoa(r.lines) {
		t.Errorf("the reader writes %d lines of Go, and the tutorial promises %q", r.lines, promised)
	}
	if len(r.answers) > 0 {
		t.Errorf("the reader was not asked for the answers %q", r.answers)
	}
}

// tutorialReader has a shell on a terminal.
type tutorialReader struct {
	t       *testing.T
	folder  string   // the module that the reader writes
	lines   int      // of Go that the reader has written
	answers []string // what the reader types into the forms

	address string // of the server

	keys   *os.File
	blocks *os.File // the shell reads the name of the next block's file
	ended  *os.File // the shell writes a line after each block
	typed  bool     // whether the last block had a form

	mu     sync.Mutex
	screen strings.Builder // what the terminal has shown since the last block began
}

// shell runs the blocks in one process, because they share variables, background jobs and the directory.
const shell = `while read -r block <&3; do source "$block"; echo ended >&4; done`

// gitClone gives the reader this repository as it is now.
const gitClone = `#!/bin/sh
[ "$*" = "clone https://github.com/askback-mcp/askback" ] && exec ln -s "$REPOSITORY" askback
`

// goBuild gives the reader the command that is tested. Everything else is the go command's.
const goBuild = `#!/bin/sh
[ "$*" = "build -C ../askback -o $PWD/ ./cmd/askback" ] && exec cp "$(command -v askback)" "$5"
exec "$GO" "$@"
`

// tutorialFlags let the go command find what it has built for an earlier reader, whose folder had another name.
const tutorialFlags = "-buildvcs=false -trimpath -ldflags=-w"

func newTutorialReader(t *testing.T) *tutorialReader {
	repository := expect.Must(filepath.Abs("../.."))(t)
	folder, bin := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"git": gitClone, "go": goBuild} {
		expect.Check(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700))
	}
	goTool := expect.Must(exec.LookPath("go"))(t)
	r := &tutorialReader{
		t: t, folder: filepath.Join(folder, "deploy"), address: ownAddress(t),
		answers: []string{"\x1b[B\r", "\r"}, // arrow down and enter for "tonight", enter for "now"
	}

	keys, tty := ptytest.Open(t, 40, 80)
	names, blocks := pipe(t)
	ends, ended := pipe(t)
	cmd := exec.Command("bash", "-c", shell)
	cmd.Dir = folder
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = tty, tty, tty, []*os.File{names, ended}
	cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "REPOSITORY="+repository,
		"GO="+goTool,
		"TERM=xterm", "NO_COLOR=", "ACCESSIBLE=", "LC_ALL=C.UTF-8", "GOFLAGS="+tutorialFlags, "GOWORK=", keyfile.Variable+"=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	expect.Check(t, cmd.Start())
	tty.Close()
	names.Close()
	ended.Close()
	r.keys, r.blocks, r.ended = keys, blocks, ends
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_, _ = io.Copy(r, keys) // until nobody has the terminal open
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with the server
		_ = cmd.Wait()
		<-watched
		keys.Close()
		blocks.Close()
		ends.Close()
	})
	return r
}

// ownAddress returns one that stays free while the server is restarted: its port is not among those that Linux gives to
// outgoing connections.
func ownAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))
		if listener, err := net.Listen("tcp", address); err == nil {
			listener.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

func pipe(t *testing.T) (reader, writer *os.File) {
	t.Helper()
	reader, writer, err := os.Pipe()
	expect.Check(t, err)
	return reader, writer
}

// Write is for what the terminal shows. The reader answers a form when it is drawn.
func (r *tutorialReader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.screen.Write(p)
	if !r.typed && strings.Contains(ansi.Strip(r.screen.String()), "esc leave") && len(r.answers) > 0 {
		r.typed = true
		_, _ = r.keys.WriteString(r.answers[0])
		r.answers = r.answers[1:]
	}
	return len(p), nil
}

// write writes a file. So many of its lines are new.
func (r *tutorialReader) write(name, source string, lines int) {
	r.t.Helper()
	r.lines += lines
	if err := os.WriteFile(filepath.Join(r.folder, name), []byte(source), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// change makes a change to main.go, whose place there must be the only one.
func (r *tutorialReader) change(diff string) {
	r.t.Helper()
	var before, after strings.Builder
	for line := range strings.Lines(diff) {
		mark, line := line[0], line[1:]
		if mark != '+' {
			before.WriteString(line)
		}
		if mark != '-' {
			after.WriteString(line)
		}
	}
	source, err := os.ReadFile(filepath.Join(r.folder, "main.go"))
	if err != nil {
		r.t.Fatal(err)
	}
	if n := strings.Count(string(source), before.String()); n != 1 {
		r.t.Fatalf("main.go has %d places for\n%s", n, diff)
	}
	changed := strings.Replace(string(source), before.String(), after.String(), 1)
	r.write("main.go", changed, strings.Count("\n"+diff, "\n+"))
}

// run types the block, and returns when its last command has ended and a server that it started listens.
func (r *tutorialReader) run(block string) {
	r.t.Helper()
	file, err := os.CreateTemp(r.t.TempDir(), "")
	if err == nil {
		_, err = file.WriteString(block)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.screen.Reset()
	r.typed = false
	r.mu.Unlock()
	r.t.Logf("$ %s", block)
	if _, err := fmt.Fprintln(r.blocks, file.Name()); err != nil {
		r.t.Fatal(err)
	}
	err = r.ended.SetReadDeadline(time.Now().Add(4 * time.Minute)) // a first build of all that the server needs
	if err == nil {
		_, err = io.ReadFull(r.ended, make([]byte, len("ended\n")))
	}
	if err != nil {
		r.t.Fatalf("the block does not end: %v\n%s", err, r.shown())
	}
	if strings.Contains(block, "./deploy >") && !eventually(func() bool {
		conn, err := net.Dial("tcp", r.address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}) {
		r.t.Fatalf("the server does not listen:\n%s", r.shown())
	}
}

// shown returns what the terminal has shown since the last block began.
func (r *tutorialReader) shown() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.ReplaceAll(ansi.Strip(r.screen.String()), "\r", "")
}

// compare fails if the terminal does not show this. An ellipsis stands for what differs each time, and for lines that
// are left out if it is alone on its line. Where the reader filled in a form, other lines may come between, because the
// form was on the screen until then.
func (r *tutorialReader) compare(text string) {
	r.t.Helper()
	pattern := regexp.QuoteMeta(text)
	if r.typed {
		pattern = `(?s).*` + strings.ReplaceAll(pattern, "\n", `\s.*`)
	}
	pattern = regexp.MustCompile(`(?m)^…\n`).ReplaceAllString(pattern, `(?s:.*)`)
	pattern = `^` + strings.ReplaceAll(pattern, "…", ".*") + `$`
	if want := regexp.MustCompile(pattern); !eventually(func() bool { return want.MatchString(r.shown()) }) {
		r.t.Fatalf("the terminal (+) does not show what the tutorial says (-):\n%s", cmp.Diff(text, r.shown()))
	}
}
