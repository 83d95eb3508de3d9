package transport

import (
	"io"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestFill(t *testing.T) {
	t.Parallel()
	q := Request{Method: "tools/list", Capabilities: "{}"}
	body := expect.Must(q.Fill(`{{id}} {{method}} {{bytes:ff}} {{nested:3}} {{filler:100000}}.`, 7))(t)
	text := expect.Must(io.ReadAll(body.reader()))(t)
	if want := "7 \"tools/list\" \xff [[[]]] " + strings.Repeat("a", 100_000) + "."; string(text) != want {
		t.Errorf("%.80q…, %d bytes", text, len(text))
	}
	expect.Equal(t, "the size", body.size(), int64(len(text)))
	if text, placeholders := body.Template(); !placeholders || !strings.HasSuffix(text, "{{filler:100000}}.") {
		t.Errorf("%q", text)
	}
	for _, wrong := range []string{"{{else}}", "{{bytes:f}}", "{{filler:99999999}}", "{{nested}}"} {
		if _, err := q.Fill(wrong, 1); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
}
