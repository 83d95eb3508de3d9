package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestACommandLineIsSplitAsAShellDoes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line string
		want []string // nil is an error
	}{
		{`askback serve --stdio`, []string{"askback", "serve", "--stdio"}},
		{"  a\t b\n", []string{"a", "b"}},
		{``, []string{}},
		{`a 'b c' d`, []string{"a", "b c", "d"}},
		{`a "b c" d`, []string{"a", "b c", "d"}},
		{`a b\ c`, []string{"a", "b c"}},
		{`--name='x y'z"1 2"`, []string{"--name=x yz1 2"}},
		{`'' ""`, []string{"", ""}},
		{`'a\b"$c'`, []string{`a\b"$c`}},
		{`"a\"b\\c\d$e'"`, []string{`a"b\c\d$e'`}},
		{`\'a\"`, []string{`'a"`}},
		{`a | b; $c *`, []string{"a", "|", "b;", "$c", "*"}},
		{`C:\\x\\y.exe 'C:\x y'`, []string{`C:\x\y.exe`, `C:\x y`}},
		{`é ü`, []string{"é", "ü"}},
		{`'a`, nil},
		{`a "b`, nil},
		{`a\`, nil},
	} {
		got, err := SplitCommand(tt.line)
		if (err != nil) != (tt.want == nil) {
			t.Errorf("%s: error %v", tt.line, err)
			continue
		}
		if diff := cmp.Diff(tt.want, append([]string{}, got...)); err == nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
	}
}

func TestErrorsOfTargetsHaveNoPassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"http://ada:hunter2@127.0.0.1:99999/mcp", "https://ada:hun%zz@host/mcp", "http://a:hunter2@",
	} {
		if _, err := ParseTarget(text); err == nil || strings.Contains(err.Error(), "hun") {
			t.Errorf("parseTarget(%q): %v", text, err)
		}
	}
}
