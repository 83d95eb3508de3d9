package excerpt_test

import (
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/excerpt"
)

func TestNoCharacterIsCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aø", 2, "a"}, {"aø", 3, "aø"}, {"ø", 0, ""}, {"ø", 1, ""},
		{"a€", 3, "a"}, {"a😀", 4, "a"}, {"a😀b", 5, "a😀"}, {"😀", 3, ""}, {"\xff\xfeab", 1, "\xff"},
		{strings.Repeat("\x80", 9), 5, strings.Repeat("\x80", 5)},
	} {
		if got := excerpt.Of(c.text, c.most); got != c.want {
			t.Errorf("%q, %d: got %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
