package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

var update = flag.Bool("update", false, "write the tables of docs/hosts.md from docs/hosts.json")

// hostsFile is docs/hosts.json. Its member "about" says what the others mean.
type hostsFile struct {
	About    []string
	Tried    []hostEntry
	Read     []hostEntry
	NotKnown []string
}

// hostEntry says what one version of a host does.
type hostEntry struct {
	Host, Version, Date string
	Command             string   // of an entry that was tried
	Sources             []string // of an entry that was read
	Revision            string
	Declares, Lacks     []string
	Form, URL, Limit    string
	Note                string
}

const notKnown = "not known"

var (
	hostCapabilities = []string{"form", "url", "sampling", "roots", "tasks"}
	hostRevisions    = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", notKnown}
	hostQuestions    = []string{"shown", "declined", "cancelled", "fails", "not asked", "by program", notKnown}

	hostDate  = regexp.MustCompile(`^20\d\d-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?$`)
	hostLimit = regexp.MustCompile(`^(> )?(\d+h)?(\d+m)?(\d+s)?$`)
)

// faults returns what is wrong with an entry.
func (e *hostEntry) faults(tried bool) (all []string) {
	wrong := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	known := func(s string) bool { return s != "" && s != notKnown }
	for name, s := range map[string]string{"host": e.Host, "version": e.Version, "date": e.Date} {
		wrong(s == "" || strings.ContainsAny(s, "|\n"), "%s is %q", name, s)
	}
	wrong(!known(e.Version) && !known(e.Date), "neither a version nor a date")
	wrong(known(e.Date) && !hostDate.MatchString(e.Date), "date %q is not as 2026-11-23 or 2026-11", e.Date)
	for _, c := range slices.Concat(e.Declares, e.Lacks) {
		wrong(!slices.Contains(hostCapabilities, c), "capability %q is none of %q", c, hostCapabilities)
		wrong(slices.Contains(e.Declares, c) && slices.Contains(e.Lacks, c), "%s is both declared and lacking", c)
	}
	wrong(!slices.Contains(hostRevisions, e.Revision), "revision %q is none of %q", e.Revision, hostRevisions)
	for name, s := range map[string]string{"form": e.Form, "url": e.URL} {
		wrong(!slices.Contains(hostQuestions, s), "%s %q is none of %q", name, s, hostQuestions)
		lacks := slices.Contains(e.Lacks, name) || tried && !slices.Contains(e.Declares, name)
		wrong(lacks != (s == "not asked"), "%s is %q, declared %q, and lacking %q", name, s, e.Declares, e.Lacks)
	}
	_, err := time.ParseDuration(strings.TrimPrefix(e.Limit, "> "))
	wrong(e.Limit != notKnown && (err != nil || !hostLimit.MatchString(e.Limit)), "limit %q is not a duration such as 1m",
		e.Limit)
	n := len(strings.Fields(e.Note))
	wrong(n > 12 || strings.ContainsAny(e.Note, "|\n"), "note %q has %d words", e.Note, n)
	if tried {
		wrong(!known(e.Version) || !known(e.Date) || e.Command == "" || e.Lacks != nil || e.Sources != nil,
			"what was tried has a version, a date and a command, and neither lacks nor sources")
		return all
	}
	wrong(len(e.Sources) == 0 || e.Command != "", "what was read has sources, and no command")
	for _, s := range e.Sources {
		u, err := url.Parse(s)
		wrong(err != nil || u.Scheme != "https" || u.Host == "", "source %q is not an address", s)
	}
	return all
}

// declared returns the capabilities for a cell.
func (e *hostEntry) declared(tried bool) string {
	said := "nothing"
	switch {
	case len(e.Declares) > 0:
		said = strings.Join(e.Declares, ", ")
	case !tried && len(e.Lacks) < len(hostCapabilities):
		said = notKnown
	}
	if !tried && len(e.Lacks) > 0 && len(e.Lacks) < len(hostCapabilities) {
		said = strings.TrimPrefix(said+"; ", notKnown+"; ") + "no " + strings.Join(e.Lacks, ", ")
	}
	return said
}

var issueAddress = regexp.MustCompile(`^https://github\.com/[^/]+/([^/]+)/(?:issues|pull)/(\d+)$`)

// known returns links to the sources for a cell.
func (e *hostEntry) known() string {
	var links []string
	for _, s := range e.Sources {
		text, _, _ := strings.Cut(strings.TrimPrefix(s, "https://"), "/")
		if m := issueAddress.FindStringSubmatch(s); m != nil {
			text = m[1] + "#" + m[2]
		} else if text == "github.com" {
			text = s[strings.LastIndex(s, "/")+1:]
		}
		links = append(links, "["+text+"]("+s+")")
	}
	return strings.Join(links, ", ")
}

