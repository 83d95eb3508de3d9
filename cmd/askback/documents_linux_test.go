package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/judge"
)

// repository is the directory of the documents. Its name keeps its dots, because go test would take a result from its
// cache although a file outside of this module has changed.
func repository(t *testing.T) string {
	t.Helper()
	here := expect.Must(os.Getwd())(t)
	return here + "/../.."
}

// left are the commands that this test does not run, as regular expressions, each with the reason. Their packages,
// tests, benchmarks and flags are looked up all the same.
var left = []struct{ command, reason string }{
	{`\b(docker|kubectl)\b`, "needs Docker or a cluster"},
	{`^go test work|^go test \./\.\.\.|^go test -race work`, "is what runs this test"},
	{`\.ci/run`, "runs for 20 minutes, and runs this test"},
	{`^\.ci/(benchdiff |release$)`, "is a measurement or a build that runs for minutes"},
	{`^go (run|tool|test) \./internal/|^cd judge/|^go test .*-bench `,
		"is a measurement or a judge that runs for minutes"},
	{`^curl .*vuln\.go\.dev|^git (push|commit|tag) |^(\w+=\S+ )*go install .*@v`, "needs the network, or a release"},
	{`^for module in |^go mod tidy$`, "needs a module outside, as TestAModuleBesideACloneBuilds has one"},
	{`^askback inbox serve postgres://`,
		"serves until it is stopped, as testdata/inbox_serve.txtar has it"},
	{`^askback call \$url deploy version=4\.2$`,
		"waits for people at browsers, whom TestApprovalsAsTheDocumentSays of judge/inbox has"},
}

// leftPages are documents whose commands this test only looks up, each with the reason.
var leftPages = map[string]string{
	"docs/tutorial.md":         "is typed into a terminal by TestTutorial",
	"examples/fleet/README.md": "needs Docker or a cluster",
}

// docAnswers are given to the commands that ask, because this reader has no terminal.
var docAnswers = []struct{ command, flags string }{
	{`call .* get_weather .*York'$`, `--answer github_login='{"name":"octocat"}'`},
	{`call .* update_work_item `, `--answer resolution='{"resolution":"Fixed"}'`},
	{`call .* close_bug `, `--answer resolution='{"resolution":"Fixed"}'`},
	{`call .* refund(_by_hand)? id=`, `--answer amount='{"amount":40}' --answer sure='{"sure":true}'`},
	{`call .* delete_note .*--header`, `--answer sure='{"sure":true}'`},
	{`resume call.json`, `--answer github_login='{"name":"octocat"}'`},
	{`^askback task result `, `--answer echo_input='{"input":"Hello"}'`},
}

// The documents have each address at this host, and servers at its port 8080.
const (
	documentedHost = "127.0.0.1:"
	documentedPort = "8080"
)

// Every command in a document works, and prints what the document says.
//
// The blocks of sh are run in the order of the page, in one shell and an empty folder. A comment behind a command says
// what it prints: whatever it has in double quotes or with an underscore is looked for. "The exit code is" says another
// one than 0, and "a moment later" that the output has to be waited for. A block of text behind a block of sh is all
// that the block prints, where an ellipsis stands for anything. A page says of each command that prints something what
// it prints, and a variable that takes the output of a command is not empty.
func TestCommandsOfTheDocuments(t *testing.T) {
	t.Parallel()
	pages := documents(t)
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			data := expect.Must(os.ReadFile(repository(t) + "/" + page))(t)
			var runnable []docCommand
			for _, c := range commandsOf(t, string(data)) {
				if reason := cmp.Or(leftPages[page], leftOut(c.text)); reason != "" {
					t.Logf("not run, because it %s: %s", reason, c.text)
					lookUp(t, c.text)
				} else {
					runnable = append(runnable, c)
				}
			}
			for _, span := range inlineCommand.FindAllStringSubmatch(string(data), -1) {
				lookUp(t, strings.ReplaceAll(span[1], `\|`, "|")) // as tables have it
			}
			if len(runnable) > 0 {
				judge.Skip(t)
				newDocReader(t).follow(runnable)
			}
		})
	}
}

