package hostfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A variable, as hosts write it: ${NAME} and ${NAME:-default} as Claude Code, ${env:NAME} as VS Code, Cursor and
// Windsurf. $NAME without braces stays as it is: it may be part of a password.
var variable = regexp.MustCompile(`\$\{([A-Za-z]+:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}`)

// expand replaces variables by their values, in which nothing is expanded again.
func expand(text string, lookup func(string) (string, bool)) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var failed error
	expanded := variable.ReplaceAllStringFunc(text, func(use string) string {
		m := variable.FindStringSubmatchIndex(use)
		kind, name := "", use[m[4]:m[5]]
		if m[2] >= 0 {
			kind = use[m[2]:m[3]]
		}
		switch {
		case kind == "input:":
			failed = fmt.Errorf("the bridge cannot ask for ${input:%s}: name a variable of the environment, as in ${env:%s}",
				name, strings.ToUpper(name))
		case kind != "" && kind != "env:":
			failed = fmt.Errorf("the bridge does not know what ${%s%s} stands for", kind, name)
		case kind == "" && strings.HasPrefix(name, "workspaceFolder"):
			failed = fmt.Errorf("the bridge has no workspace for ${%s}: write the path", name)
		case kind == "" && name == "userHome":
			home, err := os.UserHomeDir()
			failed = errors.Join(failed, err)
			return home
		}
		value, set := lookup(name)
		switch {
		case value == "" && m[6] >= 0:
			return use[m[6]:m[7]]
		case !set && failed == nil:
			failed = fmt.Errorf("the variable %s is not set; set it, or write ${%[1]s:-} if it may be empty", name)
		}
		return value
	})
	return expanded, failed
}

// standardize returns JSON without the comments and the commas before a closing bracket that VS Code and Zed allow.
// They become spaces, so that offsets stay.
func standardize(data []byte) []byte {
	out := append([]byte{}, data...)
	comma := -1 // the last one, if only space has followed
	for i := 0; i < len(out); i++ {
		switch {
		case out[i] == '"':
			i, comma = endOfString(out, i), -1
		case out[i] == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			end := endOfComment(out, i)
			blank(out[i:end])
			i = end - 1
		case out[i] == ',':
			comma = i
		case out[i] == ']' || out[i] == '}':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case out[i] > ' ':
			comma = -1
		}
	}
	return out
}

// endOfString is the offset of the quote that ends the string at i, or of the last byte.
func endOfString(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}

// endOfComment is the offset after the comment at i. A comment that nothing closes is wrong syntax.
func endOfComment(data []byte, i int) int {
	end, after := "\n", 0
	if data[i+1] == '*' {
		end, after = "*/", 2
	}
	if n := bytes.Index(data[i+2:], []byte(end)); n >= 0 {
		return i + 2 + n + after
	}
	if after > 0 {
		return i + 1
	}
	return len(data)
}

// blank replaces all but line ends by spaces.
func blank(data []byte) {
	for i, c := range data {
		if c != '\n' {
			data[i] = ' '
		}
	}
}
