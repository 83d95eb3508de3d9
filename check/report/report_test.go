package report

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Probes like those of the corpus, whose words change.
var (
	forged = corpus.Probe{ID: "state-forged", Title: "A value in the state is replaced, and the server goes on with it",
		Dimension: "integrity", Clause: "MR-9", Keyword: "MUST",
		Harm: "A client decides what the server believes that it has checked or asked before.",
		Mend: "Seal the state with an AEAD, and refuse a state that does not verify."}
	changed = corpus.Probe{ID: "state-changed", Title: "Some changes of the state are taken", Dimension: "integrity",
		Clause: "MR-10", Keyword: "MUST", Harm: "A client can change a part of the state.", Mend: "Seal the state."}
	principal = corpus.Probe{ID: "state-principal", Title: "The state of one principal is taken from another",
		Dimension: "principal", Clause: "MR-11a", Keyword: "SHOULD", Harm: "Somebody goes on with another's call.",
		Mend: "Put the principal into the protected state."}
	expired = corpus.Probe{ID: "state-expired", Title: "The state is taken after its time", Dimension: "time",
		Clause: "MR-11b", Keyword: "SHOULD", Harm: "A state that leaked long ago still works.", Mend: "Give it a time."}
	credentials = corpus.Probe{ID: "state-credentials", Title: "The state carries a credential in clear",
		Dimension: "secrecy", Keyword: "hardening", Harm: "Hosts keep the state in files, and the credential with it.",
		Mend: "Keep credentials on the server."}
	undeclared = corpus.Probe{ID: "ask-undeclared", Title: "A client that declares no capability is asked",
		Dimension: "capability", Clause: "MR-13", Keyword: "MUST", Harm: "The call hangs.", Mend: "Ask what is declared."}
	password = corpus.Probe{ID: "ask-password", Title: "A form asks for a password, a key or a card",
		Dimension: "secrecy", Clause: "EL-1", Keyword: "MUST NOT", Harm: "The secret is in the model's context.",
		Mend: "Ask for secrets in URL mode."}
	plainURL = corpus.Probe{ID: "ask-url-plain", Title: "The URL of a question is not HTTPS", Dimension: "secrecy",
		Clause: "EL-17", Keyword: "SHOULD", Harm: "Others on the network can change the page.", Mend: "Use https://."}
	link = corpus.Probe{ID: "ask-link", Title: "The text of a form has a link", Dimension: "phishing", Clause: "EL-31",
		Keyword: "SHOULD NOT", Harm: "Hosts do not show where the link leads, and a person may follow it.",
		Mend: "Ask in URL mode, which shows the whole address before the person opens it."}
)

// sample is a report with each level in it.
func sample() *findings.Report {
	r := &findings.Report{
		Subject: "http://127.0.0.1:8080/mcp", Kind: "server", Name: "ships 1.4.0", Revision: "2026-07-28",
		Started: time.Date(2026, 11, 24, 5, 0, 0, 0, time.UTC), Took: 12345 * time.Millisecond, Requests: 214,
		Targets: []findings.Target{
			{Method: "tools/call", Name: "deploy", Asks: []string{"elicitation/create"}, Rounds: 2, Ended: true},
			{Method: "tools/call", Name: "wipe", Asks: []string{"elicitation/create"}, Rounds: 1,
				Why: "it is not marked read-only; --allow wipe"},
		},
	}
	verdict := func(p corpus.Probe, target string, level findings.Level, proof, reason string) *findings.Verdict {
		v := findings.Verdict{Probe: p.ID, Target: target, Dimension: p.Dimension, Level: level, Proof: proof, Reason: reason,
			Title: p.Title, Clause: p.Clause, Keyword: p.Keyword, Harm: p.Harm, Mend: p.Mend}
		if level.AtLeast(findings.Note) {
			v.Transcript = "# " + p.Title + "\n> POST /mcp\n{\"method\":\"tools/call\"}\n< 200\n"
		}
		r.Verdicts = append(r.Verdicts, v)
		return &r.Verdicts[len(r.Verdicts)-1]
	}
	const deploy, wipe = "tools/call deploy", "tools/call wipe"
	verdict(undeclared, deploy, findings.Pass, "", "It refused the call with -32021.")
	verdict(password, deploy, findings.Pass, "", "No form asks for a secret.")
	verdict(password, wipe, findings.Pass, "", "No form asks for a secret.")
	verdict(link, wipe, findings.Note, "observation",
		"The message of \"confirm\" has https://example.com/help in it.")
	verdict(credentials, deploy, findings.Warn, "observation", "The state carries a bearer token at $.auth.")
	verdict(forged, deploy, findings.Fail, "canary",
		"The value \"canary-7f3a\" was put into the state at $.target, and the result names it, three times of three.")
	verdict(principal, deploy, findings.NotJudged, "", "there is one identity only").Remedy =
		"give a second one with --second-header"
	verdict(expired, deploy, findings.NotJudged, "", "it is not known how long a state lasts").Remedy =
		"name its time with \"ttl\" in the file of askback check init"
	v := verdict(plainURL, deploy, findings.Warn, "observation", "The URL http://203.0.113.7/login is not HTTPS.")
	v.Accepted, v.Expires = "The page moves to HTTPS with release 1.5.", "2027-01-31"
	for _, p := range []corpus.Probe{forged, changed, principal} {
		verdict(p, wipe, findings.NotJudged, "", "it may not be called to its end").Remedy = "allow it with --allow wipe"
	}
	return r
}

