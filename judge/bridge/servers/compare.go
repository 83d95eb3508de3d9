package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// difference is a value that is another one through the bridge.
type difference struct {
	path          pointer // the name of a step, and from there to the value
	without, with any
	why           string // it is explained
}

func (d difference) String() string {
	return fmt.Sprintf("%s: %s: %s without the bridge, %s with it", d.path[0], strings.Join(d.path[1:], "."),
		show(d.without), show(d.with))
}

func show(value any) string {
	if value == absent {
		return "absent"
	}
	text := whole(value)
	if len(text) > 400 {
		return fmt.Sprintf("%s… (%d bytes)", text[:400], len(text))
	}
	return text
}

// absent is the value of a member that an object does not have.
var absent any = new(struct{ absent bool })

// pointer leads to a value: keys of objects and indexes of arrays.
type pointer []string

func (p pointer) in(value any) any {
	for _, key := range p {
		switch inner := value.(type) {
		case object:
			member, ok := inner[key]
			if !ok {
				return absent
			}
			value = member
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(inner) {
				return absent
			}
			value = inner[i]
		default:
			return absent
		}
	}
	return value
}

func (p pointer) to(key string) pointer { return append(p[:len(p):len(p)], key) }

// compare appends the differences between two values: of their members, if both are objects or arrays.
func compare(found []difference, at pointer, without, with any) []difference {
	switch a := without.(type) {
	case object:
		b, ok := with.(object)
		if !ok {
			break
		}
		all := maps.Clone(a)
		maps.Copy(all, b)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			found = compare(found, at.to(key), pointer{key}.in(a), pointer{key}.in(b))
		}
		return found
	case []any:
		b, ok := with.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		for i := range a {
			found = compare(found, at.to(fmt.Sprint(i)), a[i], b[i])
		}
		return found
	}
	if !reflect.DeepEqual(without, with) {
		found = append(found, difference{path: at, without: without, with: with})
	}
	return found
}

// number is what varies by itself: a number, a time, a process, an identifier.
var number = regexp.MustCompile(`[0-9A-Fa-f]*[0-9][0-9A-Fa-f]*`)

// variesAlike reports whether a difference is one that another run without the bridge has, too. If only numbers in a
// value vary, then the bridge may change only these.
func variesAlike(d difference, other any) bool {
	if reflect.DeepEqual(d.without, other) {
		return false
	}
	masked := func(value any) string { return number.ReplaceAllString(whole(value), "0") }
	if masked(d.without) == masked(other) {
		return masked(d.with) == masked(other)
	}
	return reflect.TypeOf(d.with) == reflect.TypeOf(other)
}

// whole is the JSON of a value.
func whole(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

// explain says why a difference is meant, or nothing.
func explain(d difference) string {
	is := func(step, path string) bool {
		return regexp.MustCompile(step).MatchString(d.path[0]) &&
			regexp.MustCompile(path).MatchString(strings.Join(d.path[1:], "."))
	}
	text, _ := pointer{"content", "0", "text"}.in(d.without).(string)
	with, _ := d.with.(string)
	appears, member := d.without == absent, len(d.path) == 2
	switch {
	case is(`^tools/list`, `^items\.askback_result$`):
		return "the bridge's own tool, for results of calls that wait for people"
	case is(`^tools/list`, `\.execution(\.taskSupport)?$`):
		return "the bridge makes a task of any call that a host wants as one"
	case appears && is(`.`, `(^|\.)(ttlMs|cacheScope)$`):
		return "the bridge says how long something may be kept, as 2026-07-28 wants it"
	case d.with == absent && (d.without == false || d.without == json.Number("0")) &&
		is(`^complete `, `^result\.completion\.(hasMore|total)$`):
		return "the bridge leaves out that a completion has no more values"
	case (appears || pointer{"code"}.in(d.without) == json.Number("-32601")) && is(`/list( |$)`, `^page\.(error|result)$`):
		return "a list that the server does not have is an empty one: several servers share it"
	case is(`octocat_none|octocat://none|^tools/call \{"arguments":\{\}\}|^resources/read \{\}`, `^(error|result)`) &&
		(d.path[1] == "error" || member && d.with == absent): // the server has refused it, too
		return "the bridge knows what all servers have, and refuses what none has in its own words"
	case (d.with == json.Number("-32601") || strings.HasPrefix(strings.ToLower(with), "method not found")) &&
		is(`^octocat/none|^complete |^completion/complete`, `^error`):
		return "the bridge refuses a method that it does not know in its own words"
	case (strings.Contains(text, "requires task augmentation") ||
		appears && strings.HasSuffix(d.path[0], " simulate-research-query")) &&
		is(`^(without arguments|tools/call) `, `^(result|error)$`):
		return "the bridge takes the task of a tool that only works as one"
	case is(`^prompts/get without arguments`, `^error\.message$`):
		return "the bridge refuses a prompt without the arguments that it requires in its own words"
	}
	return ""
}
