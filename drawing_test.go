package askback_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// docs/drawings/call.svg draws the call that docs/telemetry.md shows as a trace.
func TestDrawingOfACall(t *testing.T) {
	page := expect.Must(os.ReadFile("docs/telemetry.md"))(t)
	drawing := expect.Must(os.ReadFile("docs/drawings/call.svg"))(t)
	call, _, _ := strings.Cut(string(page), "\n## The log")
	does := make(map[string]string) // by the number of the instance
	spans := regexp.MustCompile(`(?m)^instance (\d) .*?(?:input_required: (\w+)|step (\S+) .*)$`)
	for _, span := range spans.FindAllStringSubmatch(call, -1) {
		switch instance, asked, step := span[1], span[2], span[3]; {
		case asked != "":
			does[instance] = "asks " + asked
		case does[instance] == "":
			does[instance] = "steps " + step
		default:
			does[instance] += ", " + step
		}
	}
	expect.Equal(t, "the trace", len(does), 3)
	for instance, want := range does {
		group := regexp.MustCompile(`(?s)<g data-instance="` + instance + `">(.*?)</g>`).FindString(string(drawing))
		if !strings.Contains(group, want+"</text>") {
			t.Errorf("instance %s does not draw %q:\n%s", instance, want, group)
		}
	}
}

// Each drawing is in a document, with a text for those who do not see it.
func TestDrawingsAreShown(t *testing.T) {
	drawings, err := filepath.Glob("docs/drawings/*.svg")
	if err != nil || len(drawings) == 0 {
		t.Fatal(drawings, err)
	}
	var documents []string
	for _, pattern := range []string{"docs/*.md", "docs/proof/*.md"} {
		pages := expect.Must(filepath.Glob(pattern))(t)
		documents = append(documents, pages...)
	}
	var all strings.Builder
	for _, name := range documents {
		text := expect.Must(os.ReadFile(name))(t)
		all.Write(text)
	}
	for _, name := range drawings {
		if !regexp.MustCompile(`!\[[^]]{80,}\]\((?:\.\./)?drawings/` + regexp.QuoteMeta(filepath.Base(name)) +
			`\)`).MatchString(all.String()) {
			t.Errorf("no document shows %s with a text of at least 80 characters in its place", name)
		}
	}
}
