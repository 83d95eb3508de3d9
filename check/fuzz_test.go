package check

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/rawclient/transcript"
)

// Whatever a server lists and answers, it is read, answered and recorded, with a transcript that can be read.
func FuzzRead(f *testing.F) {
	f.Add(`{"name":"a","inputSchema":{"required":["b"],"properties":{"b":{"type":"string","maxLength":3}}}}`,
		`{"resultType":"input_required","requestState":"eyJhIjoxfQ","inputRequests":{"q":{"method":"elicitation/create",`+
			`"params":{"message":"?","requestedSchema":{"properties":{"a":{"type":"integer","maximum":1e300},`+
			`"b":{"enum":["x",null]},"c":{"oneOf":[{"const":1}]},"d":{"type":"array","items":{"anyOf":[{}]}}}}}}}}`)
	f.Add(`{"uri":"a://b","arguments":[{"name":"x","required":true}]}`,
		`{"isError":false,"content":[{"type":"text","text":"done"}]}`)
	f.Add(`{"name":"\n--> A"}`, `{"resultType":"input_required","inputRequests":{"{{x}}":{"method":"elicitation/create",`+
		`"params":{"mode":"url","url":"http://u:p@h/?token=eyJ","message":"{{state1}}"}}}}`)
	f.Fuzz(func(t *testing.T, entryText, result string) {
		var entry listed
		if json.Unmarshal([]byte(entryText), &entry) != nil || !json.Valid([]byte(result)) {
			return
		}
		r := &run{planned: map[string]PlannedCall{}, secrets: newSecrets(), tokens: newSecrets(), report: &findings.Report{}}
		r.argument = r.canary()
		for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
			tg, _ := r.newTarget(method, entry)
			if tg == nil {
				continue
			}
			r.plan(tg)
			c := &call{target: tg, canary: r.canary(), able: allCapabilities}
			if err := r.fill(c); err != nil {
				t.Fatal(err)
			}
			p := r.read(c, &response{status: 200, result: json.RawMessage(result)})
			c.replies, tg.rounds = append(c.replies, p), []*reply{p}
			steps := []recorded{{request: request{method: method, params: tg.params(c.arguments), able: c.able}, reply: p,
				status: 200}}
			for _, how := range []string{"", "none", "decline", "action", "kind", "key", "unasked", "schema"} {
				for _, variant := range append(r.misfits(tg, 1), "") {
					params := tg.params(c.arguments)
					params["inputResponses"] = r.alterAnswers(c, how, variant, c.canary)
					if p.state != nil {
						params["requestState"] = *p.state
					}
					q := request{method: method, params: params, able: c.able}
					steps = append(steps, recorded{request: q, reply: p, status: 200})
				}
			}
			for _, read := range readers {
				read(r, tg, p)
			}
			if p.state != nil {
				for _, how := range r.forgeries(tg, *p.state) {
					_, _, _ = r.forge(c, c.text, *p.state, how) // some do not apply
				}
			}
			text := r.transcript(corpus.Probe{ID: "a-probe", Title: "A probe"}, steps)
			r.report.Verdicts = append(r.report.Verdicts, findings.Verdict{Target: tg.String(), Transcript: text})
		}
		r.redact()
		for _, v := range r.report.Verdicts {
			if _, err := transcript.Parse("a-probe", []byte(v.Transcript)); err != nil && v.Transcript != "" {
				t.Errorf("%v\n%.5000s", err, v.Transcript)
			}
		}
	})
}

// A plan that can be read is as it was after it is written.
func FuzzParsePlan(f *testing.F) {
	f.Add(`{"calls":{"a":{"arguments":{"b":"any text"},"answers":{"q":{"x":[1,"two"]}},"toTheEnd":true}},` +
		`"stateTTL":"30s"}`)
	f.Add(`{"stateTTL":"-1s"}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePlan([]byte(text))
		if err != nil {
			return
		}
		p.secrets(func(string) {})
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParsePlan(again); err != nil && !strings.Contains(err.Error(), "exceeded max depth") {
			t.Errorf("%s: %v", again, err)
		}
	})
}
