package attack

import (
	"encoding/json"
	"testing"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/reading"
	"github.com/askback-mcp/askback/check/internal/record"
	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/internal/rawclient/transcript"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Whatever a server answers, it is read, answered and recorded, with a transcript that can be read.
func FuzzRead(f *testing.F) {
	f.Add("a", `{"resultType":"input_required","requestState":"eyJhIjoxfQ","inputRequests":{"q":{`+
		`"method":"elicitation/create","params":{"message":"?","requestedSchema":{"properties":{`+
		`"a":{"type":"integer","maximum":1e300},"b":{"enum":["x",null]},"c":{"oneOf":[{"const":1}]},`+
		`"d":{"type":"array","items":{"anyOf":[{}]}}}}}}}}`)
	f.Add("a://b", `{"isError":false,"content":[{"type":"text","text":"done"}]}`)
	f.Add("\n--> A", `{"resultType":"input_required","inputRequests":{"{{x}}":{"method":"elicitation/create",`+
		`"params":{"mode":"url","url":"http://u:p@h/?token=eyJ","message":"{{state1}}"}}}}`)
	f.Fuzz(func(t *testing.T, name, result string) {
		if !json.Valid([]byte(result)) {
			return // no response has such a result
		}
		l := expect.Must(transport.New(transport.Options{URL: "http://127.0.0.1:1/mcp"}))(t)
		defer l.Close()
		cl, report := talk.New(l, redact.New()), &findings.Report{}
		k, judge := &Attacker{cl}, &reading.Judge{Client: cl}
		for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
			tg := &talk.Target{Method: method, Name: name, Free: "text",
				Make: func(text string) map[string]any { return map[string]any{"text": text} }}
			c := &talk.Call{Target: tg, Canary: cl.Canary(), Capabilities: transport.AllCapabilities}
			expect.Check(t, cl.Fill(c))
			p := cl.Read(c, &transport.Response{Status: 200, Result: json.RawMessage(result)})
			c.Replies, tg.Rounds = append(c.Replies, p), []*talk.Reply{p}
			steps := []talk.Exchange{{Request: transport.Request{Method: method, Params: tg.Params(c.Arguments),
				Capabilities: c.Capabilities}, Reply: p,
				Status: 200}}
			for _, how := range []string{"", "none", "decline", "action", "kind", "key", "unasked", "schema"} {
				for _, variant := range append(k.Misfits(tg, 1), "") {
					params := tg.Params(c.Arguments)
					params["inputResponses"] = k.alterAnswers(c, how, variant, c.Canary)
					if p.State != nil {
						params["requestState"] = *p.State
					}
					q := transport.Request{Method: method, Params: params, Capabilities: c.Capabilities}
					steps = append(steps, talk.Exchange{Request: q, Reply: p, Status: 200})
				}
			}
			for _, probe := range corpus.Probes() {
				if probe.Reads != "" && probe.Family != "tasks" && probe.Family != "client" {
					_ = judge.Run(t.Context(), probe, tg, new(findings.Verdict)) // some have nothing to read
				}
			}
			if p.State != nil {
				for _, how := range k.Forgeries(tg, *p.State) {
					_, _, _ = k.forge(c, c.Text, *p.State, how) // some do not apply
				}
			}
			text := record.Transcript(corpus.Probe{ID: "a-probe", Title: "A probe"}, steps)
			report.Verdicts = append(report.Verdicts, findings.Verdict{Target: tg.String(), Transcript: text})
		}
		cl.Secrets.CleanReport(report, false)
		for _, v := range report.Verdicts {
			if _, err := transcript.Parse("a-probe", []byte(v.Transcript)); err != nil && v.Transcript != "" {
				t.Errorf("%v\n%.5000s", err, v.Transcript)
			}
		}
	})
}
