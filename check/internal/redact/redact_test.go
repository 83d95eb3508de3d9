package redact

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
)

// A secret is removed wherever it stands in a longer text, also one in base64.
func TestSecretsAreRemovedFromLongerTexts(t *testing.T) {
	t.Parallel()
	const token = "a-secret-token-of-somebody"
	s := New()
	s.AddToken(token)
	for before := range 4 {
		for after := range 4 {
			text := strings.Repeat("<", before) + token + strings.Repeat(">", after)
			for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
				r := &findings.Report{Verdicts: []findings.Verdict{{Reason: "got " + e.EncodeToString([]byte(text)), Target: text}}}
				s.CleanReport(r, false)
				v := r.Verdicts[0]
				if !strings.Contains(v.Reason, Redacted) || strings.Contains(v.Target, token) {
					t.Errorf("%q: %s", text, v.Reason)
				}
				for part := range strings.SplitSeq(strings.TrimPrefix(v.Reason, "got "), Redacted) {
					if len(part) > 8 {
						t.Errorf("%q: %s is left", text, part)
					}
				}
			}
		}
	}
}
