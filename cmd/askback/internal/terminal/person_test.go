package terminal

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/term"

	"github.com/askback-mcp/askback/cmd/askback/internal/ptytest"
	"github.com/askback-mcp/askback/internal/test/expect"
)

const (
	enter  = "\r"
	tab    = "\t"
	esc    = "\x1b"
	up     = "\x1b[A"
	down   = "\x1b[B"
	toLeft = "\x1b[D"
	right  = "\x1b[C"
	back   = "\x7f"
	ctrlC  = "\x03"
	ctrlU  = "\x15"
)

// person sits at a real pseudo-terminal, reads its screen and types.
type person struct {
	t        *testing.T
	keyboard *os.File // the terminal's other end
	tty      *os.File
	before   *term.State
	changed  chan struct{}
	watching sync.WaitGroup

	mu     sync.Mutex
	screen *emulator
	raw    bytes.Buffer // everything that ever reached the terminal
}

func newPerson(t *testing.T) *person {
	t.Helper()
	keyboard, tty := ptytest.Open(t, 40, 80)
	before := expect.Must(term.GetState(tty.Fd()))(t)
	p := &person{t: t, keyboard: keyboard, tty: tty, before: before}
	p.watch()
	t.Cleanup(func() {
		tty.Close()
		keyboard.Close()
	})
	return p
}

// watch lets the emulator have what reaches the terminal.
func (p *person) watch() {
	p.screen = newEmulator(40, 80)
	p.changed = make(chan struct{}, 1)
	p.watching.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, err := p.keyboard.Read(buffer)
			p.mu.Lock()
			p.raw.Write(buffer[:n])
			p.screen.Write(buffer[:n])
			p.mu.Unlock()
			select {
			case p.changed <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	})
}

func (p *person) terminal(env ...string) *Terminal {
	return &Terminal{In: p.tty, Out: p.tty, Env: append([]string{"TERM=xterm-256color"}, env...)}
}

func (p *person) types(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		if _, err := p.keyboard.WriteString(k); err != nil {
			p.t.Fatal(err)
		}
	}
}

// leaves closes the terminal.
func (p *person) leaves() {
	p.keyboard.Close()
	p.watching.Wait()
}