// leftOut returns why a command is not run, or "".
func leftOut(text string) string {
	for _, l := range left {
		if regexp.MustCompile(l.command).MatchString(text) {
			return l.reason
		}
	}
	return ""
}

// A command that no document has any more is not on the list.
func TestNothingIsLeftOutForNothing(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, page := range documents(t) {
		data := expect.Must(os.ReadFile(repository(t) + "/" + page))(t)
		for _, c := range commandsOf(t, string(data)) {
			all.WriteString(c.text + "\n")
		}
	}
	for _, l := range left {
		if !regexp.MustCompile("(?m)" + l.command).MatchString(all.String()) {
			t.Errorf("no document has a command like %s", l.command)
		}
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("the documents' commands need bash")
	}
	var pages []string
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/proof/*.md",
		"examples/*/README.md"} {
		found := expect.Must(fs.Glob(os.DirFS(repository(t)), pattern))(t)
		pages = append(pages, found...)
	}
	if len(pages) < 15 {
		t.Fatalf("only the documents %q", pages)
	}
	return pages
}

// docCommand is a command of a document, with the comment behind it and what its block prints.
type docCommand struct {
	text, comment string
	block         int
	prints        *string // of the whole block, on its last command
	shown         bool    // a block of text shows what its block prints
}

var (
	docBlock      = regexp.MustCompile("(?ms)^( *)```(\\w*)\n(.*?)^ *```$")
	inlineCommand = regexp.MustCompile("`((?:go (?:run|test) |cd judge|\\.?/?\\.ci/run|judge/conformance/run|askback " +
		"[a-z])[^`\n]*)`")
	docComment = regexp.MustCompile(`(?m)(?:^|\s)#\s(.*)$`)
)

func commandsOf(t *testing.T, page string) []docCommand {
	t.Helper()
	var all []docCommand
	open := false // the last block was one of commands
	for i, block := range docBlock.FindAllStringSubmatch(page, -1) {
		body := strings.ReplaceAll("\n"+block[3], "\n"+block[1], "\n")[1:]
		switch block[2] {
		case "sh":
			all = append(all, split(t, i, body)...)
		case "text":
			if open {
				last := len(all) - 1
				all[last].prints = &body
				for n := last; n >= 0 && all[n].block == all[last].block; n-- {
					all[n].shown = true
				}
			}
		case "bash", "shell", "console":
			t.Errorf("a block of %s: write sh, and what it prints as text", block[2])
		}
		open = block[2] == "sh"
	}
	return all
}

// split splits a block into commands: as many lines as the shell needs for a whole one.
func split(t *testing.T, block int, body string) (all []docCommand) {
	t.Helper()
	text := ""
	for line := range strings.Lines(body) {
		text += line
		if strings.HasSuffix(text, "\\\n") || exec.Command("bash", "-n", "-c", text).Run() != nil {
			continue
		}
		c := docCommand{block: block}
		if found := docComment.FindStringSubmatch(line); found != nil {
			c.comment = found[1]
		}
		c.text = strings.TrimSpace(docComment.ReplaceAllString(text, ""))
		if c.text != "" {
			all = append(all, c)
		}
		text = ""
	}
	expect.Equal(t, "not a whole command", text, "")
	return all
}

// docReader follows a document.
type docReader struct {
	t    *testing.T
	host string // an IP address and a colon
	dir  string
	env  []string
}

