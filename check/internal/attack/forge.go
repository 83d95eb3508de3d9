package attack

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback/check/internal/fit"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

const (
	maxForged    = 16 // values of a state that are replaced
	maxForgeries = 32 // replacements

	// Wholly forges the state of a call that was never begun, out of the state of another one.
	Wholly = "whole"

	// strange is a number that nothing has by itself.
	strange = "987654321"
)

// Forgeries returns the ways in which the state of a call is forged: wholly, and each value that can be read as the
// values of its kind are. Those that the call has brought come first, because a result is likely to show them.
func (k *Attacker) Forgeries(t *talk.Target, state string) (hows []string) {
	leaves := alter.Leaves(state)
	slices.SortStableFunc(leaves, func(a, b alter.Leaf) int { return k.worth(t, b) - k.worth(t, a) })
	for _, leaf := range leaves[:min(len(leaves), maxForged)] {
		kinds := k.kinds(t, leaf.Value)
		if len(leaves) == 1 && fmt.Sprint(leaf.Value) == state && kinds[0] == "strange" {
			kinds = kinds[:1] // the next number may be another state of ours
		}
		for _, kind := range kinds {
			hows = append(hows, leaf.Path+" "+kind)
		}
	}
	hows = hows[:min(len(hows), maxForgeries)]
	inside := func(l alter.Leaf) bool { return k.worth(t, l) == 2 }
	if t.Free != "" && (k.hasOwn(t, state) || slices.ContainsFunc(leaves, inside)) {
		hows = append(hows, Wholly)
	}
	return hows
}

// worth says how likely a forged value shows.
func (k *Attacker) worth(t *talk.Target, l alter.Leaf) int {
	_, ok := l.Value.(string)
	switch {
	case k.hasOwn(t, fmt.Sprint(l.Value)):
		return 2
	case ok:
		return 1
	}
	return 0
}

// hasOwn reports whether a text has one that the check has made up, or that the plan has.
func (k *Attacker) hasOwn(t *talk.Target, text string) bool {
	return t.Text != "" && strings.Contains(text, t.Text) || k.OwnText(text)
}

var (
	layouts  = []string{time.RFC3339Nano, time.DateTime, "2006-01-02T15:04:05", time.DateOnly, time.RFC1123}
	aUUID    = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	anEmail  = regexp.MustCompile(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)
	aNumber  = regexp.MustCompile(`^-?[0-9]{1,15}$`)
	aPath    = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^/\s]+/`)
	aBoolean = map[string]string{"true": "false", "false": "true"}
)

// kinds are the replacements for a value of a state: what an attacker would put there, in the value's own format.
func (k *Attacker) kinds(t *talk.Target, value any) []string {
	text := fmt.Sprint(value)
	_, isNumber := value.(json.Number)
	switch _, isTime := shifted(text, time.Hour); {
	case aBoolean[text] != "":
		return []string{"flip"}
	case isTime:
		return []string{"later", "earlier"}
	case isNumber || aNumber.MatchString(text):
		return []string{"strange", "next", "before"}
	case k.hasOwn(t, text):
		return []string{"text"}
	case len(options(t, text)) > 0:
		return []string{"option", "text"}
	}
	return []string{"text"}
}

// shifted is a point of time that is so much later, written in the same way: as a date, or as a number of seconds or of
// parts of them since 1970.
func shifted(text string, by time.Duration) (later string, ok bool) {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			if layout == time.DateOnly {
				by *= 25
			}
			return at.Add(by).Format(layout), true
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
		at := time.Unix(n/int64(time.Second/unit), 0)
		if err == nil && time.Since(at).Abs() < 10*365*24*time.Hour {
			return strconv.FormatInt(n+int64(by/unit), 10), true
		}
	}
	return "", false
}

// options returns the other choices for a text that is one of several.
func options(t *talk.Target, text string) (others []string) {
	var properties []fit.Property
	for _, p := range t.Inputs {
		properties = append(properties, p)
	}
	for _, round := range t.Rounds {
		for _, q := range round.Questions {
			for _, p := range fit.Properties(q.Schema) {
				properties = append(properties, p)
			}
		}
	}
	for _, p := range properties {
		all := p.Choices()
		if at := slices.Index(all, text); at >= 0 && len(all) > 1 {
			others = append(others, all[(at+1)%len(all)])
		}
	}
	slices.Sort(others)
	return others
}

// forge makes the change of a state that one of the forgeries means, as [alter.State] reads it, and the text by which
// its effect is known. The call is the one that the state goes to, which has another text of its own if the state is
// forged wholly.
func (k *Attacker) forge(c *talk.Call, from, state, how string) (change, only string, err error) {
	if how == Wholly {
		old, _ := json.Marshal(from)   // a text has a JSON form
		own, _ := json.Marshal(c.Text) // likewise
		return fmt.Sprintf("swap %s %s", old, own), c.Text, nil
	}
	path, kind, _ := strings.Cut(how, " ")
	leaves := alter.Leaves(state)
	at := slices.IndexFunc(leaves, func(l alter.Leaf) bool { return l.Path == path })
	if at < 0 {
		return "", "", ErrInapplicable
	}
	value, only := k.replaced(c, leaves[at].Value, kind)
	if value == "" {
		return "", "", ErrInapplicable
	}
	if _, quoted := leaves[at].Value.(string); quoted {
		text, _ := json.Marshal(value) // a text has a JSON form
		value = string(text)
	}
	return "set " + path + " " + value, only, nil
}

// replaced is another value of a kind, and the part of it that nothing else has.
func (k *Attacker) replaced(c *talk.Call, value any, kind string) (other, only string) {
	text := fmt.Sprint(value)
	switch kind {
	case "flip":
		return aBoolean[text], ""
	case "later":
		other, _ = shifted(text, time.Hour)
	case "earlier":
		other, _ = shifted(text, -25*time.Hour)
	case "strange":
		return strange, strange
	case "next", "before":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "", ""
		}
		return strconv.FormatInt(n+map[string]int64{"next": 1, "before": -1}[kind], 10), ""
	case "option":
		if others := options(c.Target, text); len(others) > 0 {
			return others[0], ""
		}
	case "text":
		return k.otherText(c, text)
	}
	return other, ""
}

// otherText is another text in place of one, in the same form.
func (k *Attacker) otherText(c *talk.Call, text string) (other, only string) {
	only = k.Canary()
	if c.Row != nil && strings.Contains(text, c.Text) { // only what the plan has is known to the server
		next := *c
		if k.Fill(&next) != nil {
			return "", ""
		}
		c.Lent = next.Row
		return strings.ReplaceAll(text, c.Text, next.Text), next.Text
	}
	for _, canary := range k.Canaries {
		if strings.Contains(text, canary) {
			return strings.ReplaceAll(text, canary, only), only
		}
	}
	switch {
	case aUUID.MatchString(text):
		id := fit.UUID(only)
		return id, id
	case anEmail.MatchString(text):
		return only + text[strings.IndexByte(text, '@'):], only
	case aPath.MatchString(text):
		return aPath.FindString(text) + only, only
	}
	return only, only
}
