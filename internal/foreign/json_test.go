package foreign

import "testing"

func TestJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":"\u003cb\u003E \u0026 c"}`: `{"a":"<b> & c"}`,
		`{"a":"\\u003cb"}`:               `{"a":"\\u003cb"}`, // a backslash, and then u003c
		`{"a":"\\\u003cb"}`:              `{"a":"\\<b"}`,
		`{"a":"\u202e\u0022\u001b"}`:     `{"a":"\u202e\u0022\u001b"}`,
		"{\"a\":\"\u202e\x1b\"}":         `{"a":"\u202e\u001b"}`,
		"{\"a\":\"\xff\"}":               `{"a":"\ufffd"}`, // no character
	} {
		if got := JSON([]byte(text)); got != want {
			t.Errorf("JSON(%s) = %s, want %s", text, got, want)
		}
	}
}
