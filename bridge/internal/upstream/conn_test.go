package upstream

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A connection that its server has ended leaves no goroutine behind: the bubble would not end.
func TestAConnectionThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mcp.NewServer(&mcp.Implementation{Name: "behind", Version: "1"}, &mcp.ServerOptions{HasTools: true})
		here, there := net.Pipe()
		expect.Must(m.Connect(t.Context(), &mcp.IOTransport{Reader: there, Writer: there}, nil))(t)
		lost := make(chan struct{})
		c := New(Options{Changed: func() {}, Lost: func() { close(lost) },
			Connect: func() (mcp.Transport, error) { return &mcp.IOTransport{Reader: here, Writer: here}, nil }})
		expect.Must(c.Session(t.Context()))(t)
		there.Close() // the server is killed
		<-lost
	})
}
