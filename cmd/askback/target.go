package main

import (
	"errors"
	"net/url"
	"path/filepath"
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
	var (
		words []string
		word  strings.Builder
		open  bool // a word has begun
		quote rune
	)
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		next := rune(-1)
		if i+1 < len(runes) {
			next = runes[i+1]
		}
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == '"' && r == '\\' && (next == '"' || next == '\\'):
			word.WriteRune(next)
			i++
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == '\\' && next < 0:
			return nil, errors.New("it ends with a backslash")
		case r == '\\':
			word.WriteRune(next)
			open = true
			i++
		case strings.ContainsRune(" \t\n\r", r):
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a " + string(quote) + " is not closed")
	}
	if open {
		words = append(words, word.String())
	}
	return words, nil
}
