package sdkfront

import (
	"fmt"
	"testing"
)

// Templates are compared with a URI as the SDK does it, and few of them are kept.
func TestFewTemplatesAreKept(t *testing.T) {
	t.Parallel()
	var all templates
	for i := range 3 * mostTemplates {
		text := fmt.Sprintf("shop%d://{id}", i)
		if uri := fmt.Sprintf("shop%d://a", i); !all.match(text, uri) || all.match(text, "x"+uri) {
			t.Fatalf("%s: %s", text, uri)
		}
		if len(all.parsed) > mostTemplates {
			t.Fatalf("%d templates are kept", len(all.parsed))
		}
	}
	if all.match("{", "{") {
		t.Error("what is no template matches")
	}
}
