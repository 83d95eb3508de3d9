// Package check judges a server whose requests ask back, by what one honest client cannot see: another principal, other
// arguments, another replica, and a state that was changed on its way. The attacks are data, in package corpus.
//
//	report, err := check.Run(ctx, check.Options{Server: check.Endpoint{URL: url, Header: header}})
//
// A request that is accepted is no finding by itself. Each attack runs between controls, which are honest calls and
// calls that must not work, and it counts if it has an influence: see conclude.go.
//
// The package is frozen. A probe changes only with the clause that it is bound to, or when it accuses a correct server,
// and no feature is added. Defects are mended.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
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
	if r.discover(ctx); r.report.Revision == "" {
		return // nothing that it does is what the probes expect
	}
	r.beginExpiry(ctx)
	for turn := range turns {
		for _, t := range append(slices.Clone(r.targets), nil) {
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
	local  bool // the server is on this machine
	line   *line

	argument    string           // stands for the text of each call in the arguments of targets
	canaries    []string         // all texts that were made up
	usedUp      []*regexp.Regexp // the values that calls use up
	secrets     *secrets         // all texts that no output may have
	tokens      *secrets         // of these, what not even a raw transcript has
	targets     []*target
	otherAsked  string // a request that must not ask, and did
	planned     map[string]PlannedCall
	listed      bool   // a request that must not ask has a result
	lister      string // the method of the first list that has one
	served      *call  // the newest honest request beside those of endpoint probes
	refusal     string // of a list
	refusedCall string // the first call that is refused, and why
	unanswered  unanswered
	expires     time.Time // when the states of expiring calls are no longer valid
	declares    bool      // the server has the extension for tasks
	oldTasks    bool      // the server says that it has the tasks of an earlier revision
	owed        []owed    // tasks that are still to be cancelled
	taskIDs     []string  // of the first identity's tasks, in their order
	nothing     string    // why there are no targets
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
	r.discover(ctx)
	r.finish()
	plan := r.Plan
	plan.Calls = r.redactPlanned()
	return plan, r.report, nil
}

func newRun(o Options) (*run, error) {
	r := &run{Options: o, planned: map[string]PlannedCall{}, secrets: newSecrets(), tokens: newSecrets(),
		report: &findings.Report{Kind: "server", Started: time.Now().UTC()}}
	return r, r.prepare()
}

func (r *run) prepare() error {
	if len(r.Server.Program) > 0 {
		r.local = true
		r.report.Subject = r.Server.Program[0]
	} else {
		at, err := url.Parse(r.Server.URL)
		if err != nil || at.Host == "" {
			return OptionError("the address is not a URL, such as http://127.0.0.1:8080/mcp")
		}
		r.local = isLocal(at.Hostname())
		r.report.Subject = (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
		r.secret(at.RawQuery)
		if at.User != nil {
			password, _ := at.User.Password()
			r.secret(password)
			r.secret(at.User.Username())
		}
	}
	if r.Load && !r.local && !r.Own {
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
	if r.local {
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
				r.secret(value)
				_, token, _ := strings.Cut(value, " ")
				r.secret(token)
			}
		}
	}
	r.argument = r.canary()
	r.Plan.secrets(func(text string) {
		r.secrets.add(text, leastPart)
		r.secrets.add(jsonText(text), leastPart)
	})
	var err error
	r.line, err = newLine(r)
	return err
}

func (r *run) close() { r.line.close() }

func (r *run) tell(what string) {
	if r.Progress != nil {
		r.Progress(r.secrets.clean(what))
	}
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// canary makes up a text that occurs nowhere else.
func (r *run) canary() string {
	b := []byte("canary")
	for range 7 {
		b = append(b, 'a'+byte(rand.IntN(26)))
	}
	r.canaries = append(r.canaries, string(b))
	return string(b)
}

// finish cancels the tasks that are left, and removes what is secret from the report.
func (r *run) finish() {
	// The run may have ended by its time, and what it leaves behind is cleared up nevertheless.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second+r.patience)
	defer cancel()
	r.cancelOwed(ctx)
	for _, t := range r.targets {
		r.report.Targets = append(r.report.Targets, t.shown())
	}
	r.report.Requests = r.line.sent
	r.report.Took = time.Since(r.report.Started)
	if r.report.Stopped = r.line.stopped; r.report.Stopped == "" {
		r.report.Stopped = r.nothing
	}
	if len(r.owed) > 0 {
		r.report.Stopped = strings.TrimPrefix(fmt.Sprintf("%s; %d tasks of the check could not be cancelled",
			r.report.Stopped, len(r.owed)), "; ")
	}
	r.redact()
}
