package upstream

import (
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A connection that its server has ended leaves no goroutine behind: the bubble would not end.
func TestAConnectionThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mcp.NewServer(&mcp.Implementation{Name: "behind", Version: "1"}, &mcp.ServerOptions{HasTools: true})
		here, there := mcp.NewInMemoryTransports()
		session, err := m.Connect(t.Context(), there, nil)
		if err != nil {
			t.Fatal(err)
		}
		lost := make(chan struct{})
		c := New(Options{Connect: func() (mcp.Transport, error) { return here, nil }, Changed: func() {},
			Lost: func() { close(lost) }})
		if _, err := c.Session(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = session.Close()
		<-lost
	})
}
