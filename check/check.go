// Package check judges a server whose requests ask back, by what one honest client cannot see: another principal, other
// arguments, another replica, and a state that was changed on its way. The attacks are data, in package corpus.
//
//	report, err := check.Run(ctx, check.Options{Server: check.Endpoint{URL: url, Header: header}})
//
// A request that is accepted is no finding by itself. Each attack runs between controls, which are honest calls and
// calls that must not work, and it counts if it has an influence.
//
// The package is frozen. A probe changes only with the clause that it is bound to, or when it accuses a correct server,
// and no feature is added. Defects are mended.
package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/discover"
	"github.com/askback-mcp/askback/check/internal/endpoint"
	"github.com/askback-mcp/askback/check/internal/reading"
	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/tasks"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/check/internal/trial"
)

// Options say what is judged, and how far the check may go. The zero values are the careful ones.
type Options struct {
	Server Endpoint

	Second http.Header // of another principal of the same server; nil if there is no other
	Plan   Plan        // what is known of the server

	Allow []string // names that may be called to their end; "*" is all
	Load  bool     // send what is large, many or long
	Own   bool     // the user says that the server is theirs, which Load needs away from this machine
	Raw   bool     // leave states and answers in transcripts
	Only  []string // IDs of probes, or families of them; empty is all

	MaxRequests int           // zero is 500
	PerSecond   float64       // requests; zero is 5, and without a limit to this machine's own addresses
	Timeout     time.Duration // of the run; zero is a minute, or five away from this machine; with Load three times that

	patience time.Duration // for a response; zero is 3 seconds on this machine, and 10 away from it
	quiet    time.Duration // that a server has to get over a load; zero is 65 seconds

	// Progress, if not nil, is told what the run does next.
	Progress func(what string)
}

// An Endpoint is a server, and the identity that is known to it.
type Endpoint struct {
	URL     string
	Program []string    // the command line of a server that speaks over standard input and output, in place of a URL
	Header  http.Header // of the first identity
}

// An OptionError is a mistake in the options of a check.
type OptionError string

func (e OptionError) Error() string { return string(e) }

// Run judges a server. The error says why nothing could be sent, and is an [OptionError] if the options are wrong.
// The report has what the server does.
func Run(ctx context.Context, o Options) (*findings.Report, error) {
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errTime)
	defer cancel()
	r.judgeAll(ctx)
	r.finish()
	return r.report, nil
}

// judgeAll finds the targets, and runs each probe on each of them.
func (r *run) judgeAll(ctx context.Context) {
	if r.server.Run(ctx); r.Line.Revision == "" {
		return // the probes expect a server of this revision
	}
	r.prepareJudges()
	r.beginExpiry(ctx)
	for turn := range turns {
		for _, t := range append(slices.Clone(r.server.Targets), nil) {
			for _, p := range corpus.Probes() {
				if r.chosen(p) && r.applies(p, t) && turnOf(p) == turn {
					r.tell(strings.TrimSpace(p.ID + " " + t.String()))
					r.report.Verdicts = append(r.report.Verdicts, r.verdict(ctx, p, t))
				}
			}
		}
	}
}

const turns = 3

// turnOf says when a probe comes. First come the probes of questions, which cost little and differ by target. What
// protects states and answers is often the same for all targets, so it does less harm if the requests end there. A load
// comes last, because the server may not bear it.
func turnOf(p corpus.Probe) int {
	switch {
	case p.Family == "questions":
		return 0
	case waits(p), p.Family == "load":
		return 2
	}
	return 1
}

// chosen reports whether a probe is among those that the options name.
func (r *run) chosen(p corpus.Probe) bool {
	return len(r.Only) == 0 || slices.Contains(r.Only, p.ID) || slices.Contains(r.Only, p.Family)
}

var errTime = errors.New("the time of the run is over")

// run is a check that is under way.
type run struct {
	Options
	report *findings.Report
	*talk.Client
	server   *discover.Discovery
	attacks  *trial.Judge
	endpoint *endpoint.Judge
	taskRuns *tasks.Judge
	reader   *reading.Judge
}

// Init finds what a server has, without an attack, and returns the plan that a user completes. The report has what
// asks.
func Init(ctx context.Context, o Options) (Plan, *findings.Report, error) {
	r, err := newRun(o)
	if err != nil {
		return Plan{}, nil, err
	}
	defer r.close()
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errTime)
	defer cancel()
	r.server.Run(ctx)
	r.finish()
	plan := r.Plan
	plan.Calls = r.redactPlanned()
	return plan, r.report, nil
}

