package provision

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
)

// A process can die after each of the changes that a claim and a removal make.
func TestClaimAndRemoveMayBeRepeated(t *testing.T) {
	host := &Host{Root: filepath.Join(t.TempDir(), "machines")}
	m := &machine{host, anyCall(t), args{Name: "web-1"}}
	left := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(host.Root)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	}
	if err := m.remove(t.Context()); err != nil {
		t.Fatal(err)
	}

	died := filepath.Join(host.Root, m.prepared()+"died")
	if err := os.MkdirAll(died, 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := m.claim()
	if err != nil {
		t.Fatal(err)
	}
	left("web-1")
	if again, err := m.claim(); err != nil || !again.Equal(first) {
		t.Errorf("claimed again at %v, %v; want %v", again, err, first)
	}
	left("web-1")

	if err := os.Rename(m.dir(), filepath.Join(host.Root, m.removed())); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	left("effects.log")
}

// anyCall is a call of a tool that does nothing.
func anyCall(t *testing.T) (call *askback.Call) {
	t.Helper()
	askbacktest.Run(t, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "tool"}, func(_ context.Context, c *askback.Call, _ struct{}) (string, error) {
			call = c
			return "", nil
		})
	}, askbacktest.Call{Tool: "tool"})
	return call
}