// The commands that build or run what this test is built with use that. A server has an address of its own, and ends
// with this test.
const (
	askbackProgram = `#!/bin/sh
[ "$1" = serve ] && shift && exec "$ASKBACK" serve --addr "$ADDR" --drain-delay 0s --until-eof --lease 2s "$@"
[ "$1 $2" = "inbox serve" ] && shift 2 && exec "$ASKBACK" inbox serve --addr "${ADDR%:*}:8081" --drain-delay 0s "$@"
exec "$ASKBACK" "$@"
`
	goProgram = `#!/bin/sh
case "$1 $2 $3 $4" in
"run ./cmd/askback "*) shift 2; exec askback "$@" ;;
"run ./examples/"*)
	dir=$2 program=./${2##*/}
	shift 2
	"$GO" build -C "$REPOSITORY/$dir" -o "$PWD/$program" . && exec "$program" "$@" ;;
"build -o "*" ./cmd/askback") exec cp "$(command -v askback)" "$3" ;;
"build -o "*" ./examples/hostreport") exec "$GO" build -C "$REPOSITORY" -o "$PWD/$3" "$4" ;;
esac
echo "this reader has no go $*: run it, or put it on the list of what is left out" >&2
exit 1
`
	readerShell = `
set -m # each job is a group of processes
listens() { curl -so /dev/null --max-time 5 "http://$ADDR/healthz"; }
pages= issuer=
finish() {
	for job in $server $pages $1; do kill -KILL -- "-$job"; wait "$job"; done
	server= pages=
	while listens; do sleep 0.05; done
} 2>/dev/null
ready() { # waits until the server listens
	for i in $(seq 1800); do
		listens && return
		kill -0 "$server" 2>/dev/null || return
		sleep 0.05
	done
}
said() { # waits until the output of a job has a text
	for i in $(seq 1800); do grep -qs "$1" "$2" && break; sleep 0.05; done
	kill -0 "$3"
}
trap 'finish $issuer' EXIT
`
)

func newDocReader(t *testing.T) *docReader {
	t.Helper()
	programs := []string{"bash", "sh", "curl", "sed", "cat", "cp", "grep", "seq", "sleep", "tee", "uname"}
	bin, dir := t.TempDir(), t.TempDir()
	for _, name := range programs {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("the documents' commands need %s: %v", name, err)
		}
		expect.Check(t, os.Symlink(program, filepath.Join(bin, name)))
	}
	for name, text := range map[string]string{"askback": askbackProgram, "go": goProgram} {
		expect.Check(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700))
	}
	askback := expect.Must(exec.LookPath("askback"))(t)
	goTool := expect.Must(exec.LookPath("go"))(t)
	root := expect.Must(filepath.Abs(repository(t)))(t)
	expect.Check(t, os.Symlink(filepath.Join(root, "testdata"), filepath.Join(dir, "testdata")))
	// Nobody else listens at an address of this network, so the port stays free when a server is killed.
	host := fmt.Sprintf("127.%d.%d.%d:", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"PATH", keyfile.Variable}, name) || strings.HasSuffix(strings.ToLower(name), "_proxy")
	})
	return &docReader{t: t, host: host, dir: dir, env: append(env, "PATH="+bin, "ASKBACK="+askback, "GO="+goTool,
		"REPOSITORY="+root, "ADDR="+host+documentedPort,
		"ISSUER_ADDR="+host+"9000", "XDG_CONFIG_HOME="+filepath.Join(dir, "config"),
		"XDG_STATE_HOME="+filepath.Join(dir, ".state"), "GORACE=atexit_sleep_ms=1", "GOFLAGS=-buildvcs=false")}
}

// assigns finds the variable that a command sets to what another command prints.
var assigns = regexp.MustCompile(`^(\w+)=\$\(`)

var (
	startsServer = regexp.MustCompile(`askback serve\b|go run \./examples/\w+( |$)`)
	startsPage   = regexp.MustCompile(`^askback inbox serve\b`)               // beside a server
	startsIssuer = regexp.MustCompile(`^go run \./examples/auth/issuer( |$)`) // before a server
)

