package inbox

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

var update = flag.Bool("update", false, "rewrite the pictures of the documents")

// pages are what somebody can see, by the names of the files of their pictures, each with who looks.
type shown struct{ name, as, groups, path string }

// pages makes questions in each state, and returns the pages that show them.
func (s *scene) pages() []shown {
	s.Helper()
	open := s.call("deploy", map[string]any{"version": "4.2", "within": "25m"})
	s.votes(open, "ada", "accept", "It runs on staging since Friday: https://ci.example.com/runs/4711")
	s.call("deploy", map[string]any{"version": "4.2", "within": "25m"}) // an equal call
	claimed := s.call("deploy", map[string]any{"version": "4.3"})
	ada := desk.Person{Name: "ada", Groups: []string{"release"}}
	if _, err := s.desk.Claim(s.Context(), claimed.Name, claimed.Key, ada, time.Hour); err != nil {
		s.Fatal(err)
	}
	declined := s.call("deploy", map[string]any{"version": "5.0"})
	s.votes(declined, "ada", "decline", "Not on a Friday.")
	survey := s.call("survey", map[string]any{"month": "2026-10", "for": "the board", "accounts": []int{1100, 1200}})
	away, vm := s.call("connect", nil), s.call("provision_vm", map[string]any{"name": "build-7"})
	archive := s.call("archive", map[string]any{"year": 2025, "note": "返金 استرداد", "all": strings.Repeat("long ", 60)})
	s.votes(archive, "ada", "accept")
	harness.Eventually(s.T, "an approval is remembered", func() bool {
		for range s.desk.Remembered(s.Context(), nil) {
			return true
		}
		return false
	})
	edited := s.call("refund", map[string]any{"order": 4711, "amount": 24.8, "note": "返金 استرداد"})
	return []shown{
		{"edited", "bob", "release", pathOf(edited)},
		{"long", "bob", "release", pathOf(s.call("report", nil))},
		{"list", "bob", "release", "/"},
		{"card", "bob", "release", pathOf(open)},
		{"own", "carol", "release", pathOf(open)},
		{"voted", "ada", "release", pathOf(open) + "?done=accept"},
		{"claimed", "ada", "release", pathOf(claimed)},
		{"declined", "ada", "release", pathOf(declined)},
		{"answered", "ada", "release", "/answered"},
		{"began", "carol", "", "/began"},
		{"form", "bob", "release", pathOf(survey)},
		{"away", "carol", "", pathOf(away)},
		{"fallback", "carol", "", pathOf(vm)},
		{"nothing", "eve", "", "/"},
		{"unknown", "eve", "", pathOf(open)},
		{"help", "bob", "release", "/help"},
		{"remembered", "bob", "release", "/remembered"},
		{"none remembered", "eve", "", "/remembered?ended=1"},
		{"search", "bob", "release", "/?search=4.3&order=newest"},
	}
}

// axe returns the program that looks for what keeps people from using a page.
func axe(t *testing.T) string {
	t.Helper()
	lock := expect.Must(os.ReadFile("package-lock.json"))(t)
	mark, sum := "node_modules/.installed", fmt.Sprintf("%x", sha256.Sum256(lock))
	if installed, err := os.ReadFile(mark); err != nil || string(installed) != sum {
		if out, err := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
			"--loglevel=error").CombinedOutput(); err != nil {
			if _, err := exec.LookPath("npm"); err != nil && os.Getenv(variable) != "required" {
				t.Skip("there is no npm, which fetches axe-core: install the package npm")
			}
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
		expect.Check(t, os.WriteFile(mark, []byte(sum), 0o600))
	}
	program := expect.Must(os.ReadFile("node_modules/axe-core/axe.min.js"))(t)
	return string(program)
}

// checkPage reports what keeps somebody from using the page in the window, as the program finds it, and a page that is
// wider than the window.
func (v *viewer) checkPage(name, program string, l look) {
	v.Helper()
	v.do(chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('details').forEach((d) => { d.open = true; })"))
	v.do(chromedp.Evaluate[chromedp.Void](program))
	for _, finding := range read(v, chromedp.Evaluate[[]string](`axe.run().then((r) => r.violations
		.filter((f) => f.impact === "serious" || f.impact === "critical")
		.map((f) => f.id + ": " + f.help + ": " + f.nodes.map((n) => n.html + " " + n.failureSummary).join("; ")))`,
		chromedp.EvalAwaitPromise)) {
		v.Errorf("%s: %s", name, finding)
	}
	if most := read(v, chromedp.Evaluate[int64]("document.documentElement.scrollWidth")); most > l.width {
		v.Errorf("%s: the page is %d wide", name, most)
	}
}

// No page has anything that keeps somebody from using it, in any size and colours; none is wider than the window; and
// the browser has nothing to complain of, such as a script that the policy forbids.
func TestPagesAreAccessible(t *testing.T) {
	program := axe(t)
	b := browser(t)
	s := newScene(t)
	pages := s.pages()
	for _, l := range []look{wide, narrow, {width: 1280, height: 900, dark: true}, {width: 360, height: 740, dark: true}} {
		viewers := make(map[string]*viewer)
		for _, p := range pages {
			v := viewers[p.as+":"+p.groups]
			if v == nil {
				v = s.open(b, p.as, p.groups, l)
				viewers[p.as+":"+p.groups] = v
			}
			name := fmt.Sprintf("%s at %d, dark %v", p.name, l.width, l.dark)
			v.visit(p.path)
			v.checkPage(name, program, l)
			for _, said := range v.complaints() {
				if p.name != "unknown" || !strings.Contains(said, "404") {
					t.Errorf("%s: the browser says %s", name, said)
				}
			}
		}
	}
}

// The pictures of the documents can be made, and are as large as they should be. With -update they are rewritten.
func TestPictures(t *testing.T) {
	b := browser(t)
	s := newScene(t)
	bob := s.open(b, "bob", "release", look{width: 1000, height: 640})
	for _, p := range s.pages()[2:4] {
		bob.visit(p.path)
		picture := read(bob, chromedp.FullScreenshot(100))
		file := "../../docs/inbox-" + p.name + ".png"
		if *update {
			if err := os.WriteFile(file, picture, 0o644); err != nil { //nolint:gosec // a document
				t.Fatal(err)
			}
		}
		kept, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v: cd judge && go test ./inbox -run Pictures -update", err)
		}
		for name, data := range map[string][]byte{"new": picture, "kept": kept} {
			is, err := png.DecodeConfig(bytes.NewReader(data))
			if err != nil || is.Width != 1000 || len(data) > 150<<10 {
				t.Errorf("the %s picture %s has %d bytes and is %d wide, %v", name, file, len(data), is.Width, err)
			}
		}
	}
}
