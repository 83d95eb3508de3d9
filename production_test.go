package askback_test

import (
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every log message that docs/production.md quotes is one of the code. An ellipsis stands for the rest of a message.
func TestProductionGuideQuotesTheLog(t *testing.T) {
	if _, err := os.Stat("cmd/askback"); err != nil {
		t.Skip("cmd/askback is a module of its own, which is not here")
	}
	page, err := os.ReadFile("docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	messages := make(map[string]bool) // every text in the code
	literal := regexp.MustCompile(`"(?:[^"\\\n]|\\.)+"`)
	err = fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (strings.HasPrefix(path, ".git") || path == "internal/interop") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, quoted := range literal.FindAllString(string(source), -1) {
			if text, err := strconv.Unquote(quoted); err == nil {
				messages[text] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	quoted := 0
	for _, found := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(string(page), -1) {
		text, open := strings.CutSuffix(found[1], "…")
		text = strings.TrimRight(text, " ")
		isCommand := strings.HasPrefix(text, "askback ")
		if isCommand || !strings.HasPrefix(text, "askback: ") && !strings.HasPrefix(text, "task: ") && strings.Count(text, " ") < 4 {
			continue
		}
		quoted++
		if !messages[text] && !(open && hasPrefix(messages, text)) {
			t.Errorf("nothing logs %q", found[1])
		}
	}
	if quoted < 20 {
		t.Errorf("the page quotes %d messages", quoted)
	}
}

func hasPrefix(messages map[string]bool, prefix string) bool {
	for message := range messages {
		if strings.HasPrefix(message, prefix) {
			return true
		}
	}
	return false
}
