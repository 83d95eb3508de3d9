package inbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// editsArguments reports whether a property lets people edit the arguments of the call: a text of this name, which
// begins as a JSON object.
func editsArguments(p *form.Property) bool {
	text, ok := strictjson.String(p.Default)
	return ok && p.Name == "arguments" && isObject(text)
}

func isObject(text string) bool {
	return strictjson.Check([]byte(text), strictjson.MaxDepth) == nil &&
		strictjson.TypeOf([]byte(text)) == strictjson.TypeObject
}

// notAnObject says what is wrong with a text that must be a JSON object, or nothing.
func notAnObject(text string) string {
	err := strictjson.Check([]byte(text), strictjson.MaxDepth)
	if invalid, ok := errors.AsType[*strictjson.Error](err); ok {
		line := strings.Count(text[:min(invalid.Offset, len(text))], "\n") + 1
		return fmt.Sprintf("is not valid JSON in line %d: %v", line, err)
	}
	if err == nil && !isObject(text) {
		return "must be a JSON object"
	}
	return ""
}

// indented is JSON with a line for each value, so that it can be read, edited and compared. Any other text is as it is.
func indented(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return foreign.JSON(b.Bytes())
}

// edit says what an answer changes in the arguments of the call.
type edit struct{ Lines []line }

// line is a line of arguments: an unchanged one, or one with the mark "ins" or "del".
type line struct{ Mark, Text string }

// editOf returns what a content changes in the arguments of the call, or nil if the question does not let people edit
// them.
func editOf(q *desk.Question, content json.RawMessage) *edit {
	after, ok := strictjson.String(strictjson.Get(content, "arguments"))
	schema, err := form.Read(q.Schema)
	if err != nil || !ok || !isObject(after) {
		return nil
	}
	for _, p := range schema.Properties() {
		if editsArguments(p) {
			before, _ := strictjson.String(p.Default)
			return &edit{difference(indented(cmp.Or(string(q.Arguments), before)), indented(after))}
		}
	}
	return nil
}

const (
	mostCompared = 1 << 20 // pairs of lines; of more, all are changed
	mostChanged  = 400     // lines that are shown
	around       = 2       // unchanged lines beside a changed one
)

// difference returns the lines that differ, with some around them. Nil means that all are equal.
func difference(before, after string) (shown []line) {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	begin := 0
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < min(len(a), len(b))-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	if begin == len(a) && begin == len(b) {
		return nil
	}
	all := unmarked(a[:begin])
	all = append(all, changes(a[begin:len(a)-end], b[begin:len(b)-end])...)
	all = append(all, unmarked(a[len(a)-end:])...)
	for i, l := range all {
		near := all[max(i-around, 0):min(i+around+1, len(all))]
		switch isChanged := func(l line) bool { return l.Mark != "" }; {
		case len(shown) >= mostChanged:
			return append(shown, line{Text: "… and more"})
		case slices.ContainsFunc(near, isChanged):
			shown = append(shown, l)
		case len(shown) == 0 || shown[len(shown)-1].Text != "…":
			shown = append(shown, line{Text: "…"})
		}
	}
	return shown
}

func unmarked(lines []string) (all []line) {
	for _, text := range lines {
		all = append(all, line{Text: text})
	}
	return all
}

// changes returns the lines of both texts, those in common once.
func changes(a, b []string) (all []line) {
	var common [][]int // the most lines that a[i:] and b[j:] have in common
	if len(a)*len(b) <= mostCompared {
		common = make([][]int, len(a)+1)
		for i := range common {
			common[i] = make([]int, len(b)+1)
		}
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				common[i][j] = max(common[i+1][j], common[i][j+1])
				if a[i] == b[j] {
					common[i][j] = common[i+1][j+1] + 1
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) && common != nil {
		switch {
		case a[i] == b[j]:
			all = append(all, line{"", a[i]})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			all = append(all, line{"del", a[i]})
			i++
		default:
			all = append(all, line{"ins", b[j]})
			j++
		}
	}
	for _, text := range a[i:] {
		all = append(all, line{"del", text})
	}
	for _, text := range b[j:] {
		all = append(all, line{"ins", text})
	}
	return all
}
