package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// A Baseline has the findings that its author accepts for a time. They do not count until then.
type Baseline struct {
	Entries []Entry `json:"entries"`
}

// An Entry covers a finding that is no graver than its level.
type Entry struct {
	Probe     string         `json:"probe"`
	Target    string         `json:"target,omitempty"`
	Dimension string         `json:"dimension,omitempty"`
	Level     findings.Level `json:"level"`
	Reason    string         `json:"reason"`
	Expires   string         `json:"expires"` // the last day on which it counts, in UTC
}

// ParseBaseline reads a baseline. It refuses members that it does not know, and entries without a reason or a date.
func ParseBaseline(text []byte) (*Baseline, error) {
	if err := strictjson.Check(text, 8); err != nil {
		return nil, err
	}
	var b Baseline
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&b); err != nil {
		return nil, err
	}
	for i, e := range b.Entries {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return &b, nil
}

func (e Entry) check() error {
	switch {
	case e.Probe == "":
		return errors.New(`"probe" is missing`)
	case e.Level == findings.Pass || !e.Level.AtLeast(findings.Note) || !slices.Contains(findings.Levels, e.Level):
		return fmt.Errorf("level %q: want fail, warn or note", e.Level)
	case strings.TrimSpace(e.Reason) == "":
		return errors.New(`"reason" is missing: say why the finding is accepted`)
	}
	return checkDate(e.Expires)
}

func checkDate(date string) error {
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return fmt.Errorf(`"expires" is %q: want a date such as 2026-12-31`, date)
	}
	return nil
}

func (e Entry) expired(now time.Time) bool { return now.UTC().Format(time.DateOnly) > e.Expires }

// about reports whether the entry names what was judged.
func (e Entry) about(v findings.Verdict) bool {
	return e.Probe == v.Probe && e.Target == v.Target && e.Dimension == v.Dimension
}

func (e Entry) name() string {
	return fmt.Sprintf("%s on %s", e.Probe, place(findings.Verdict{Target: e.Target}))
}

// Apply accepts the findings that the baseline covers at a time, and remarks on the entries that cover nothing.
func (b *Baseline) Apply(r *findings.Report, now time.Time) {
	for _, e := range b.Entries {
		if remark := e.apply(r, now); remark != "" {
			r.Remarks = append(r.Remarks, e.name()+" "+remark)
		}
	}
}

// apply returns why an entry covers nothing, or not all that it names.
func (e Entry) apply(r *findings.Report, now time.Time) (remark string) {
	if e.expired(now) {
		return "is not covered any more: the entry expired on " + e.Expires
	}
	remark = "is in the baseline, and is no finding"
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		switch {
		case !e.about(*v) || !isFinding(*v) || v.Accepted != "":
		case !e.Level.AtLeast(v.Level):
			return fmt.Sprintf("is not covered: the baseline accepts %s, and it is %s", e.Level, v.Level)
		default:
			v.Accepted, v.Expires, remark = e.Reason, e.Expires, ""
		}
	}
	return remark
}

// NewBaseline accepts the findings of a report for a reason, until a date. It keeps what a baseline already accepts.
func NewBaseline(r *findings.Report, reason, expires string) (*Baseline, error) {
	b := &Baseline{Entries: []Entry{}}
	for _, v := range r.Verdicts {
		e := Entry{v.Probe, v.Target, v.Dimension, v.Level, reason, expires}
		if v.Accepted != "" {
			e.Reason, e.Expires = v.Accepted, v.Expires
		}
		switch at := slices.IndexFunc(b.Entries, func(other Entry) bool { return other.about(v) }); {
		case !isFinding(v):
		case at < 0:
			b.Entries = append(b.Entries, e)
		case v.Level.AtLeast(b.Entries[at].Level):
			b.Entries[at] = e
		}
	}
	for _, e := range b.Entries {
		if err := e.check(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// JSON writes a baseline for its file.
func (b *Baseline) JSON() (string, error) { return indented(b) }
