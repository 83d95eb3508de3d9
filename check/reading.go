package check

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

// seen is what a reading found: a proof, which is "observation" or the weaker "suspicion", and what it was.
type seen struct{ proof, what string }

// judgeByReading judges a probe that sends nothing: it reads the rounds of the target.
func (r *run) judgeByReading(p corpus.Probe, t *target, v *findings.Verdict) error {
	var all []seen
	if p.Reads == "gone" {
		return r.judgeGone(p, t, v)
	}
	if p.Reads == "other-request" {
		if !r.listed {
			return &notJudged{"nothing was listed", "a server that speaks 2026-07-28"}
		}
		if r.otherAsked != "" {
			all = append(all, seen{"observation", r.otherAsked + " was answered with input_required"})
		}
	} else {
		for i, round := range t.rounds {
			if !round.asks() {
				continue
			}
			for _, s := range readers[p.Reads](r, t, round) {
				all = append(all, seen{s.proof, fmt.Sprintf("round %d: %s", i+1, s.what)})
			}
		}
	}
	for _, proof := range []string{"observation", "suspicion"} {
		// The graver of the two comes first, wherever the corpus puts it.
		if p.Verdicts["suspicion"] == findings.Warn && p.Verdicts["observation"] == findings.Note {
			proof = map[string]string{"observation": "suspicion", "suspicion": "observation"}[proof]
		}
		for _, s := range all {
			if s.proof == proof {
				return r.found(p, v, proof, nil, "%s", s.what)
			}
		}
	}
	return pass(v, "nothing of the kind in %d rounds", max(1, len(t.roundsOf())))
}

func (t *target) roundsOf() []*reply {
	if t == nil {
		return nil
	}
	return t.rounds
}

var readers = map[string]func(*run, *target, *reply) []seen{
	"empty-round": func(_ *run, _ *target, p *reply) []seen {
		if p.empty {
			return []seen{{"observation", "input_required comes without inputRequests and without requestState"}}
		}
		return nil
	},
	"kind": perQuestion(func(q question) (list []seen) {
		if !slices.Contains([]string{"elicitation/create", "sampling/createMessage", "roots/list"}, q.method) {
			return []seen{{"observation", fmt.Sprintf("the question %q is a %q", cutText(q.key), cutText(q.method))}}
		}
		return nil
	}),
	"password": perQuestion(func(q question) (list []seen) {
		if q.mode != "form" {
			return nil
		}
		for name, property := range parseObject(q.schema).Properties {
			if isTyped(property) && form.AsksForSecret(name, property.Title, property.Format) {
				return []seen{{"observation", fmt.Sprintf("the form has the field %q", cutText(name))}}
			}
		}
		if secretWish.MatchString(q.message) {
			list = append(list, seen{"suspicion", "the message asks for a secret"})
		}
		return list
	}),
	"link": perQuestion(func(q question) []seen {
		if q.mode == "form" && strings.Contains(q.message, "://") {
			return []seen{{"observation", "the message has a link"}}
		}
		return nil
	}),
	"url-plain": perQuestion(func(q question) []seen {
		if at, err := url.Parse(q.url); q.mode == "url" && err == nil && at.Scheme == "http" && !isLocal(at.Hostname()) {
			return []seen{{"observation", "the URL of " + at.Hostname() + " begins with http://"}}
		}
		return nil
	}),
	"url-credentials": func(r *run, _ *target, p *reply) (list []seen) {
		for _, q := range p.questions {
			at, err := url.Parse(q.url)
			if q.mode != "url" || err != nil {
				continue
			}
			if at.User != nil {
				list = append(list, seen{"observation", "the URL has a user or a password before its host"})
			}
			for _, secret := range r.bearers() {
				if strings.Contains(q.url, secret) || strings.Contains(q.url, url.QueryEscape(secret)) {
					list = append(list, seen{"observation", "the URL has the token of the request"})
				}
			}
			for name, values := range at.Query() {
				if form.NamesSecret(name) || strings.HasPrefix(values[0], "eyJ") {
					list = append(list, seen{"suspicion", fmt.Sprintf("the query of the URL has %q", cutText(name))})
				}
			}
		}
		return list
	},
	"clear":       readClear,
	"credentials": readCredentials,
}

func perQuestion(look func(question) []seen) func(*run, *target, *reply) []seen {
	return func(_ *run, _ *target, p *reply) (list []seen) {
		for _, q := range p.questions {
			list = append(list, look(q)...)
		}
		return list
	}
}

// isTyped reports whether a field takes a text or a number, and no choice.
func isTyped(p property) bool {
	return p.Type != "boolean" && p.Type != "array" && p.Enum == nil && p.OneOf == nil && p.Const == nil
}

// secretWish is a message that asks for a secret.
var secretWish = regexp.MustCompile(`(?i)\b(your|the|a|enter|provide) (pass ?word|passphrase|api ?key|secret key|` +
	`access token|credit card)\b`)

// bearers are the texts of the identities' headers.
func (r *run) bearers() (list []string) {
	for _, values := range r.Server.Header {
		for _, value := range values {
			if _, token, ok := strings.Cut(value, " "); ok {
				value = token
			}
			if len(value) > 7 {
				list = append(list, value)
			}
		}
	}
	return list
}

// readClear looks for what was sent in the call, in the parts of the state that anybody can read.
func readClear(r *run, t *target, p *reply) []seen {
	if p.state == nil {
		return nil
	}
	var known []string
	if t.make != nil {
		for _, value := range t.make(r.argument) {
			if s, ok := value.(string); ok && len(s) > 3 {
				known = append(known, s)
			}
		}
	}
	for _, w := range t.rows {
		for _, value := range w.values {
			known = append(known, fmt.Sprint(value))
		}
	}
	known = append(known, r.canaries...)
	if t.text != "" {
		known = append(known, t.text)
	}
	shows := ""
	for _, leaf := range alter.Leaves(*p.state) {
		text := fmt.Sprint(leaf.Value)
		if slices.ContainsFunc(known, func(k string) bool { return strings.Contains(text, k) }) && shows == "" {
			shows = leaf.Path
		}
	}
	switch {
	case shows == "":
		return nil
	case !t.unsigned(p.state) || t.resists:
		return []seen{{"observation", "what was sent in the call can be read in the state, at " + cutText(shows)}}
	}
	return []seen{{"suspicion", "what was sent in the call can be read in the state, at " + cutText(shows) +
		", and nothing there looks like a signature"}}
}

var credential = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.|\bAKIA[0-9A-Z]{16}\b` +
	`|\bgh[pousr]_[A-Za-z0-9]{30,}|\bsk-[A-Za-z0-9_-]{20,}|\bxox[abp]-[A-Za-z0-9-]{10,}|(?i)\bbearer [a-z0-9._-]{12,}` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY`)

// readCredentials looks for tokens in the parts of the state that anybody can read.
func readCredentials(r *run, _ *target, p *reply) (list []seen) {
	if p.state == nil {
		return nil
	}
	for _, leaf := range alter.Leaves(*p.state) {
		text := fmt.Sprint(leaf.Value)
		for _, token := range r.bearers() {
			if strings.Contains(text, token) {
				return []seen{{"observation", "the token of the request is in the state, at " + cutText(leaf.Path)}}
			}
		}
		if credential.MatchString(text) || form.NamesSecret(leaf.Path) && len(text) > 5 {
			list = append(list, seen{"observation", "the state has a credential at " + cutText(leaf.Path)})
		}
	}
	return list
}
