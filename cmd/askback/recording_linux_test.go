package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hinshun/vt10x"

	"github.com/askback-mcp/askback/cmd/askback/internal/ptytest"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// The recording that README.md shows. This makes it again:
//
//	go test -run TestRecording ./cmd/askback -record
const recordingFile = "/docs/demo.svg" // of the repository

var record = flag.Bool("record", false, "write docs/demo.svg again")

// A scene is what the screen shows for some time, and the keys that are pressed then.
type scene struct {
	until string // what is on the screen when the scene begins; empty is the end of the program
	form  bool   // the scene begins when nothing more is drawn, and not after this line
	show  time.Duration
	keys  string
}

const (
	keyDown  = "\x1b[B"
	keyEnter = "\r"
)

var demoScenes = []scene{
	{until: "$ askback demo", show: 1500 * time.Millisecond},
	{until: "server 3   port", show: 3 * time.Second},
	{until: "set Bug #4522 to Resolved.", show: 5 * time.Second},
	{until: "question resolution +", show: 2 * time.Second},
	{until: "✗ server 1 killed", show: 3 * time.Second},
	{until: "▸ ( ) Fixed", form: true, show: 4 * time.Second, keys: keyDown},
	{until: "▸ (•) Won't Fix", form: true, show: 500 * time.Millisecond, keys: keyDown},
	{until: "▸ (•) Duplicate", form: true, show: 1500 * time.Millisecond, keys: keyEnter},
	{until: "question duplicate_of +", show: 3 * time.Second},
	{until: "✗ server 2 killed", show: 4 * time.Second},
	{until: "┃ >", form: true, show: 2500 * time.Millisecond, keys: "4"},
	{until: "┃ > 4", form: true, show: 200 * time.Millisecond, keys: "3"},
	{until: "┃ > 43", form: true, show: 200 * time.Millisecond, keys: "0"},
	{until: "┃ > 430", form: true, show: 200 * time.Millisecond, keys: "1"},
	{until: "┃ > 4301", form: true, show: 1500 * time.Millisecond, keys: keyEnter},
	{until: "← the result", show: 3 * time.Second},
	{until: "duplicate link created.", show: 3 * time.Second},
	{show: 8 * time.Second},
}

// The recording shows what the demo shows today, except for the numbers that differ each time.
func TestRecordingOfTheDemo(t *testing.T) {
	t.Parallel()
	stage := startStage(t, 38, 80, "demo")
	if *record {
		stage.record(t, demoScenes)
		return
	}
	file, err := os.Open(repository(t) + recordingFile)
	expect.Check(t, err)
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() > 200_000 {
		t.Errorf("%s has more than 200,000 bytes, or cannot be read (%v)", recordingFile, err)
	}
	frames, err := readRecording(file)
	if err != nil || len(frames) != len(demoScenes) {
		t.Fatalf("%s has %d frames (%v), want %d: record it again with -record", recordingFile, len(frames), err,
			len(demoScenes))
	}
	for i, want := range frames {
		for plain(stage.frame(0).String()) != plain(want) {
			if !stage.show(20 * time.Second) {
				t.Fatalf("scene %d is no longer as in %s. If it is right now, record it again with -record. -recording +demo\n%s",
					i, recordingFile, cmp.Diff(plain(want), plain(stage.frame(0).String())))
			}
		}
		stage.press(t, demoScenes[i].keys)
	}
}

// The numbers that differ each time, and the spaces that depend on their width.
var (
	processNumber = regexp.MustCompile(`(127\.0\.0\.1:|port |pid )\d+ *`)
	stateSize     = regexp.MustCompile(`\d+ bytes`)
	spaces        = regexp.MustCompile(` {2,}`)
)

func plain(screen string) string {
	screen = stateSize.ReplaceAllString(processNumber.ReplaceAllString(screen, "${1}N "), "N bytes")
	return spaces.ReplaceAllString(screen, "  ")
}

// stage is the command on a terminal, and what the terminal shows.
type stage struct {
	ptmx          *os.File
	rows, columns int
	screen        vt10x.Terminal
	output        chan string // line by line, as far as they have come; closed at the end
}

func startStage(t *testing.T, rows, columns int, args ...string) *stage {
	t.Helper()
	ptmx, tty := ptytest.Open(t, rows, columns)
	cmd := exec.Command("askback", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", "ACCESSIBLE=", "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	expect.Check(t, cmd.Start())
	tty.Close()
	s := &stage{ptmx: ptmx, rows: rows, columns: columns,
		screen: vt10x.New(vt10x.WithSize(columns, rows)), output: make(chan string, 10_000)}
	s.write("$ askback " + strings.Join(args, " ") + "\r\n")
	go func() {
		defer close(s.output)
		buffer := make([]byte, 4096)
		for {
			n, err := ptmx.Read(buffer)
			for line := range strings.Lines(string(buffer[:n])) {
				s.output <- line
			}
			if err != nil {
				return // every process has closed the terminal
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for range s.output {
		}
		ptmx.Close()
	})
	return s
}

// show shows the next output, if it comes within the time.
func (s *stage) show(within time.Duration) bool {
	select {
	case output, ok := <-s.output:
		s.write(output)
		return ok
	case <-time.After(within):
		return false
	}
}

// private are the sequences about the keyboard and other things than the picture. The emulator takes some for others.
var private = regexp.MustCompile(`\x1b\[[<=>?][\d;]*\$?[A-Za-z]`)

// write draws faint text in grey, because the emulator knows no faint.
func (s *stage) write(output string) {
	output = strings.ReplaceAll(private.ReplaceAllString(output, ""), "\x1b[2m", "\x1b[90m")
	_, _ = io.WriteString(s.screen, output)
}

func (s *stage) frame(show time.Duration) frame { return capture(s.screen, show) }

func (s *stage) press(t *testing.T, keys string) {
	t.Helper()
	expect.Must(io.WriteString(s.ptmx, keys))(t)
}

// record plays the scenes and writes the recording.
func (s *stage) record(t *testing.T, scenes []scene) {
	var frames []frame
	for i, scene := range scenes {
		for scene.until == "" || !strings.Contains(s.frame(0).String(), scene.until) {
			if !s.show(20 * time.Second) {
				break
			}
		}
		for scene.form && s.show(500*time.Millisecond) {
		}
		f := s.frame(scene.show)
		if !strings.Contains(f.String(), scene.until) {
			t.Fatalf("scene %d: no %q in\n%s", i, scene.until, f)
		}
		frames = append(frames, f)
		s.press(t, scene.keys)
	}
	var svg bytes.Buffer
	title := "A recording of askback demo: a tool asks twice, each server that asked is killed, and the next one continues"
	expect.Check(t, writeRecording(&svg, title, s.columns, s.rows, frames))
	expect.Check(t, os.WriteFile(repository(t)+recordingFile, svg.Bytes(), 0o644))
}
