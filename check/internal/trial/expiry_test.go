package trial

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/discover"
	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/check/internal/verdict"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// However many calls wait for the end of their states' time, it passes once: all of them begin before it does.
func TestTheTimeOfStatesPassesOnce(t *testing.T) {
	t.Parallel()
	const ttl = 500 * time.Millisecond
	web := httptest.NewServer(planted.New(planted.Options{Fault: "expiry-ignored", TTL: ttl}))
	t.Cleanup(web.Close)
	l, err := transport.New(transport.Options{URL: web.URL, Header: http.Header{"Authorization": {"Bearer " +
		planted.Alice}}, Local: true,
		MaxRequests: 5000, Patience: time.Minute})
	expect.Check(t, err)
	defer l.Close()
	d := discover.New(talk.New(l, redact.New()), nil, []string{"*"}, func(string) {})
	d.Run(t.Context())
	j := New(d.Client, d.Targets, ttl)
	for _, target := range d.Targets {
		if target.StateRound() > 0 {
			j.Begin(t.Context(), target)
		}
	}
	for _, target := range d.Targets {
		if want := verdict.Repeats; target.StateRound() > 0 && len(j.expiring[target]) != want {
			t.Errorf("%s: %d calls wait, want %d", target, len(j.expiring[target]), want)
		}
	}
	before, found := j.expires, 0
	for _, target := range d.Targets {
		for _, p := range corpus.Probes() {
			if p.ID != "state-expired" || target.StateRound() == 0 {
				continue
			}
			var v findings.Verdict
			if j.Run(t.Context(), p, target, &v) == nil && v.Level == findings.Warn {
				found++
			}
		}
	}
	if found < 5 || !j.expires.Equal(before) {
		t.Errorf("%d findings", found)
	}
}
