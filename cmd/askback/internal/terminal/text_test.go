package terminal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestLine(t *testing.T) {
	tests := map[string]string{
		"plain":                                  "plain",
		"  two\r\nlines\there ":                  "two lines    here",
		"\x1b[31mred\x07\x00\x9b":                `\x1b[31mred\a\x00` + "\ufffd",
		"\u009b1m\u0085next":                     `\u009b1m next`,
		"\u202eexe.txt\u2066\u200f":              "exe.txt",
		"so\u00adft\u200bly\ufeff":               "softly",
		"\U000e0041tag":                          "tag",
		"\u2028a\u2029b":                         "a b",
		"no\u00a0break\u3000\u3164x":             "no break  x",
		"日本語 naïve 👍":                            "日本語 naïve 👍",
		"👩\u200d👧 ❤\ufe0f":                       "👩👧 ❤",
		"e\u0301e\u0301\u0302\u0303\u0304\u0305": "e\u0301e\u0301\u0302\u0303",
		"\ue000\U0010ffff":                       `\ue000\U0010ffff`,
		"see HTTPS://evil.example/a":             "see HTTPS[:]//evil.example/a",
		"ht\u200btps:\u00ad//evil":               "https[:]//evil",
		"https://www.evil.example":               "https[:]//www[.]evil.example",
		"http://http://a file:/etc file:///etc":  "http[:]//http[:]//a file[:]/etc file[:]///etc",
		"WWW.zip www2.evil ftp.evil.example":     "WWW[.]zip www2[.]evil ftp[.]evil.example",
		"mailto:a@b javascript:x tel:+47":        "mailto[:]a@b javascript[:]x tel[:]+47",
		"data:text/html,<b> data:,a":             "data[:]text/html,<b> data[:],a",
		"I will file: meal. Data: 3, tel: 5":     "I will file: meal. Data: 3, tel: 5",
		"file:meal metadata:a, the ftp.log":      "file:meal metadata:a, the ftp.log",
		"begins with https:// or www.":           "begins with https:// or www.",
		"JavaScript: yes; mailto: nobody; c://x": "JavaScript: yes; mailto: nobody; c://x",
		"profile: 1, awww. no":                   "profile: 1, awww. no",
		strings.Repeat("é", 101):                 strings.Repeat("é", 100) + "…",
	}
	for in, want := range tests {
		expect.Equal(t, fmt.Sprint(in), line(in, 100), want)
	}
}

func TestLines(t *testing.T) {
	tests := map[string]string{
		"\n\none\r\n\ttwo\rthree\n\n": "one\n    two\nthree",
		strings.Repeat("x", 105):      strings.Repeat("x", 100) + "…\n(cut here: 5 more characters)",
		strings.Repeat("x\n", 30):     strings.Repeat("x\n", 23) + "x…\n(cut here: 13 more characters)",
	}
	for in, want := range tests {
		expect.Equal(t, fmt.Sprintf("%q", in), lines(in, 100), want)
	}
}
