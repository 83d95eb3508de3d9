package upstream

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A connection that its server has ended leaves no goroutine behind: the bubble would not end.
func TestAConnectionThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mcp.NewServer(&mcp.Implementation{Name: "behind", Version: "1"}, &mcp.ServerOptions{HasTools: true})
		here, there := net.Pipe()
		if _, err := m.Connect(t.Context(), &mcp.IOTransport{Reader: there, Writer: there}, nil); err != nil {
			t.Fatal(err)
		}
		lost := make(chan struct{})
		c := New(Options{Changed: func() {}, Lost: func() { close(lost) },
			Connect: func() (mcp.Transport, error) { return &mcp.IOTransport{Reader: here, Writer: here}, nil }})
		if _, err := c.Session(t.Context()); err != nil {
			t.Fatal(err)
		}
		there.Close() // the server is killed
		<-lost
	})
}