// sees waits until all of these texts are on the screen at once.
func (p *person) sees(texts ...string) {
	p.t.Helper()
	p.waits(fmt.Sprintf("for %q", texts), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// seesNoMore waits until a text is not on the screen.
func (p *person) seesNoMore(text string) {
	p.t.Helper()
	p.waits(fmt.Sprintf("for %q to go", text), func(screen string) bool { return !strings.Contains(screen, text) })
}

// showsOnly waits until this is all that is on the screen.
func (p *person) showsOnly(text string) {
	p.t.Helper()
	p.waits(fmt.Sprintf("for %q alone", text), func(screen string) bool { return screen == text })
}

func (p *person) waits(what string, until func(screen string) bool) {
	p.t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	for {
		p.mu.Lock()
		screen, strange := p.screen.String(), p.screen.strange
		done := until(screen)
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-p.changed:
		case <-deadline.C:
			p.t.Fatalf("waited %s; not understood: %q; the screen:\n%s", what, strange, screen)
		}
	}
}

// gotItBack checks that the terminal is as it was.
func (p *person) gotItBack() {
	p.t.Helper()
	after, err := term.GetState(p.tty.Fd())
	if err != nil {
		p.t.Fatal(err)
	}
	if !reflect.DeepEqual(p.before, after) {
		p.t.Errorf("the terminal was left in another state: %+v, not %+v", after, p.before)
	}
	p.waits("for the cursor and the modes", func(string) bool {
		return p.screen.modes["?25"] && !p.screen.modes["?2004"]
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.screen.strange) > 0 {
		p.t.Errorf("reached the terminal: %q", p.screen.strange)
	}
}

func (p *person) everSaw(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Contains(p.raw.Bytes(), []byte(text))
}

// asked is a question that is being answered elsewhere.
type asked[T any] struct {
	t      *testing.T
	result T
	err    error
	done   chan struct{}
	Cancel context.CancelFunc
}

func ask[T any](t *testing.T, put func(ctx context.Context) (T, error)) *asked[T] {
	ctx, cancel := context.WithCancel(t.Context())
	a := &asked[T]{t: t, done: make(chan struct{}), Cancel: cancel}
	go func() {
		defer close(a.done)
		a.result, a.err = put(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-a.done
	})
	return a
}

func (a *asked[T]) end() (T, error) {
	a.t.Helper()
	select {
	case <-a.done:
	case <-time.After(2 * time.Minute):
		a.t.Fatal("the question did not end")
	}
	return a.result, a.err
}

// emulator is as much of a terminal as the drawing needs. It notes every sequence that it does not know.
type emulator struct {
	cells      [][]rune
	row, col   int
	pending    []byte
	modes      map[string]bool
	strange    []string
	rows, cols int
}

func newEmulator(rows, cols int) *emulator {
	e := &emulator{rows: rows, cols: cols, modes: map[string]bool{"?25": true}}
	for range rows {
		e.cells = append(e.cells, e.blank())
	}
	return e
}

func (e *emulator) blank() []rune { return []rune(strings.Repeat(" ", e.cols)) }

func (e *emulator) String() string {
	var all []string
	for _, row := range e.cells {
		all = append(all, strings.TrimRight(strings.ReplaceAll(string(row), "\x00", ""), " "))
	}
	return strings.TrimRight(strings.Join(all, "\n"), "\n")
}

func (e *emulator) Write(b []byte) {
	e.pending = append(e.pending, b...)
	for len(e.pending) > 0 {
		n := e.step(e.pending)
		if n == 0 {
			return // the rest of a sequence is still to come
		}
		e.pending = e.pending[n:]
	}
}

func (e *emulator) step(b []byte) int {
	switch b[0] {
	case '\r':
		e.col = 0
		return 1
	case '\n':
		if e.row++; e.row == e.rows {
			e.row--
			e.cells = append(e.cells[1:], e.blank())
		}
		return 1
	case '\b':
		e.col = max(0, e.col-1)
		return 1
	case '\t':
		e.col = min(e.cols-1, e.col/8*8+8)
		return 1
	case 0x1b:
		return e.escape(b)
	}
	if !utf8.FullRune(b) {
		return 0
	}
	r, n := utf8.DecodeRune(b)
	if r < ' ' || r == utf8.RuneError || 0x7f <= r && r < 0xa0 {
		e.strange = append(e.strange, string(b[:n]))
		return n
	}
	if e.col < e.cols {
		e.cells[e.row][e.col] = r
		e.col++
	}
	if r >= 0x2e80 && e.col < e.cols { // wide enough for these tests
		e.cells[e.row][e.col] = 0
		e.col++
	}
	return n
}

func (e *emulator) escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] == 'M' { // up, and at the top everything down
		if e.row--; e.row < 0 {
			e.row = 0
			e.cells = append([][]rune{e.blank()}, e.cells[:e.rows-1]...)
		}
		return 2
	}
	if b[1] != '[' {
		e.strange = append(e.strange, string(b[:2]))
		return 2
	}
	end := 2
	for end < len(b) && (b[end] < 0x40 || b[end] > 0x7e) {
		end++
	}
	if end == len(b) {
		return 0
	}
	args, final := string(b[2:end]), b[end]
	n := 1
	first, second, _ := strings.Cut(args, ";")
	if v, err := strconv.Atoi(first); err == nil && v > 0 {
		n = v
	}
	row := e.cells[e.row]
	wipe := func(from, to int) {
		for i := max(0, from); i < min(to, e.cols); i++ {
			row[i] = ' '
		}
	}
	switch final {
	case 'A':
		e.row = max(0, e.row-n)
	case 'B':
		e.row = min(e.rows-1, e.row+n)
	case 'C':
		e.col = min(e.cols-1, e.col+n)
	case 'D':
		e.col = max(0, e.col-n)
	case 'G', '`':
		e.col = min(e.cols, n) - 1
	case 'd':
		e.row = min(e.rows, n) - 1
	case 'H':
		to, _ := strconv.Atoi(second)
		e.row, e.col = min(e.rows, n)-1, min(e.cols, max(1, to))-1
	case 'X':
		wipe(e.col, e.col+n)
	case '@':
		e.cells[e.row] = append(append(append([]rune{}, row[:e.col]...), []rune(strings.Repeat(" ", n))...),
			row[e.col:]...)[:e.cols]
	case 'P':
		e.cells[e.row] = append(append(append([]rune{}, row[:e.col]...), row[min(e.cols, e.col+n):]...),
			[]rune(strings.Repeat(" ", n))...)[:e.cols]
	case 'K':
		switch args {
		case "1":
			wipe(0, e.col+1)
		case "2":
			wipe(0, e.cols)
		default:
			wipe(e.col, e.cols)
		}
	case 'J':
		if args != "" && args != "0" {
			e.strange = append(e.strange, string(b[:end+1]))
		}
		wipe(e.col, e.cols)
		for i := e.row + 1; i < e.rows; i++ {
			e.cells[i] = e.blank()
		}
	case 'h', 'l':
		e.modes[args] = final == 'h'
	case 'W':
		if args != "?5" { // tab stops every eight columns, which this terminal has anyway
			e.strange = append(e.strange, string(b[:end+1]))
		}
	case 'm', 'u', 'p': // colours, the keyboard's protocol, questions about modes
	default:
		e.strange = append(e.strange, string(b[:end+1]))
	}
	return end + 1
}
