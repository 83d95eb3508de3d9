package postgres

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/askback-mcp/askback/task"
)

// check returns an error for text that PostgreSQL does not store.
func check(name, text string) error {
	var flaw string
	switch {
	case !utf8.ValidString(text):
		flaw = "is not valid UTF-8"
	case strings.Contains(text, "\x00"):
		flaw = "has a zero byte"
	default:
		return nil
	}
	return fmt.Errorf("the %s %.100q %s, which PostgreSQL does not store: choose another", name, text, flaw)
}

// lookup returns text to compare with what is stored. Text that cannot be stored is NULL, which equals nothing.
func lookup(text string) *string {
	if check("", text) != nil {
		return nil
	}
	return &text
}

// fit replaces the parts of text that PostgreSQL does not store.
func fit(text string) string {
	if check("", text) == nil {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

// storable returns the texts that can be stored: nothing equals any other. Nil stays nil.
func storable[T ~string](texts []T) (all []string) {
	if texts != nil {
		all = []string{}
	}
	for _, text := range texts {
		if check("", string(text)) == nil {
			all = append(all, string(text))
		}
	}
	return all
}

// optional returns nil for empty bytes, so that they are stored as NULL.
func optional(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func size(entries [][]byte) (n int64) {
	for _, entry := range entries {
		n += int64(len(entry))
	}
	return n
}

// list returns an empty list for nil, because nil would be NULL.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

func checkFor(q *task.Question) error {
	for _, who := range q.For {
		if err := check("For", who); err != nil {
			return err
		}
	}
	return nil
}
