package check

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

const (
	maxForged    = 16 // values of a state that are replaced
	maxForgeries = 32 // replacements

	// wholly forges the state of a call that was never begun, out of the state of another one.
	wholly = "whole"

	// strange is a number that nothing has by itself.
	strange = "987654321"
)

// forgeries returns the ways in which the state of a call is forged: wholly, and each value that can be read as the
// values of its kind are. Those that the call has brought come first, because a result is likely to show them.
func (r *run) forgeries(t *target, state string) (hows []string) {
	leaves := alter.Leaves(state)
	slices.SortStableFunc(leaves, func(a, b alter.Leaf) int { return r.worth(t, b) - r.worth(t, a) })
	for _, leaf := range leaves[:min(len(leaves), maxForged)] {
		kinds := r.kinds(t, leaf.Value)
		if len(leaves) == 1 && fmt.Sprint(leaf.Value) == state && kinds[0] == "strange" {
			kinds = kinds[:1] // the next number may be another state of ours
		}
		for _, kind := range kinds {
			hows = append(hows, leaf.Path+" "+kind)
		}
	}
	hows = hows[:min(len(hows), maxForgeries)]
	inside := func(l alter.Leaf) bool { return r.worth(t, l) == 2 }
	if t.free != "" && (r.hasOwn(t, state) || slices.ContainsFunc(leaves, inside)) {
		hows = append(hows, wholly)
	}
	return hows
}

// worth says how likely a forged value shows.
func (r *run) worth(t *target, l alter.Leaf) int {
	_, ok := l.Value.(string)
	switch {
	case r.hasOwn(t, fmt.Sprint(l.Value)):
		return 2
	case ok:
		return 1
	}
	return 0
}

// hasOwn reports whether a text has one that the check has made up, or that the plan has.
func (r *run) hasOwn(t *target, text string) bool {
	return t.text != "" && strings.Contains(text, t.text) ||
		slices.ContainsFunc(r.canaries, func(c string) bool { return strings.Contains(text, c) }) ||
		slices.ContainsFunc(r.usedUp, func(values *regexp.Regexp) bool { return values.MatchString(text) })
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
func (r *run) kinds(t *target, value any) []string {
	text := fmt.Sprint(value)
	_, isNumber := value.(json.Number)
	switch _, isTime := shifted(text, time.Hour); {
	case aBoolean[text] != "":
		return []string{"flip"}
	case isTime:
		return []string{"later", "earlier"}
	case isNumber || aNumber.MatchString(text):
		return []string{"strange", "next", "before"}
	case r.hasOwn(t, text):
		return []string{"text"}
	case len(t.options(text)) > 0:
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

// options are what may stand in place of a text that is one of several to choose from.
func (t *target) options(text string) (others []string) {
	var properties []property
	for _, p := range t.inputs {
		properties = append(properties, p)
	}
	for _, round := range t.rounds {
		for _, q := range round.questions {
			for _, p := range parseObject(q.schema).Properties {
				properties = append(properties, p)
			}
		}
	}
	for _, p := range properties {
		all := p.choices()
		if at := slices.Index(all, text); at >= 0 && len(all) > 1 {
			others = append(others, all[(at+1)%len(all)])
		}
	}
	slices.Sort(others)
	return others
}

// choices are the texts of which a property has one.
func (p property) choices() (all []string) {
	for _, value := range p.Enum {
		all = append(all, fmt.Sprint(value))
	}
	for _, one := range append(slices.Clone(p.OneOf), p.AnyOf...) {
		if one.Const != nil {
			all = append(all, fmt.Sprint(one.Const))
		}
	}
	return all
}

// forge makes the change of a state that one of the forgeries means, as [alter.State] reads it, and the text by which
// its effect is known. The call is the one that the state goes to, which has another text of its own if the state is
// forged wholly.
func (r *run) forge(c *call, from, state, how string) (change, only string, err error) {
	if how == wholly {
		old, _ := json.Marshal(from)   // a text has a JSON form
		own, _ := json.Marshal(c.text) // likewise
		return fmt.Sprintf("swap %s %s", old, own), c.text, nil
	}
	path, kind, _ := strings.Cut(how, " ")
	leaves := alter.Leaves(state)
	at := slices.IndexFunc(leaves, func(l alter.Leaf) bool { return l.Path == path })
	if at < 0 {
		return "", "", errInapplicable
	}
	value, only := r.replaced(c, leaves[at].Value, kind)
	if value == "" {
		return "", "", errInapplicable
	}
	if _, quoted := leaves[at].Value.(string); quoted {
		text, _ := json.Marshal(value) // a text has a JSON form
		value = string(text)
	}
	return "set " + path + " " + value, only, nil
}

// replaced is another value of a kind, and the part of it that nothing else has.
func (r *run) replaced(c *call, value any, kind string) (other, only string) {
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
		if others := c.target.options(text); len(others) > 0 {
			return others[0], ""
		}
	case "text":
		return r.otherText(c, text)
	}
	return other, ""
}

// otherText is another text in place of one, in the same form.
func (r *run) otherText(c *call, text string) (other, only string) {
	only = r.canary()
	if c.row != nil && strings.Contains(text, c.text) { // only what the plan has is known to the server
		next := *c
		if r.fill(&next) != nil {
			return "", ""
		}
		c.lent = next.row
		return strings.ReplaceAll(text, c.text, next.text), next.text
	}
	for _, canary := range r.canaries {
		if strings.Contains(text, canary) {
			return strings.ReplaceAll(text, canary, only), only
		}
	}
	switch {
	case aUUID.MatchString(text):
		id := least(property{Format: "uuid"}, only).(string)
		return id, id
	case anEmail.MatchString(text):
		return only + text[strings.IndexByte(text, '@'):], only
	case aPath.MatchString(text):
		return aPath.FindString(text) + only, only
	}
	return only, only
}

// unsigned reports whether the state of a round can be read, and nothing in it looks like a signature. An argument of
// the call may look like one.
func (t *target) unsigned(state *string) bool {
	if state == nil {
		return false
	}
	without := *state
	if text, err := json.Marshal(t.text); err == nil && t.text != "" {
		if changed, err := alter.State(without, fmt.Sprintf(`swap %s "argument"`, text)); err == nil {
			without = changed
		}
	}
	leaves := alter.Leaves(without)
	return len(leaves) > 0 && !slices.ContainsFunc(leaves, func(l alter.Leaf) bool { return l.Protected })
}
