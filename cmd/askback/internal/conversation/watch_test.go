package conversation

import (
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestHowToGoOnWithATask(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"abc":      "askback task result 'http://bob:xxxxx@host/?a=1&b' abc",
		"-abc":     "askback task result 'http://bob:xxxxx@host/?a=1&b' -- -abc",
		"it's":     `askback task result 'http://bob:xxxxx@host/?a=1&b' 'it'\''s'`,
		"a\x1b\r'": `askback task result 'http://bob:xxxxx@host/?a=1&b' $'a\x1b\r\''`,
	} {
		at := expect.Must(cli.ParseTarget("http://bob:S3cret@host/?a=1&b"))(t)
		if got := (&watch{asker: &asker{target: at}, id: id}).command(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
