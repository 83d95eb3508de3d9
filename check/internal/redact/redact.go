// Package redact removes secrets from what a run shows: tokens, states and answers, also where a server has cut or
// encoded them.
package redact

import "github.com/askback-mcp/askback/check/findings"

// Secrets are the texts of a run that no output may have. It is not safe for concurrent use.
type Secrets struct {
	all    *set
	tokens *set // of these, what not even a raw transcript has
}

// New returns secrets without a text.
func New() *Secrets { return &Secrets{newSet(), newSet()} }

// AddToken notes a text that no output may have, not even a piece of ten characters.
func (s *Secrets) AddToken(text string) {
	s.all.add(text, leastPiece)
	s.tokens.add(text, leastPiece)
}

// Add notes a state or an answer, of which short parts occur in any text. Raw transcripts have them.
func (s *Secrets) Add(text string) { s.all.add(text, leastPart) }

// Clean removes the secrets from a text: as they are, and in what may be an encoding of them. It finds them in any
// case, cut to ten characters, with anything but letters and digits between them, and backwards; escaped as in URLs,
// HTML, JSON, Go and C; in hexadecimal, base32, base64, gzip and lists of character codes, also in groups; and in up to
// three of these at once. Ciphers and translations are not found.
func (s *Secrets) Clean(text string) string { return s.all.clean(text) }

// CleanReport removes the secrets from a report. Its transcripts keep states and answers if they are raw.
func (s *Secrets) CleanReport(report *findings.Report, raw bool) {
	cleaned := map[string]string{} // most texts come often
	clean := func(text *string) {
		if _, ok := cleaned[*text]; !ok {
			cleaned[*text] = s.all.clean(*text)
		}
		*text = cleaned[*text]
	}
	for _, text := range []*string{&report.Subject, &report.Name, &report.Revision, &report.Stopped} {
		clean(text)
	}
	for i := range report.Targets {
		t := &report.Targets[i]
		clean(&t.Method)
		clean(&t.Name)
		clean(&t.Why)
		for k := range t.Asks {
			clean(&t.Asks[k])
		}
	}
	for i := range report.Verdicts {
		v := &report.Verdicts[i]
		clean(&v.Target)
		clean(&v.Reason)
		clean(&v.Remedy)
		if raw {
			v.Transcript = s.tokens.clean(v.Transcript)
		} else {
			v.Transcript = s.all.clean(v.Transcript)
		}
	}
}
