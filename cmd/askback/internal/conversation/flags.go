package conversation

import (
	"cmp"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
)

// connectFlags are the flags for the connection and the output.
type connectFlags struct {
	asJSON  bool
	trace   bool
	headers []string
	version string
	timeout time.Duration
	most    int // bytes of a message
}

func (f *connectFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.headers, "header", nil, "`LINE` to send over HTTP: 'Name: value' or @FILE")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON, for programs")
	flags.StringVar(&f.version, "protocol-version", "", "`DATE` of the protocol's revision to speak")
	flags.DurationVar(&f.timeout, "timeout", 0, "`TIME` for everything, such as 30s")
	cli.MessageBytesFlag(flags, &f.most)
	flags.BoolVar(&f.trace, "trace", false, "tell on standard error who sends what")
}

// check finds mistakes before anything is sent, and reads the headers.
func (f *connectFlags) check(t cli.Target) (http.Header, error) {
	if f.timeout < 0 {
		return nil, cli.Usagef("--timeout %v: want a time above zero", f.timeout)
	}
	if err := cmp.Or(cli.CheckRevision("--protocol-version", f.version), cli.CheckMessageBytes(f.most)); err != nil {
		return nil, err
	}
	if t.Address == nil && len(f.headers) > 0 {
		return nil, cli.Usagef("--header is for servers at a URL: a program has its environment")
	}
	return cli.ParseHeaders(f.headers)
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
		if file, err = cli.ReadInput(f.file, cmd.InOrStdin()); err != nil {
			return nil, cli.Usagef("--answers: %w", err)
		}
	}
	if a.given, err = parseAnswers(f.answers, file); err != nil {
		return nil, err
	}
	if f.sampler != "" {
		if a.sampler, err = cli.SplitCommand(f.sampler); err != nil || len(a.sampler) == 0 {
			return nil, cli.Usagef("--sampler %q: want the command line of a program", f.sampler)
		}
		if _, err := exec.LookPath(a.sampler[0]); err != nil {
			return nil, cli.Usagef("--sampler: there is no program %s", a.sampler[0])
		}
	}
	if f.park != "" {
		a.park = true
		if err := checkPark(f.park, f.resumed); err != nil {
			return nil, err
		}
	}
	if cli.IsTerminal(cmd.InOrStdin()) && cli.IsTerminal(cmd.ErrOrStderr()) {
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
				return nil, cli.Usagef("--root %s: want a path, or a URI that begins with file://", flag)
			}
			roots = append(roots, &mcp.Root{URI: flag})
			continue
		}
		path, err := filepath.Abs(flag)
		if err != nil {
			return nil, cli.Usagef("--root %s: %w", flag, err)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, cli.Usagef("--root %s does not exist", flag)
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
	Ttl     time.Duration
	Detach  bool
}

// register adds the flags. A command that begins tasks also has those for new tasks.
func (f *taskFlags) register(flags *pflag.FlagSet, begins bool) {
	flags.StringVar(&f.dialect, "tasks", "", "`DIALECT`: auto, extension, proposal or off")
	if begins {
		flags.BoolVar(&f.Detach, "detach", false, "print the task's id, do not wait for it")
		flags.DurationVar(&f.Ttl, "task-ttl", 0, "`TIME` to keep the task for")
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
		return cli.Usagef("--tasks %s: want auto, extension, proposal or off", f.dialect)
	case dialect == client.TasksOff && (f.Detach || f.Ttl != 0):
		return cli.Usagef("--tasks off excludes --detach and --task-ttl")
	case f.Ttl < 0:
		return cli.Usagef("--task-ttl %v: want a time above zero", f.Ttl)
	}
	return nil
}

// checkPark checks before a call that it can be parked in the file, which must not exist. Only a resumed call may be
// parked in the file where it was.
func checkPark(file, resumed string) error {
	if file == "-" || file == resumed && file != "" {
		return nil
	}
	if _, err := os.Lstat(file); err == nil {
		return cli.Usagef("--park %s: it exists already: choose another name, or remove it if its call has a result", file)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return cli.Usagef("--park %s: there is no directory %s", file, filepath.Dir(file))
	}
	return nil
}
