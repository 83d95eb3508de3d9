package sdkfront

import (
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Pages are kept while they are the same, in one chain from the first one, and nobody can fill the memory with others.
func TestPagesKept(t *testing.T) {
	var p pages
	a, b, c := &mcp.Tool{Name: "a"}, &mcp.Tool{Name: "b"}, &mcp.Tool{Name: "c"}
	list := func(cursor, next string, kept int, tools ...*mcp.Tool) *byte {
		t.Helper()
		encoded, err := p.encode(cursor, &mcp.ListToolsResult{NextCursor: next, Tools: tools}, []byte("{}"))
		expect.Check(t, err)
		if len(p.kept) != kept {
			t.Errorf("after the page at %q, %d are kept, want %d", cursor, len(p.kept), kept)
		}
		return &encoded[0]
	}
	list("2", "3", 0, b) // nothing led there
	first := list("", "2", 1, a)
	second := list("2", "3", 2, b)
	list("3", "", 3, c)
	for i := range 10 {
		list(fmt.Sprint("made up ", i), "", 3, c)
	}
	if list("", "2", 3, a) != first || list("2", "3", 3, b) != second {
		t.Error("a page that is the same was encoded again")
	}
	if list("2", "3", 2, c) == second {
		t.Error("a page with another tool was not encoded again")
	}
	list("3", "", 3, c)
	if list("", "2", 1, &mcp.Tool{Name: "a"}) == first {
		t.Error("a page with another tool of the same name was not encoded again")
	}
	list("", "", 1, a)
	list("2", "3", 1, b)
}
