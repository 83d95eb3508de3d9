package reading

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/internal/fit"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/check/internal/verdict"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

var readers = map[string]func(*Judge, *talk.Target, *talk.Reply) []verdict.Seen{
	"empty-round": func(_ *Judge, _ *talk.Target, p *talk.Reply) []verdict.Seen {
		if p.Empty {
			return []verdict.Seen{verdict.Observation("input_required comes without inputRequests and without requestState")}
		}
		return nil
	},
	"kind": perQuestion(func(q talk.Question) (list []verdict.Seen) {
		if !slices.Contains([]string{"elicitation/create", "sampling/createMessage", "roots/list"}, q.Method) {
			return []verdict.Seen{verdict.Observation(fmt.Sprintf("the question %q is a %q", talk.CutText(q.Key),
				talk.CutText(q.Method)))}
		}
		return nil
	}),
	"password": perQuestion(func(q talk.Question) (list []verdict.Seen) {
		if q.Mode != "form" {
			return nil
		}
		for name, property := range fit.Properties(q.Schema) {
			if property.IsTyped() && form.AsksForSecret(name, property.Title, property.Format) {
				return []verdict.Seen{verdict.Observation(fmt.Sprintf("the form has the field %q", talk.CutText(name)))}
			}
		}
		if secretWish.MatchString(q.Message) {
			list = append(list, verdict.Suspicion("the message asks for a secret"))
		}
		return list
	}),
	"link": perQuestion(func(q talk.Question) []verdict.Seen {
		if q.Mode == "form" && strings.Contains(q.Message, "://") {
			return []verdict.Seen{verdict.Observation("the message has a link")}
		}
		return nil
	}),
	"url-plain": perQuestion(func(q talk.Question) []verdict.Seen {
		if at, err := url.Parse(q.URL); q.Mode == "url" && err == nil && at.Scheme == "http" &&
			!transport.IsLocal(at.Hostname()) {
			return []verdict.Seen{verdict.Observation("the URL of " + at.Hostname() + " begins with http://")}
		}
		return nil
	}),
	"url-credentials": func(r *Judge, _ *talk.Target, p *talk.Reply) (list []verdict.Seen) {
		for _, q := range p.Questions {
			at, err := url.Parse(q.URL)
			if q.Mode != "url" || err != nil {
				continue
			}
			if at.User != nil {
				list = append(list, verdict.Observation("the URL has a user or a password before its host"))
			}
			for _, secret := range r.bearers() {
				if strings.Contains(q.URL, secret) || strings.Contains(q.URL, url.QueryEscape(secret)) {
					list = append(list, verdict.Observation("the URL has the token of the request"))
				}
			}
			for name, values := range at.Query() {
				if form.NamesSecret(name) || strings.HasPrefix(values[0], "eyJ") {
					list = append(list, verdict.Suspicion(fmt.Sprintf("the query of the URL has %q", talk.CutText(name))))
				}
			}
		}
		return list
	},
	"clear":       readClear,
	"credentials": readCredentials,
}

func perQuestion(look func(talk.Question) []verdict.Seen) func(*Judge, *talk.Target, *talk.Reply) []verdict.Seen {
	return func(_ *Judge, _ *talk.Target, p *talk.Reply) (list []verdict.Seen) {
		for _, q := range p.Questions {
			list = append(list, look(q)...)
		}
		return list
	}
}

// secretWish is a message that asks for a secret.
var secretWish = regexp.MustCompile(`(?i)\b(your|the|a|enter|provide) (pass ?word|passphrase|api ?key|secret key|` +
	`access token|credit card)\b`)

// bearers are the texts of the identities' headers.
func (r *Judge) bearers() (list []string) {
	for _, values := range r.Line.Header {
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
func readClear(r *Judge, t *talk.Target, p *talk.Reply) []verdict.Seen {
	if p.State == nil {
		return nil
	}
	var known []string
	if t.Make != nil {
		for _, value := range t.Make(r.Argument) {
			if s, ok := value.(string); ok && len(s) > 3 {
				known = append(known, s)
			}
		}
	}
	for _, w := range t.Rows {
		for _, value := range w.Values {
			known = append(known, fmt.Sprint(value))
		}
	}
	known = append(known, r.Canaries...)
	if t.Text != "" {
		known = append(known, t.Text)
	}
	shows := ""
	for _, leaf := range alter.Leaves(*p.State) {
		text := fmt.Sprint(leaf.Value)
		if slices.ContainsFunc(known, func(k string) bool { return strings.Contains(text, k) }) && shows == "" {
			shows = leaf.Path
		}
	}
	switch {
	case shows == "":
		return nil
	case !t.Unsigned(p.State) || t.Resists:
		return []verdict.Seen{verdict.Observation("what was sent in the call can be read in the state, at " +
			talk.CutText(shows))}
	}
	return []verdict.Seen{verdict.Suspicion("what was sent in the call can be read in the state, at " +
		talk.CutText(shows) +
		", and nothing there looks like a signature")}
}

var credential = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.|\bAKIA[0-9A-Z]{16}\b` +
	`|\bgh[pousr]_[A-Za-z0-9]{30,}|\bsk-[A-Za-z0-9_-]{20,}|\bxox[abp]-[A-Za-z0-9-]{10,}|(?i)\bbearer [a-z0-9._-]{12,}` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY`)

// readCredentials looks for tokens in the parts of the state that anybody can read.
func readCredentials(r *Judge, _ *talk.Target, p *talk.Reply) (list []verdict.Seen) {
	if p.State == nil {
		return nil
	}
	for _, leaf := range alter.Leaves(*p.State) {
		text := fmt.Sprint(leaf.Value)
		for _, token := range r.bearers() {
			if strings.Contains(text, token) {
				return []verdict.Seen{verdict.Observation("the token of the request is in the state, at " +
					talk.CutText(leaf.Path))}
			}
		}
		if credential.MatchString(text) || form.NamesSecret(leaf.Path) && len(text) > 5 {
			list = append(list, verdict.Observation("the state has a credential at "+talk.CutText(leaf.Path)))
		}
	}
	return list
}
