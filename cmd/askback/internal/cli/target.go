package cli

import (
	"errors"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Target is the place of a server: an address, or a program to start.
type Target struct {
	Text    string
	Address *url.URL // nil for a program
	Program []string
}

// ParseTarget reads a URL or a command line. Its error does not contain a password.
func ParseTarget(text string) (Target, error) {
	t := Target{Text: text}
	scheme, _, _ := strings.Cut(strings.ToLower(text), "://")
	if scheme == "http" || scheme == "https" {
		address, err := url.Parse(text)
		if err == nil && address.Port() != "" {
			_, err = strconv.ParseUint(address.Port(), 10, 16)
		}
		if err != nil || address.Host == "" {
			if strings.Contains(text, "@") { // it may have a password
				text = scheme + "://…"
			}
			return t, Usagef("the target %q is not a URL, such as http://127.0.0.1:8080/mcp", text)
		}
		t.Address = address
		return t, nil
	}
	var err error
	if t.Program, err = SplitCommand(text); err != nil {
		return t, Usagef("the target %q: %w", text, err)
	}
	if len(t.Program) == 0 {
		return t, Usagef("the target is empty: want a URL, or the command line of a server")
	}
	return t, nil
}

// Shown is the target for a command line that is printed, without its password.
func (t Target) Shown() string {
	if t.Address != nil && t.Address.User != nil {
		return t.Address.Redacted()
	}
	return t.Text
}

// Where names the target briefly: the host, or the program.
func (t Target) Where() string {
	if t.Address != nil {
		return t.Address.Host
	}
	return filepath.Base(t.Program[0])
}

// SplitCommand splits a command line into words as a shell does:
//
//   - Between single quotes every character stands for itself.
//   - Between double quotes a backslash protects " and \.
//   - Elsewhere a backslash protects any character.
//
// No other character is special. Variables, wildcards and pipes need a shell, as in sh -c '…'.
func SplitCommand(line string) ([]string, error) {
	var words []string
	open := false // a word has begun
	for line != "" {
		m := commandPiece.FindStringSubmatch(line)
		if m == nil && line[0] == '\\' {
			return nil, errors.New("it ends with a backslash")
		} else if m == nil {
			return nil, errors.New("a " + line[:1] + " is not closed")
		}
		line = line[len(m[0]):]
		if m[1] != "" {
			open = false
			continue
		}
		if !open {
			words = append(words, "")
			open = true
		}
		words[len(words)-1] += m[2] + protectedQuote.ReplaceAllString(m[3], "$1") + m[4] + m[5]
	}
	return words, nil
}

// The pieces of a command line: space, the two quotes, a protected character, and plain text.
var (
	commandPiece   = regexp.MustCompile(`(?s)^(?:([ \t\n\r]+)|'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^ \t\n\r'"\\]+))`)
	protectedQuote = regexp.MustCompile(`\\(["\\])`)
)
