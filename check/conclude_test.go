package check

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A server may spend a state with the first retry, whatever its answers are. The later attempts of an attack must not
// count as refused because of that.
func TestAnAttackHasAStateThatIsValid(t *testing.T) {
	t.Parallel()
	server := planted.New(planted.Options{})
	spent := map[string]bool{}
	var wrong, wrongAndSpent int // retries with content that does not fit
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var m struct {
			ID     int
			Params struct {
				Name           string
				RequestState   string
				InputResponses map[string]struct{ Content map[string]any }
			}
		}
		_ = json.Unmarshal(body, &m)
		p := m.Params
		content := p.InputResponses["name"].Content
		name, isText := content["name"].(string)
		misfit := content != nil && (!isText || len(name) > 60)
		if misfit && spent[p.RequestState] {
			wrongAndSpent++
		} else if misfit {
			wrong++
		}
		if p.RequestState != "" && spent[p.RequestState] {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"the state is spent"}}`))
			return
		}
		spent[p.RequestState] = true
		req.Body = io.NopCloser(bytes.NewReader(body))
		server.ServeHTTP(w, req)
	}))
	t.Cleanup(web.Close)
	report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)},
		Plan:  Plan{Calls: map[string]PlannedCall{"book": {Never: true}, "move": {Never: true}, "thank": {Never: true}}},
		Allow: []string{"greet"}, MaxRequests: 5000, Only: []string{"answers-schema"}})
	expect.Check(t, err)
	i := slices.IndexFunc(report.Verdicts, func(v findings.Verdict) bool { return v.Target == "tools/call greet" })
	if i < 0 || report.Verdicts[i].Level != findings.Pass {
		t.Fatalf("the verdicts are %+v", report.Verdicts)
	}
	if wrong < 2 || wrongAndSpent == 0 {
		t.Errorf("%d attempts had a valid state and %d a spent one; each variant needs a valid one", wrong, wrongAndSpent)
	}
}

// Requests are scarce, so a run that asks for nothing special has to come far with the default.
func TestRequestsAreNotWasted(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(planted.New(planted.Options{}))
	t.Cleanup(web.Close)
	report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)},
		Plan: Plan{Calls: map[string]PlannedCall{"tools/call move": {Never: true}, "thank": {Never: true},
			"redeem": {Never: true}, "prompts/get book": {Never: true}, "planted://guests": {Never: true}}}})
	if err != nil || report.Stopped != "" || len(report.Targets) < 4 {
		t.Errorf("%d targets, %d requests: %v, %s", len(report.Targets), report.Requests, err, report.Stopped)
	}
}
