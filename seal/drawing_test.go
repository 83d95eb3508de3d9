package seal

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// docs/drawings/keys.svg has the keys of each step of a rotation in their order: the first one seals.
func TestDrawingOfRotation(t *testing.T) {
	drawing, err := os.ReadFile("../docs/drawings/keys.svg")
	expect.Check(t, err)
	var drawn []string
	for _, key := range regexp.MustCompile(`data-step="(\w+)" data-key="(\w)"`).FindAllStringSubmatch(string(drawing),
		-1) {
		drawn = append(drawn, key[1]+" "+key[2])
	}

	now := time.Now()
	ring := expect.Must(NewRing(NewKey(now)))(t)
	names := map[string]string{ring.Keys()[0].ID(): "A"}
	step, want := Step("before"), []string(nil)
	for {
		for _, key := range ring.Keys() {
			if names[key.ID()] == "" {
				names[key.ID()] = "B"
			}
			want = append(want, string(step)+" "+names[key.ID()])
		}
		if step == StepForget {
			break
		}
		now = now.Add(2 * time.Hour)
		if ring, step, err = ring.Rotate(now, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	expect.Diff(t, "the drawing (+) and a rotation (-)", want, drawn)
}