func newRun(o Options) (*run, error) {
	r := &run{Options: o, report: &findings.Report{Kind: "server", Started: time.Now().UTC()}}
	return r, r.prepare()
}

func (r *run) prepare() error {
	local, secrets := false, redact.New()
	if len(r.Server.Program) > 0 {
		local = true
		r.report.Subject = r.Server.Program[0]
	} else {
		at, err := url.Parse(r.Server.URL)
		if err != nil || at.Host == "" {
			return OptionError("the address is not a URL, such as http://127.0.0.1:8080/mcp")
		}
		local = transport.IsLocal(at.Hostname())
		r.report.Subject = (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
		secrets.AddToken(at.RawQuery)
		if at.User != nil {
			password, _ := at.User.Password()
			secrets.AddToken(password)
			secrets.AddToken(at.User.Username())
		}
	}
	if r.Load && !local && !r.Own {
		return OptionError("--load sends what may stop a server: away from this machine it needs --i-own-this-server")
	}
	for _, name := range r.Only {
		if !slices.ContainsFunc(corpus.Probes(), func(p corpus.Probe) bool {
			return p.Family != "client" && (p.ID == name || p.Family == name)
		}) {
			return OptionError(fmt.Sprintf("there is no probe of servers %q", name))
		}
	}
	r.MaxRequests = cmp.Or(r.MaxRequests, 500)
	r.quiet = cmp.Or(r.quiet, 65*time.Second)
	longer := time.Duration(1)
	if r.Load {
		longer = 3 // it waits for what the server makes of half a request, and of abandoned rounds
	}
	if local {
		r.Timeout = cmp.Or(r.Timeout, longer*time.Minute)
		r.patience = cmp.Or(r.patience, 3*time.Second)
	} else {
		r.patience = cmp.Or(r.patience, 10*time.Second)
		r.PerSecond = cmp.Or(r.PerSecond, 5)
		r.Timeout = cmp.Or(r.Timeout, longer*5*time.Minute)
	}
	for _, header := range []http.Header{r.Server.Header, r.Second} {
		for _, values := range header {
			for _, value := range values {
				secrets.AddToken(value)
				_, token, _ := strings.Cut(value, " ")
				secrets.AddToken(token)
			}
		}
	}
	answerTexts(r.Plan.Calls, func(text string) {
		secrets.Add(text)
		secrets.Add(talk.JSONText(text))
	})
	line, err := transport.New(transport.Options{URL: r.Server.URL, Program: r.Server.Program, Header: r.Server.Header,
		Second: r.Second, Replica: r.Plan.Replica, Elsewhere: r.Plan.Elsewhere, Local: local,
		MaxRequests: r.MaxRequests, PerSecond: r.PerSecond, Patience: r.patience, Quiet: r.quiet})
	if err != nil {
		return err
	}
	r.Client = talk.New(line, secrets)
	r.server = discover.New(r.Client, r.Plan.Calls, r.Allow, r.tell)
	return nil
}

func (r *run) close() { r.Line.Close() }

func (r *run) tell(what string) {
	if r.Progress != nil {
		r.Progress(r.Secrets.Clean(what))
	}
}

// finish cancels the tasks that are left, and removes what is secret from the report.
func (r *run) finish() {
	// The run may have ended by its time, and what it leaves behind is cleared up nevertheless.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second+r.patience)
	defer cancel()
	left := r.Tasks.Cancel(ctx)
	for _, t := range r.server.Targets {
		r.report.Targets = append(r.report.Targets, discover.Describe(t))
	}
	r.report.Name, r.report.Revision, r.report.Requests = r.server.Name, r.Line.Revision, r.Line.Sent
	r.report.Took = time.Since(r.report.Started)
	r.report.Stopped = cmp.Or(r.Line.Stopped, r.server.Nothing)
	if left > 0 {
		r.report.Stopped = strings.TrimPrefix(fmt.Sprintf("%s; %d tasks of the check could not be cancelled",
			r.report.Stopped, left), "; ")
	}
	r.Secrets.CleanReport(r.report, r.Raw)
}

// redactPlanned returns how things are called, without what a server has put into names, options and constants.
func (r *run) redactPlanned() (calls map[string]PlannedCall) {
	text, err := json.Marshal(r.server.Planned)
	if err != nil {
		return nil
	}
	_ = json.Unmarshal([]byte(r.Secrets.Clean(string(text))), &calls) // without its syntax there is nothing to show
	return calls
}
