// Package ci judges what runs 'askback check' in the pipelines of others: the action for GitHub, and the examples.
package ci

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"encoding/xml"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/judge"
)

// repository keeps its dots, because go test would take a result from its cache although a file outside of this module
// has changed.
var (
	repository = here() + "/../.."
	folder     = repository + "/.github/actions/check"
)

func here() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}

// action is what a runner reads of an action.
type action struct {
	Inputs  map[string]struct{ Default string }
	Outputs map[string]struct{ Value string }
	Runs    struct {
		Using string
		Steps []step
	}
}

type step struct {
	ID, Uses, Shell, Run string
	Env                  map[string]string
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text := expect.Must(os.ReadFile(file))(t)
	expect.Check(t, yaml.Unmarshal(text, into))
}

// outcome is what a run of the action leaves behind.
type outcome struct {
	code         int
	log, summary string
	output       string // of the action, as its file has it
	workspace    string
}

var input = regexp.MustCompile(`^\$\{\{ inputs\.([a-z-]+) \}\}$`)

// temporary is the runner's directory, which has the command after the first step that builds it.
var (
	temporary string
	builds    sync.Once
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "runner")
	if err != nil {
		panic(err)
	}
	temporary = dir
	code := judge.Run(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// run runs the commands of the action as a runner does, except that the command is built once for all.
func run(t *testing.T, inputs map[string]string) outcome {
	t.Helper()
	var a action
	read(t, folder+"/action.yml", &a)
	for name, in := range a.Inputs {
		if _, ok := inputs[name]; !ok {
			inputs[name] = in.Default
		}
	}
	o := outcome{workspace: t.TempDir()}
	own := t.TempDir() // for temporary files
	output, summary := filepath.Join(t.TempDir(), "output"), filepath.Join(t.TempDir(), "summary")
	environment := append(os.Environ(), "TMPDIR="+own, "GITHUB_OUTPUT="+output, "GITHUB_STEP_SUMMARY="+summary)
	steps := slices.DeleteFunc(a.Runs.Steps, func(s step) bool { return s.Uses != "" })
	if len(steps) != 2 {
		t.Fatalf("%d steps with commands; want one that builds, and one that checks", len(steps))
	}
	builds.Do(func() {
		if out, err := steps[0].command(t, t.TempDir(), inputs, os.Environ()).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
	out, err := steps[1].command(t, o.workspace, inputs, environment).CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		o.code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	o.log, o.output, o.summary = string(out), text(output), text(summary)
	if left, _ := filepath.Glob(own + "/*"); left != nil {
		t.Errorf("the action leaves %q behind", left)
	}
	checkLog(t, o.log)
	return o
}

// command is the shell of a step, with inputs in its environment.
func (s step) command(t *testing.T, dir string, inputs map[string]string, environment []string) *exec.Cmd {
	t.Helper()
	path := expect.Must(filepath.Abs(folder))(t)
	script := filepath.Join(t.TempDir(), "script.sh")
	expect.Check(t, os.WriteFile(script, []byte(s.Run), 0o600))
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", script)
	cmd.Dir = dir
	cmd.Env = append(environment, "GITHUB_ACTION_PATH="+path, "RUNNER_TEMP="+temporary)
	for name, value := range s.Env {
		if m := input.FindStringSubmatch(value); m != nil {
			value = inputs[m[1]]
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

func text(file string) string {
	data, _ := os.ReadFile(file) // what is missing is empty
	return string(data)
}

// order is a line that a runner obeys, as its older form is anywhere in a line.
var order = regexp.MustCompile(`^\s*::([a-zA-Z0-9-]+)(?: [^:]*)?::(.*)|##\[`)

// checkLog reports commands to the runner, except what is between a stop and its end.
func checkLog(t *testing.T, log string) {
	t.Helper()
	stopped := ""
	for line := range strings.Lines(log) {
		m := order.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		switch {
		case m == nil:
		case stopped != "" && m[1] == stopped:
			stopped = ""
		case stopped != "":
		case m[1] == "stop-commands":
			stopped = m[2]
		default:
			t.Errorf("the log commands the runner: %s", line)
		}
	}
	expect.Equal(t, "the commands stay stopped", stopped, "")
}

// serve serves a planted server.
func serve(t *testing.T, fault string, around func(http.Handler) http.Handler) string {
	t.Helper()
	h := planted.New(planted.Options{Fault: fault})
	if around != nil {
		h = around(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL + "/"
}

func TestTheActionFails(t *testing.T) {
	t.Parallel()
	var once sync.Once
	secret := rand.Text() // of this run alone
	url := serve(t, "plain-base64", func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			once.Do(func() { noSecretInACommandLine(t, secret) })
			h.ServeHTTP(w, r)
		})
	})
	o := run(t, map[string]string{"url": url, "allow": "book\ngreet\n", "requests": "20000",
		"header":       "Authorization: Bearer " + planted.Alice + "\nX-Secret: " + secret,
		"other-header": "Authorization: Bearer " + planted.Bob + "\nX-Secret: " + secret + "\n"})
	if o.code != 6 || o.output != "exit-code=6\n" {
		t.Fatalf("exit code %d, outputs %q\n%s", o.code, o.output, o.log)
	}
	for _, want := range []string{"FAIL  A value in the state is replaced", "state-forged"} {
		if !strings.Contains(o.log, want) || !strings.Contains(o.summary, want) {
			t.Errorf("%q is missing in\n%s\n%s", want, o.log, o.summary)
		}
	}
	forged, principal := result{"state-forged", "fail"}, result{"state-principal", "pass"}
	if got := results(t, o, "check.sarif"); !slices.Contains(got, forged) || slices.Contains(got, principal) {
		t.Errorf("the results are %+v", got)
	}
	if err := xml.Unmarshal([]byte(text(o.workspace+"/askback-check/junit.xml")), new(struct{})); err != nil {
		t.Error(err)
	}
	if found, _ := filepath.Glob(o.workspace + "/askback-check/transcripts/state-forged-*.txt"); found == nil {
		t.Error("there is no transcript")
	}
	for _, secret := range []string{planted.Alice, planted.Bob, secret} {
		for name, shown := range everything(t, o) {
			if strings.Contains(shown, secret) {
				t.Errorf("%s has a secret", name)
			}
		}
	}
}

type result struct{ RuleID, Kind string }

// results reads a file of SARIF.
func results(t *testing.T, o outcome, file string) []result {
	t.Helper()
	var log struct{ Runs []struct{ Results []result } }
	err := json.Unmarshal([]byte(text(o.workspace+"/askback-check/"+file)), &log)
	if err != nil || len(log.Runs) != 1 {
		t.Fatalf("%s has %d runs, %v", file, len(log.Runs), err)
	}
	return log.Runs[0].Results
}

// everything is what a run shows or keeps, by its name.
func everything(t *testing.T, o outcome) map[string]string {
	t.Helper()
	all := map[string]string{"the log": o.log, "the summary": o.summary, "the output": o.output}
	err := filepath.WalkDir(o.workspace, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[path] = text(path)
		}
		return err
	})
	if err != nil || len(all) < 6 {
		t.Errorf("%d texts, %v", len(all), err)
	}
	return all
}

// noSecretInACommandLine looks at all processes while the check runs.
func noSecretInACommandLine(t *testing.T, secret string) {
	if runtime.GOOS != "linux" {
		return
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	ours := false
	for _, file := range files {
		line := text(file)
		ours = ours || strings.Contains(line, "--header=@")
		if strings.Contains(line, secret) {
			t.Errorf("a command line has a secret: %q", line)
		}
	}
	if !ours {
		t.Errorf("no command line of %d is the check's", len(files))
	}
}

func TestTheActionPasses(t *testing.T) {
	t.Parallel()
	url := serve(t, "", nil)
	o := run(t, map[string]string{"url": url, "allow": "*", "fail-on": "warn", "requests": "20000", "folder": "my reports",
		"header": "Authorization: Bearer " + planted.Alice})
	if o.code != 0 || o.output != "exit-code=0\n" || !strings.Contains(o.summary, "NO FINDING") {
		t.Errorf("exit code %d, outputs %q\n%s", o.code, o.output, o.log)
	}
	if text(o.workspace+"/my reports/check.sarif") == "" {
		t.Error("there is no report")
	}
	o = run(t, map[string]string{"url": url, "requests": "1", "header": "Authorization: Bearer " + planted.Alice})
	if o.code != 7 {
		t.Errorf("with one request the exit code is %d\n%s", o.code, o.log)
	}
}

// A server that names itself like markup and commands gets neither into the summary nor into the log.
func TestTheActionShowsTextAsText(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("a ", 30) + "</pre><img> ::error::wrong ##[error]wrong ::error::wrong"
	url := serve(t, "", func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			for key, values := range answer.Header() {
				w.Header()[key] = values
			}
			w.Header().Del("Content-Length")
			w.WriteHeader(answer.Code)
			_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte(`"name":"planted"`), []byte(`"name":"`+name+`"`)))
		})
	})
	o := run(t, map[string]string{"url": url, "header": "Authorization: Bearer " + planted.Alice})
	if !strings.Contains(o.log, "::error::wrong") || !strings.Contains(o.summary, "&lt;/pre>&lt;img>") ||
		strings.Contains(o.summary, "<img") {
		t.Errorf("the name is missing, or markup\n%s\n%s", o.log, o.summary)
	}
}