// hostTables returns the tables of the page by the names of their markers.
func hostTables(f *hostsFile) map[string]string {
	var tried, read strings.Builder
	row := func(b *strings.Builder, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
	noted := func(s, note string) string { return strings.TrimSuffix(s+" ("+note+")", " ()") }
	row(&tried, "host", "started with", "date", "revision", "declares", "form", "URL", "limit")
	tried.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, e := range f.Tried {
		row(&tried, e.Host+" "+e.Version, "`"+e.Command+"`", e.Date, e.Revision, e.declared(true), noted(e.Form, e.Note),
			e.URL, e.Limit)
	}
	row(&read, "host", "date", "revision", "declares", "form", "URL", "known from")
	read.WriteString("|---|---|---|---|---|---|---|\n")
	for _, e := range f.Read {
		note := e.Note
		if e.Limit != notKnown {
			note = strings.TrimPrefix(note+"; limit "+e.Limit, "; ")
		}
		row(&read, strings.TrimSuffix(e.Host+" "+e.Version, " "+notKnown), e.Date, e.Revision, e.declared(false),
			noted(e.Form, note), e.URL, e.known())
	}
	return map[string]string{"tried": tried.String(), "read": read.String(),
		"not known": "Nothing was found about " + strings.Join(f.NotKnown, " and ") + ".\n"}
}

// The tables of docs/hosts.md are docs/hosts.json, in which each entry says where it is known from, and when.
func TestHosts(t *testing.T) {
	const dataFile, pageFile = "../../docs/hosts.json", "../../docs/hosts.md"
	data := expect.Must(os.ReadFile(dataFile))(t)
	var f hostsFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		t.Fatalf("%s: %v", dataFile, err)
	}
	if len(f.Tried) == 0 || len(f.Read) == 0 {
		t.Errorf("%s has %d entries of what was tried and %d of what was read", dataFile, len(f.Tried), len(f.Read))
	}
	for i, e := range slices.Concat(f.Tried, f.Read) {
		for _, fault := range e.faults(i < len(f.Tried)) {
			t.Errorf("%s, %s %s: %s", dataFile, e.Host, e.Version, fault)
		}
	}
	before := expect.Must(os.ReadFile(pageFile))(t)
	page := string(before)
	for name, table := range hostTables(&f) {
		begin, end := "<!-- hosts.json: "+name+" -->\n", "<!-- end -->"
		head, rest, found := strings.Cut(page, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no lines %q and %q", pageFile, begin, end)
		}
		page = head + begin + "\n" + table + "\n" + end + tail
	}
	if page == string(before) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what %s says: run go test -run TestHosts -update . in internal/tools", pageFile, dataFile)
	}
	expect.Check(t, os.WriteFile(pageFile, []byte(page), 0o600))
}

// An entry with a fault is found.
func TestFaultsOfHosts(t *testing.T) {
	good := func() hostEntry {
		return hostEntry{Host: "h", Version: "1", Date: "2026-11-23", Revision: "2025-11-25",
			Sources: []string{"https://a.b/c"}, Declares: []string{"form"}, Lacks: []string{"url"}, Form: "shown",
			URL: "not asked", Limit: "1m30s"}
	}
	if e := good(); e.faults(false) != nil {
		t.Errorf("a good entry has faults: %q", e.faults(false))
	}
	for want, spoil := range map[string]func(*hostEntry){
		"sources":     func(e *hostEntry) { e.Sources = nil },
		"address":     func(e *hostEntry) { e.Sources = []string{"a.b"} },
		"nor a date":  func(e *hostEntry) { e.Version, e.Date = notKnown, notKnown },
		"version is":  func(e *hostEntry) { e.Version = "" },
		"is not as":   func(e *hostEntry) { e.Date = "yesterday" },
		"capability":  func(e *hostEntry) { e.Declares = append(e.Declares, "forms") },
		"revision":    func(e *hostEntry) { e.Revision = "newest" },
		"is none of":  func(e *hostEntry) { e.Form = "yes" },
		"and lacking": func(e *hostEntry) { e.URL = "shown" },
		"limit":       func(e *hostEntry) { e.Limit = "a minute" },
		"note":        func(e *hostEntry) { e.Note = strings.Repeat("word ", 13) },
		"no command":  func(e *hostEntry) { e.Command = "h" },
	} {
		e := good()
		spoil(&e)
		if all := strings.Join(e.faults(false), "; "); !strings.Contains(all, want) {
			t.Errorf("the faults of %+v are %q, want one with %q", e, all, want)
		}
	}
	if e := good(); !strings.Contains(strings.Join(e.faults(true), ""), "neither lacks") {
		t.Error("an entry that was read passes as tried")
	}
}