// hostile has text of a stranger in every member that can have any.
func hostile(text string) *findings.Report {
	r := sample()
	r.Subject, r.Name, r.Revision, r.Stopped, r.Remarks = text, text, text, text, []string{text}
	for i := range r.Targets {
		t := &r.Targets[i]
		t.Method, t.Name, t.Asks, t.Why = text, text, []string{text}, text
	}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		v.Target, v.Reason, v.Remedy, v.Transcript, v.Accepted = text, text, text, text, text
		v.Probe, v.Title, v.Dimension, v.Proof, v.Clause, v.Keyword, v.Harm, v.Mend, v.Expires =
			text, text, text, text, text, text, text, text, text
		if i%2 == 0 {
			v.Accepted = ""
		}
	}
	return r
}

// strange are texts that mean something to a terminal, a browser or a parser.
var strange = []string{
	"", "\x1b[2J\x1b]8;;http://evil.example\x07", "\u202etxt.exe\u2066", "\u009b31m", "\x00\x08\x7f", "\xff\xfe",
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "javascript:alert(1)", "]]>", "<!--", "&#x1b;",
	"a\r\nb\n\n# c", strings.Repeat("w", 9000), "\ufffe\uffff", "😀\u200d", "{{.}}", "`|[x](y)",
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		expect.Check(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want := expect.Must(os.ReadFile(file))(t)
	expect.Diff(t, file, string(want), got)
}

// schemaOf returns the schema of reports, in which no member is allowed that it does not describe.
func schemaOf(t testing.TB) *jsonschema.Resolved {
	t.Helper()
	var all any
	expect.Check(t, json.Unmarshal(Schema, &all))
	var closeObjects func(v any)
	closeObjects = func(v any) {
		object, _ := v.(map[string]any)
		if _, ok := object["properties"].(map[string]any); ok {
			object["additionalProperties"] = false
		}
		for _, member := range object {
			closeObjects(member)
		}
	}
	closeObjects(all)
	text := expect.Must(json.Marshal(all))(t)
	var schema jsonschema.Schema
	expect.Check(t, json.Unmarshal(text, &schema))
	resolved := expect.Must(schema.Resolve(nil))(t)
	return resolved
}

func TestJSONFitsItsSchema(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t)
	full := sample()
	full.Stopped, full.Remarks = "the server answered 503", []string{"an entry has expired"}
	for name, r := range map[string]*findings.Report{
		"a run": sample(), "every member": full, "nothing": {Subject: "./server", Kind: "server"},
	} {
		text := expect.Must(JSON(r))(t)
		var v any
		expect.Check(t, json.Unmarshal([]byte(text), &v))
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJSONKeepsTheReport(t *testing.T) {
	t.Parallel()
	text := expect.Must(JSON(sample()))(t)
	var got struct {
		findings.Report
		Summary counts
	}
	expect.Check(t, json.Unmarshal([]byte(text), &got))
	expect.Diff(t, "the value", *sample(), got.Report)
	want := counts{Fail: 1, Warn: 1, Note: 1, Pass: 3, NotJudged: 5, Accepted: 1, Judged: true}
	expect.Equal(t, "got.Summary", got.Summary, want)
}

func TestTranscriptsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := &findings.Report{Verdicts: []findings.Verdict{
		{Probe: "a", Target: "tools/call x", Transcript: "1"}, {Probe: "a", Target: "tools/call x"},
		{Probe: "a", Target: "tools/call X", Transcript: "2"}, {Probe: "..", Target: "../../etc/passwd", Transcript: "3"},
		{Probe: "a", Target: strings.Repeat("/", 3000) + strings.Repeat("b", 300), Transcript: "4"},
		{Probe: "a", Target: strings.Repeat("/", 3000) + strings.Repeat("b", 300), Transcript: "5"},
		{Probe: "\x00", Transcript: "6"},
	}}
	long := "a-" + strings.Repeat("b", 78)
	want := []string{"a-tools-call-x.txt", "", "a-tools-call-X-2.txt", "etc-passwd.txt", long + ".txt", long + "-2.txt",
		"finding.txt"}
	expect.Diff(t, "the value", want, TranscriptNames(r))
}
