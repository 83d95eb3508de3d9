package check

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

const redacted = "[redacted]"

// secret notes a text that no output may have. Texts of a few characters are none: they occur in any text.
func (r *run) secret(text string) {
	if len(text) > 5 && !slices.Contains(r.secrets, text) {
		r.secrets = append(r.secrets, text)
	}
}

// hide notes a state that no output may have. One that stands in the name of its target is no secret.
func (r *run) hide(t *target, state string) {
	if !strings.Contains(t.String(), state) {
		r.secret(state)
	}
}

// redact removes the secrets, as they are and in the encodings in which a server may send them back.
func (r *run) redact() {
	var pairs []string
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range r.secrets {
		quoted, _ := json.Marshal(s) // a string always has a JSON form
		for _, form := range []string{
			s, string(quoted[1 : len(quoted)-1]), url.QueryEscape(s), url.PathEscape(s), hex.EncodeToString([]byte(s)),
			strings.ToUpper(hex.EncodeToString([]byte(s))),
		} {
			pairs = append(pairs, form, redacted)
		}
		// Within a longer text, base64 depends on where the secret begins, and its first and last characters on what is
		// around it.
		for offset := range 3 {
			padded := append(make([]byte, offset), s...)
			for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				text := encoding.EncodeToString(padded)
				first, last := (offset*8+5)/6, len(padded)*8/6
				pairs = append(pairs, text[first:last], redacted)
			}
		}
	}
	clean := strings.NewReplacer(pairs...).Replace
	report := r.report
	for _, text := range []*string{&report.Subject, &report.Name, &report.Revision, &report.Stopped} {
		*text = clean(*text)
	}
	for i := range report.Targets {
		t := &report.Targets[i]
		t.Method, t.Name, t.Why = clean(t.Method), clean(t.Name), clean(t.Why)
		for k := range t.Asks {
			t.Asks[k] = clean(t.Asks[k])
		}
	}
	for i := range report.Verdicts {
		v := &report.Verdicts[i]
		v.Target, v.Reason, v.Remedy = clean(v.Target), clean(v.Reason), clean(v.Remedy)
		if !r.Raw {
			v.Transcript = clean(v.Transcript)
		}
	}
}
