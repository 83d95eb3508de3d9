package main

import (
	"errors"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// target is the place of a server: an address, or a program to start.
type target struct {
	text    string
	address *url.URL // nil for a program
	program []string
}

func parseTarget(text string) (target, error) {
	t := target{text: text}
	scheme, _, _ := strings.Cut(strings.ToLower(text), "://")
	if scheme == "http" || scheme == "https" {
		address, err := url.Parse(text)
		if err != nil || address.Host == "" {
			return t, usagef("the target %q is not a URL, such as http://127.0.0.1:8080/mcp", text)
		}
		t.address = address
		return t, nil
	}
	var err error
	if t.program, err = splitCommand(text); err != nil {
		return t, usagef("the target %q: %w", text, err)
	}
	if len(t.program) == 0 {
		return t, usagef("the target is empty: want a URL, or the command line of a server")
	}
	return t, nil
}

// shown is the target for a command line that is printed, without its password.
func (t target) shown() string {
	if t.address != nil && t.address.User != nil {
		return t.address.Redacted()
	}
	return t.text
}

// where names the target briefly: the host, or the program.
func (t target) where() string {
	if t.address != nil {
		return t.address.Host
	}
	return filepath.Base(t.program[0])
}

// hint helps with a program that does not exist.
func (t target) hint() string {
	if strings.Contains(t.program[0], ":") {
		return ": a URL begins with http:// or https://"
	}
	return ""
}

// splitCommand splits a command line into words as a shell does:
//
//   - Between single quotes every character stands for itself.
//   - Between double quotes a backslash protects " and \.
//   - Elsewhere a backslash protects any character.
//
// No other character is special. Variables, wildcards and pipes need a shell, as in sh -c '…'.
func splitCommand(line string) ([]string, error) {
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
