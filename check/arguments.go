package check

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A row is the values of arguments that serve one call, because the call uses them up.
type row struct {
	values map[string]any
	spent  bool // a call with them has come to an end
}

// rows are what a plan says of values that calls use up: the n-th value of each argument together.
func (p *PlannedCall) rows() (all []*row) {
	for name, values := range p.UseUp {
		for i, value := range values {
			if i == len(all) {
				all = append(all, &row{values: map[string]any{}})
			}
			all[i].values[name] = value
		}
	}
	return slices.DeleteFunc(all, func(w *row) bool { return len(w.values) < len(p.UseUp) })
}

// prepareArguments says how the calls of a target get their arguments: as the plan says, or the fewest that fit.
func (r *run) prepareArguments(t *target, entry listed) {
	switch {
	case t.plan.Arguments != nil || len(t.plan.UseUp) > 0:
		t.make = func(text string) map[string]any {
			all := map[string]any{}
			for name, value := range t.plan.Arguments {
				all[name] = value
				if s, ok := value.(string); ok {
					all[name] = strings.ReplaceAll(s, freeText, text)
				}
			}
			return all
		}
	case t.method != "resources/read":
		t.make = func(text string) map[string]any { return leastArguments(entry, text) }
	}
	t.inputs = parseObject(entry.InputSchema).Properties
	if t.rows = t.plan.rows(); len(t.rows) > 0 {
		r.usedUp = append(r.usedUp, usedUp(t.rows))
		t.free = slices.Sorted(maps.Keys(t.plan.UseUp))[0]
	} else if t.make != nil {
		one, other := t.make(r.argument), t.make(freeText)
		for _, name := range slices.Sorted(maps.Keys(one)) {
			if text, ok := one[name].(string); ok && text != other[name] && (t.free == "" || text == r.argument) {
				t.free = name
			}
		}
	}
}

// fill gives a call arguments that no call has used up: a text of its own and, if the plan has such, the values of a
// row. A server may act once for them.
func (r *run) fill(c *call) error {
	t := c.target
	c.text, c.arguments, c.row, c.lent = r.canary(), nil, nil, nil
	if t.make == nil {
		return nil
	}
	c.arguments = t.make(c.text)
	for _, value := range c.arguments {
		r.noteTail(value, c.text)
	}
	if text, ok := c.arguments[t.free].(string); ok {
		c.text = text
	}
	if len(t.rows) == 0 {
		return nil
	}
	at := slices.IndexFunc(t.rows, func(w *row) bool { return !w.spent })
	if at < 0 {
		return &notJudged{fmt.Sprintf("its %d values of useUp are used up", len(t.rows)),
			"more values of useUp in the file: each call that ends needs one"}
	}
	c.row = t.rows[at]
	t.rows = append(slices.Delete(t.rows, at, at+1), c.row) // a call that does not end leaves them for later
	maps.Copy(c.arguments, c.row.values)
	if value, ok := c.row.values[t.free]; ok {
		c.text = fmt.Sprint(value)
	}
	return nil
}

// noteTail notes a text of the check's own that a schema has cut.
func (r *run) noteTail(value any, text string) {
	const least = 5 // characters that hardly occur elsewhere
	if cut, ok := value.(string); ok && len(cut) >= least && cut != text && strings.HasSuffix(text, cut) {
		r.canaries = append(r.canaries, cut)
	}
}

// spend notes that a call has ended, so that the values in its state, or else its arguments, are used up. If it is the
// other way round, the next call with them is refused.
func (c *call) spend() {
	switch {
	case c.lent != nil:
		c.lent.spent = true
	case c.row != nil:
		c.row.spent = true
	}
}

// usedUp matches the values of rows, as words.
func usedUp(rows []*row) *regexp.Regexp {
	var all []string
	for _, w := range rows {
		for _, value := range w.values {
			if text := fmt.Sprint(value); text != "" {
				all = append(all, regexp.QuoteMeta(text))
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile(`\b(?:` + strings.Join(all, "|") + `)\b`)
}
