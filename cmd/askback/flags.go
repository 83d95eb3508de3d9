package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
)

// connectFlags are the flags for the connection and the output.
type connectFlags struct {
	output  string
	trace   bool
	headers []string
	version string
	timeout time.Duration
	most    int // bytes of a message
}

func (f *connectFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.headers, "header", nil, "`LINE` to send over HTTP: 'Name: value' or @FILE")
	flags.StringVar(&f.output, "output", "text", "`FORMAT`: text or json")
	flags.StringVar(&f.version, "protocol-version", "", "`DATE` of the protocol's revision to speak")
	flags.DurationVar(&f.timeout, "timeout", 0, "`TIME` for everything, such as 30s")
	mostFlag(flags, &f.most)
	flags.BoolVar(&f.trace, "trace", false, "tell on standard error who sends what")
}

// mostFlag adds the flag for the bytes of a message.
func mostFlag(flags *pflag.FlagSet, most *int) {
	flags.IntVar(most, "max-bytes", 0, "`N` bytes of one message, at most (default 16 MiB)")
}

// checkMost finds a bound that nothing fits in.
func checkMost(most int) error {
	if most != 0 && most < 1024 {
		return usagef("--max-bytes %d: want at least 1024", most)
	}
	return nil
}

// checkVersion finds a revision that the SDK does not speak. Empty is none.
func checkVersion(flag, version string) error {
	if known := mcp.SupportedProtocolVersions(); version != "" && !slices.Contains(known, version) {
		return usagef("%s %s: want one of %s", flag, version, strings.Join(known, ", "))
	}
	return nil
}

// check finds mistakes before anything is sent, and reads the headers.
func (f *connectFlags) check(t target) (http.Header, error) {
	if f.output != "text" && f.output != "json" {
		return nil, usagef("--output %s: want text or json", f.output)
	}
	if f.timeout < 0 {
		return nil, usagef("--timeout %v: want a time above zero", f.timeout)
	}
	if err := cmp.Or(checkVersion("--protocol-version", f.version), checkMost(f.most)); err != nil {
		return nil, err
	}
	if t.address == nil && len(f.headers) > 0 {
		return nil, usagef("--header is for servers at a URL: a program has its environment")
	}
	return parseHeaders(f.headers)
}

// What a header may consist of (RFC 9110, section 5.6.2 and 5.5).
var (
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	headerValue = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

func parseHeaders(flags []string) (http.Header, error) {
	header := make(http.Header)
	for _, flag := range flags {
		lines := []string{flag}
		if file, ok := strings.CutPrefix(flag, "@"); ok {
			text, err := readInput(file, nil)
			if err != nil {
				return nil, usagef("--header: %w", err)
			}
			lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		}
		for _, line := range lines {
			name, value, ok := strings.Cut(line, ":")
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			if !ok {
				name = ""
			}
			if err := checkHeader(name, value); err != nil {
				return nil, usagef("--header: %w", err)
			}
			header.Add(name, value)
		}
	}
	return header, nil
}

// checkHeader checks a header that a user sends. Its error does not show the value, which may be secret.
func checkHeader(name, value string) error {
	if !headerName.MatchString(name) || !headerValue.MatchString(value) {
		return errors.New("want 'NAME: VALUE', such as 'Authorization: Bearer …'")
	}
	switch canonical := http.CanonicalHeaderKey(name); canonical {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection":
		return fmt.Errorf("%s is the connection's own", canonical)
	}
	return nil
}

// answerFlags are the flags that answer questions.
type answerFlags struct {
	answers []string
	file    string
	park    string
	roots   []string
	sampler string

	resumed string // the file from which the call is resumed
}

func (f *answerFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.answers, "answer", nil, "`KEY=JSON` answers the question KEY")
	flags.StringVar(&f.file, "answers", "", "JSON `FILE` of answers by key, - for stdin")
	flags.StringVar(&f.park, "park", "", "`FILE` to park in where an answer is missing")
	flags.StringArrayVar(&f.roots, "root", nil, "`PATH` or file:// URI to name as a root")
	flags.StringVar(&f.sampler, "sampler", "", "`COMMAND` for sampling: JSON in, text out")
}