// follow runs the commands, and compares what they print.
func (r *docReader) follow(commands []docCommand) {
	t := r.t
	t.Helper()
	out := t.TempDir()
	script := readerShell
	for i, c := range commands {
		text := strings.ReplaceAll(c.text, documentedHost, r.host)
		for _, a := range docAnswers {
			if regexp.MustCompile(a.command).MatchString(c.text) {
				text += " " + a.flags
				break
			}
		}
		file := filepath.Join(out, strconv.Itoa(i))
		run := fmt.Sprintf("{ %s\n} >%s 2>&1", text, file)
		switch {
		case startsServer.MatchString(text):
			script += fmt.Sprintf("finish\n%s & server=$!\nready; kill -0 $server 2>/dev/null; code=$?\n", run)
		case startsPage.MatchString(text):
			script += fmt.Sprintf("%s & page=$!; pages=\"$pages $page\"; said '^listening on' %s $page; code=$?\n", run, file)
		case startsIssuer.MatchString(text):
			script += fmt.Sprintf("%s & issuer=$!; said 'listening on' %s $issuer; code=$?\n", run, file)
		case strings.Contains(c.comment, "a moment later") && len(c.claims()) > 0:
			script += fmt.Sprintf("for i in $(seq 600); do\n%s; code=$?\ngrep -qF '%s' %s && break; sleep 0.05\ndone\n", run,
				c.claims()[0], file)
		default:
			script += run + "; code=$?\n"
		}
		if variable := assigns.FindStringSubmatch(c.text); variable != nil {
			script += fmt.Sprintf("[ -n \"$%s\" ] || { echo '%[1]s is empty' >>%s; code=empty; }\n", variable[1], file)
		}
		script += fmt.Sprintf("echo $code >%s.code\n", file)
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir, cmd.Env = r.dir, r.env
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	stdin, err := cmd.StdinPipe() // whose end is also the end of a server
	expect.Check(t, err)
	expect.Check(t, cmd.Start())
	watchdog := time.AfterFunc(8*time.Minute, func() { stdin.Close(); _ = cmd.Process.Kill() })
	_ = cmd.Wait() // each command has its own exit code
	watchdog.Stop()
	stdin.Close()

	printed := ""
	for i, c := range commands {
		output, err := os.ReadFile(filepath.Join(out, strconv.Itoa(i)))
		code, failed := os.ReadFile(filepath.Join(out, strconv.Itoa(i)+".code"))
		if err != nil || failed != nil {
			t.Fatalf("was not run: %s (%v)\n%s", c.text, errors.Join(err, failed), &said)
		}
		if i == 0 || commands[i-1].block != c.block {
			printed = ""
		}
		printed += strings.ReplaceAll(string(output), r.host, documentedHost)
		r.compare(c, string(output), strings.TrimSpace(string(code)), printed)
	}
}

var (
	docClaims = regexp.MustCompile(`"([^"]+)"|([a-z]+_[a-z_]+)`)
	exitCode  = regexp.MustCompile(`the exit code is (\d+)`)
)

// claims are what the comment says that the command prints.
func (c docCommand) claims() (all []string) {
	for _, claim := range docClaims.FindAllStringSubmatch(c.comment, -1) {
		all = append(all, claim[1]+claim[2])
	}
	return all
}

func (r *docReader) compare(c docCommand, output, code, printed string) {
	r.t.Helper()
	want := "0"
	if says := exitCode.FindStringSubmatch(c.comment); says != nil {
		want = says[1]
	}
	if code != want {
		r.t.Errorf("exit code %s, want %s: %s\n%s", code, want, c.text, output)
	}
	for _, claim := range c.claims() {
		if !strings.Contains(output, claim) {
			r.t.Errorf("should print %s: %s\n%s", claim, c.text, output)
		}
	}
	if output != "" && len(c.claims()) == 0 && !c.shown && !startsServer.MatchString(c.text) &&
		!startsIssuer.MatchString(c.text) {
		r.t.Errorf("the page does not say what this prints: %s\n%s", c.text, output)
	}
	if c.prints != nil {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(*c.prints)), "…", ".*")
		if !regexp.MustCompile("^(?s:" + pattern + ")$").MatchString(strings.TrimSpace(printed)) {
			r.t.Errorf("the block of %s prints\n%s\nand not\n%s", c.text, printed, *c.prints)
		}
	}
}
