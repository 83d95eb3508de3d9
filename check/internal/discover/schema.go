package discover

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/internal/fit"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/plan"
)

// listed is an entry of a list.
type listed struct {
	Name        string          `json:"name"`
	URI         string          `json:"uri"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Arguments   []struct {
		Name     string `json:"name"`
		Required bool   `json:"required"`
	} `json:"arguments"`
	Annotations hints `json:"annotations"`
}

// hints are the annotations of a tool.
type hints struct {
	ReadOnly    *bool `json:"readOnlyHint"`
	Destructive *bool `json:"destructiveHint"`
	Idempotent  *bool `json:"idempotentHint"`
	OpenWorld   *bool `json:"openWorldHint"`
}

// destroys reports whether a tool is marked as destructive. Some libraries send the default of each hint for every
// tool, and so all four defaults together mark nothing.
func (h hints) destroys() bool {
	is := func(hint *bool, value bool) bool { return hint != nil && *hint == value }
	return is(h.Destructive, true) && !(is(h.ReadOnly, false) && is(h.Idempotent, false) && is(h.OpenWorld, true))
}

// prepareArguments says how the calls of a target get their arguments: as the plan says, or the fewest that fit.
func prepareArguments(cl *talk.Client, t *talk.Target, entry listed) {
	switch {
	case t.Plan.Arguments != nil || len(t.Plan.UseUp) > 0:
		t.Make = func(text string) map[string]any {
			all := map[string]any{}
			for name, value := range t.Plan.Arguments {
				all[name] = value
				if s, ok := value.(string); ok {
					all[name] = strings.ReplaceAll(s, plan.AnyText, text)
				}
			}
			return all
		}
	case t.Method != "resources/read":
		t.Make = func(text string) map[string]any { return leastArguments(entry, text) }
	}
	t.Inputs = fit.Properties(entry.InputSchema)
	if t.Rows = rows(&t.Plan); len(t.Rows) > 0 {
		cl.UsedUp = append(cl.UsedUp, usedUp(t.Rows))
		t.Free = slices.Sorted(maps.Keys(t.Plan.UseUp))[0]
	} else if t.Make != nil {
		one, other := t.Make(cl.Argument), t.Make(plan.AnyText)
		for _, name := range slices.Sorted(maps.Keys(one)) {
			if text, ok := one[name].(string); ok && text != other[name] && (t.Free == "" || text == cl.Argument) {
				t.Free = name
			}
		}
	}
}

// rows returns the values of a plan that calls use up: the n-th value of each argument together.
func rows(p *plan.Call) (all []*talk.Row) {
	for name, values := range p.UseUp {
		for i, value := range values {
			if i == len(all) {
				all = append(all, &talk.Row{Values: map[string]any{}})
			}
			all[i].Values[name] = value
		}
	}
	return slices.DeleteFunc(all, func(w *talk.Row) bool { return len(w.Values) < len(p.UseUp) })
}

// usedUp matches the values of rows, as words.
func usedUp(rows []*talk.Row) *regexp.Regexp {
	var all []string
	for _, w := range rows {
		for _, value := range w.Values {
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

// leastArguments returns the fewest arguments that fit, with a text in each of them that takes any text.
func leastArguments(entry listed, text string) map[string]any {
	arguments := map[string]any{}
	for _, a := range entry.Arguments {
		if a.Required {
			arguments[a.Name] = text
		}
	}
	maps.Copy(arguments, fit.Required(entry.InputSchema, text))
	return arguments
}