// prepare gives the asker the answers of the flags. It returns the roots, nil if there is no --root.
func (f *answerFlags) prepare(cmd *cobra.Command, a *asker) ([]*mcp.Root, error) {
	var file []byte
	var err error
	if f.file != "" {
		if file, err = readInput(f.file, cmd.InOrStdin()); err != nil {
			return nil, usagef("--answers: %w", err)
		}
	}
	if a.given, err = parseAnswers(f.answers, file); err != nil {
		return nil, err
	}
	if f.sampler != "" {
		if a.sampler, err = splitCommand(f.sampler); err != nil || len(a.sampler) == 0 {
			return nil, usagef("--sampler %q: want the command line of a program", f.sampler)
		}
		if _, err := exec.LookPath(a.sampler[0]); err != nil {
			return nil, usagef("--sampler: there is no program %s", a.sampler[0])
		}
	}
	if f.park != "" {
		a.park = true
		if err := checkPark(f.park, f.resumed); err != nil {
			return nil, err
		}
	}
	if isTerminal(cmd.InOrStdin()) && isTerminal(cmd.ErrOrStderr()) {
		a.person = &terminal.Terminal{Later: a.canPark}
	}
	return parseRoots(f.roots)
}

// parseRoots makes roots from paths and file URIs. It returns nil for no flags.
func parseRoots(flags []string) ([]*mcp.Root, error) {
	var roots []*mcp.Root
	for _, flag := range flags {
		if scheme, _, ok := strings.Cut(flag, "://"); ok {
			if scheme != "file" {
				return nil, usagef("--root %s: want a path, or a URI that begins with file://", flag)
			}
			roots = append(roots, &mcp.Root{URI: flag})
			continue
		}
		path, err := filepath.Abs(flag)
		if err != nil {
			return nil, usagef("--root %s: %w", flag, err)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, usagef("--root %s does not exist", flag)
		}
		slashed := filepath.ToSlash(path)
		if !strings.HasPrefix(slashed, "/") {
			slashed = "/" + slashed // C:/…
		}
		roots = append(roots, &mcp.Root{URI: (&url.URL{Scheme: "file", Path: slashed}).String(), Name: filepath.Base(path)})
	}
	return roots, nil
}

// taskFlags are the flags about tasks.
type taskFlags struct {
	dialect string
	ttl     time.Duration
	detach  bool
}

// register adds the flags. A command that begins tasks also has those for new tasks.
func (f *taskFlags) register(flags *pflag.FlagSet, begins bool) {
	flags.StringVar(&f.dialect, "tasks", "", "`DIALECT`: auto, extension, proposal or off")
	if begins {
		flags.BoolVar(&f.detach, "detach", false, "print the task's id, do not wait for it")
		flags.DurationVar(&f.ttl, "task-ttl", 0, "`TIME` to keep the task for")
	}
}

var dialects = map[string]client.TaskDialect{
	"": client.TasksAuto, "auto": client.TasksAuto, "extension": client.TasksExtension, "proposal": client.TasksProposal,
	"off": client.TasksOff,
}

func (f *taskFlags) check() error {
	dialect, ok := dialects[f.dialect]
	switch {
	case !ok:
		return usagef("--tasks %s: want auto, extension, proposal or off", f.dialect)
	case dialect == client.TasksOff && (f.detach || f.ttl != 0):
		return usagef("--tasks off excludes --detach and --task-ttl")
	case f.ttl < 0:
		return usagef("--task-ttl %v: want a time above zero", f.ttl)
	}
	return nil
}

// maxInput is the size limit of a file, in bytes. Arguments, answers and parked calls are far smaller.
const maxInput = 64 << 20

// readInput reads a file, or stdin for "-". Stdin is nil where it cannot be used.
func readInput(file string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the file %s does not exist", file)
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	} else if stdin == nil {
		return nil, errors.New("standard input cannot be used here")
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(text) > maxInput {
		err = fmt.Errorf("%s is larger than %d bytes", file, maxInput)
	}
	return text, err
}

// oneStdin refuses a command line that reads standard input twice. Inputs are the files by flag or argument.
func oneStdin(inputs map[string]string) error {
	var from []string
	for name, file := range inputs {
		if file == "-" || name == "--json" && file == "@-" {
			from = append(from, name)
		}
	}
	if len(from) > 1 {
		slices.Sort(from)
		return usagef("standard input can be %s, not both", strings.Join(from, " or "))
	}
	return nil
}