// A program gets its arguments as they are, and no secret.
func TestTheActionStartsAProgram(t *testing.T) {
	t.Parallel()
	o := run(t, map[string]string{"command": "sh\n-c\nenv >variables; echo \"$1\" >argument; echo ::error::x >&2\nsh\n" +
		"$(touch pwned) *\n", "header": "X-Secret: " + planted.Alice})
	if got := text(o.workspace + "/argument"); got != "$(touch pwned) *\n" || text(o.workspace+"/variables") == "" {
		t.Errorf("the argument is %q\n%s", got, o.log)
	}
	if strings.Contains(text(o.workspace+"/variables"), planted.Alice) {
		t.Error("the program gets the secret")
	}
}

// No input is a command of the shell, and a wrong one is said to be wrong.
func TestTheActionRunsNoInput(t *testing.T) {
	t.Parallel()
	var a action
	read(t, folder+"/action.yml", &a)
	for _, attack := range []string{"$(touch pwned)", "`touch pwned`", "\"; touch pwned; \"", "'; touch pwned; '",
		"x\ntouch pwned\n", "a[$(touch pwned)]"} {
		all := make(map[string]string)
		for name := range a.Inputs {
			all[name] = attack
		}
		o := run(t, all)
		if found, _ := filepath.Glob(o.workspace + "/pwned"); found != nil || o.code != 2 {
			t.Errorf("%q is run: %q, exit code %d\n%s", attack, found, o.code, o.log)
		}
	}
	if o := run(t, map[string]string{}); !strings.Contains(o.summary, "askback: the argument URL is missing") {
		t.Errorf("the summary is %s", o.summary)
	}
	for name, inputs := range map[string]map[string]string{
		"nothing": {}, "a flag": {"url": "--help"}, "both": {"url": "http://127.0.0.1:1/", "command": "true"},
	} {
		if o := run(t, inputs); o.code != 2 {
			t.Errorf("%s: exit code %d\n%s", name, o.code, o.log)
		}
	}
}

// The commands of the action have no expression in them, and every input gets to them.
func TestTheActionPassesInputsByTheEnvironment(t *testing.T) {
	t.Parallel()
	var a action
	read(t, folder+"/action.yml", &a)
	used := make(map[string]bool)
	for _, s := range a.Runs.Steps {
		if strings.Contains(s.Run, "${{") || s.Run != "" && s.Shell != "bash" {
			t.Errorf("a step is\n%s\nin %q", s.Run, s.Shell)
		}
		for name, value := range s.Env {
			m := input.FindStringSubmatch(value)
			if m == nil && value != "" {
				t.Errorf("%s is %s", name, value)
			}
			if m != nil {
				if _, ok := a.Inputs[m[1]]; !ok {
					t.Errorf("there is no input %s", m[1])
				}
				used[m[1]] = true
			}
		}
	}
	if a.Runs.Using != "composite" || len(used) != len(a.Inputs) || len(used) == 0 {
		t.Errorf("%s uses %v of %v", a.Runs.Using, used, a.Inputs)
	}
	if v := a.Outputs["exit-code"].Value; v != "${{ steps.check.outputs.exit-code }}" || a.Runs.Steps[2].ID != "check" {
		t.Errorf("the output is %s", v)
	}
}
