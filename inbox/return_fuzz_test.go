package inbox

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Whatever a link says, a browser that was signed in stays at the inbox.
func FuzzReturn(f *testing.F) {
	for _, s := range []string{"/", "/q/A/b?x=1", "//evil.example", `/\evil.example`, "https://evil.example", "/../..",
		"/%2f%2fx", "/%2e%2e/x", "\t//x", "/auth/logout", "/?//x", "/\x00"} {
		f.Add(s)
	}
	at := expect.Must(url.Parse("https://inbox.example/below/auth/"))(f)
	f.Fuzz(func(t *testing.T, link string) {
		w := httptest.NewRecorder()
		redirect(w, localPath(link))
		to, err := at.Parse(w.Header().Get("Location"))
		if err != nil || to.Host != at.Host || to.Scheme != at.Scheme || !strings.HasPrefix(to.Path, "/below/") {
			t.Errorf("%q leads to %v, %v", link, to, err)
		}
	})
}

// A body is refused or read, and never harms.
func FuzzAnswerBody(f *testing.F) {
	for _, s := range []string{`{"action":"accept","content":{"a":1},"reason":"x"}`, `{}`, `[]`, `{"ACTION":1}`,
		"{\"a\xff\":1}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var a answerBody
		if err := decode(strings.NewReader(body), &a); err == nil && strings.TrimSpace(body)[0] != '{' {
			t.Errorf("%q is read as %+v", body, a)
		}
	})
}
