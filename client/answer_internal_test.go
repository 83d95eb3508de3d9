package client

import (
	"fmt"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// The forms that are kept are bounded, however many a server asks with; those that fit are parsed once.
func TestKeptFormsAreBounded(t *testing.T) {
	var c formCache
	small := []byte(`{"type":"object","properties":{}}`)
	kept := expect.Must(c.parse(small))(t)
	for n := range 1000 {
		schema := fmt.Appendf(nil, `{"type":"object","properties":{"f%d":{"type":"string"}}}`, n)
		first, err1 := c.parse(schema)
		again, err2 := c.parse(schema)
		if err1 != nil || err2 != nil || first != again {
			t.Fatalf("form %d: %v, %v, parsed once: %v", n, err1, err2, first == again)
		}
		if size := len(c.parsed); size > 128 || size == 0 {
			t.Fatalf("after %d forms %d are kept", n+1, size)
		}
		if again, err := c.parse(small); n < 100 && (again != kept || err != nil) {
			t.Fatalf("after %d forms another one is parsed again, %v", n+1, err)
		}
	}
}
