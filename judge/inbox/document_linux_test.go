package inbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/judge/process"
)

var (
	docBlock = regexp.MustCompile("(?s)\n```sh\n(.*?)```")
	docItem  = regexp.MustCompile(`(?m)^\d\. (.*(?:\n {3}.*)*)`)
	// Of an item of the list: whose page is opened, what is written into which field, what is pressed, what is read.
	docStep   = regexp.MustCompile(`Open (\w+)'s URL|Write "([^"]+)" into \*\*([^*]+)\*\*|\*\*([^*]+)\*\*|"([^"]+)"`)
	docPrints = regexp.MustCompile(`"([^"]+)"`)
)

// What docs/approvals.md says of a page is so: its commands are started, and then two people do what its list says,
// word by word. What is in bold is pressed, and what is in quotes is read.
func TestApprovalsAsTheDocumentSays(t *testing.T) {
	here := expect.Must(os.Getwd())(t)
	// The name keeps its dots: go test looks for changes only in files whose names begin with the module's directory.
	page := expect.Must(os.ReadFile(here + "/../../docs/approvals.md"))(t)
	_, section, found := strings.Cut(string(page), "\n## An approval on the page\n")
	section, _, ended := strings.Cut(section, "\n## ")
	blocks, items := docBlock.FindAllStringSubmatch(section, -1), docItem.FindAllStringSubmatch(section, -1)
	if !found || !ended || len(blocks) != 4 || len(items) != 4 {
		t.Fatalf("the section has %d blocks of commands and %d items", len(blocks), len(items))
	}
	b := browser(t)
	typist := newTypist(t)
	typist.types(blocks[0][1], "listening on (.*)")
	urls := map[string]string{
		"Ada": typist.types(blocks[1][1], "sign in at (.*)").said,
		"Bob": typist.types(blocks[2][1], "sign in at (.*)").said,
	}
	called := typist.types(blocks[3][1], "Waiting for 2 (.*)")

	var who *viewer
	for _, item := range items {
		for _, step := range docStep.FindAllStringSubmatch(strings.Join(strings.Fields(item[1]), " "), -1) {
			switch {
			case step[1] != "":
				who = open(t, b, urls[step[1]])
			case step[2] != "":
				field := read(who, chromedp.Evaluate[string](fmt.Sprintf(
					`[...document.querySelectorAll("label")].find((l) => l.textContent === %q).htmlFor`, step[3])))
				mouse{}.write(who, "#"+field, step[2])
			case step[4] != "":
				who.presses(step[4])
			default:
				who.reads(step[5])
			}
		}
	}
	output := called.wait(t)
	for _, claim := range docPrints.FindAllStringSubmatch(blocks[3][1], -1) {
		expect.Contains(t, "the call prints", output, claim[1])
	}
}

// open opens a window in which somebody signs in at a URL.
func open(t *testing.T, b context.Context, url string) *viewer {
	t.Helper()
	s := &scene{T: t}
	v := s.open(b, "", "", wide)
	v.do(chromedp.Navigate(url))
	v.eventually("page behind the URL", func() bool {
		is, err := chromedp.Run(v.ctx, chromedp.Evaluate[bool](`!!document.querySelector("nav.tabs")`))
		return err == nil && is // between two pages there is nothing to ask
	})
	return v
}

// presses presses the link or the button that has a text.
func (v *viewer) presses(text string) {
	v.Helper()
	mark := fmt.Sprintf(`[...document.querySelectorAll("a, button")]
		.find((e) => e.textContent.trim() === %q)?.setAttribute("data-pressed", "") !== undefined`, text)
	v.eventually(fmt.Sprintf("%q to press", text), func() bool {
		v.do(chromedp.Evaluate[chromedp.Void](mark))
		return read(v, chromedp.Evaluate[bool](`!!document.querySelector("[data-pressed]")`))
	})
	mouse{}.press(v, "[data-pressed]")
}

// typist types the commands of a document, each in a terminal of its own, in an empty folder.
type typist struct {
	*testing.T
	host, dir string
	env       []string
}

func newTypist(t *testing.T) *typist {
	t.Helper()
	bin, dir := t.TempDir(), t.TempDir()
	expect.Must(process.Build(t.Context(), bin))(t)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ASKBACK_") })
	return &typist{T: t, dir: dir, // nobody else listens at an address of this network
		host: fmt.Sprintf("127.%d.%d.%d:", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)),
		env: append(env, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
			"XDG_STATE_HOME="+filepath.Join(dir, ".state"), "XDG_CONFIG_HOME="+filepath.Join(dir, ".config"))}
}

// terminal is where a command runs.
type terminal struct {
	said string // what the pattern has found
	rest chan string
}

// types starts the commands of a block, and waits until they print what a pattern finds.
func (d *typist) types(block, pattern string) *terminal {
	d.Helper()
	block = strings.ReplaceAll(block, "127.0.0.1:", d.host)
	block = strings.Replace(block, "askback serve ", "askback serve --addr "+d.host+"8080 ", 1)
	if !strings.Contains(block, "--addr") {
		block = strings.Replace(block, "askback inbox serve ", "askback inbox serve --addr "+d.host+"8081 ", 1)
	}
	cmd := exec.Command("bash", "-c", block)
	cmd.Dir, cmd.Env = d.dir, d.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the shell and what it starts end together
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	expect.Check(d, cmd.Start())
	go func() { _ = cmd.Wait(); in.Close() }()
	d.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _, _ = io.Copy(io.Discard, out) })
	found, term := make(chan string, 1), &terminal{rest: make(chan string, 1)}
	go func() {
		var all strings.Builder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			if m := regexp.MustCompile(pattern).FindStringSubmatch(lines.Text()); m != nil && len(found) == 0 {
				found <- m[1]
			}
		}
		term.rest <- all.String()
	}()
	select {
	case term.said = <-found:
	case all := <-term.rest:
		d.Fatalf("ended: %s\n%s", block, all)
	case <-time.After(time.Minute):
		d.Fatalf("prints nothing like %q: %s", pattern, block)
	}
	return term
}

// wait waits for the end of the commands, and returns all that they have printed.
func (term *terminal) wait(t *testing.T) string {
	t.Helper()
	select {
	case all := <-term.rest:
		return all
	case <-time.After(time.Minute):
		t.Fatal("the command does not end")
		return ""
	}
}
