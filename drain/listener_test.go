package drain_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// starved is a listener of a process that gets no time to accept anything until it may, and then little.
type starved struct {
	*net.TCPListener
	accepts int
	may     chan struct{}
	stopped chan struct{} // closed when the server wants no more
}

func (s *starved) Accept() (net.Conn, error) {
	<-s.may
	if s.accepts++; s.accepts == 2 {
		time.Sleep(50 * time.Millisecond) // until the deadline has passed
	}
	return s.TCPListener.Accept()
}

func (s *starved) SetDeadline(t time.Time) error {
	if t.Unix() == 1 {
		close(s.stopped)
	}
	return s.TCPListener.SetDeadline(t)
}

// Requests that the kernel has accepted before the listener closes are answered.
func TestTheKernelsConnectionsAreAnswered(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	expect.Check(t, err)
	listener := &starved{TCPListener: tcp.(*net.TCPListener), may: make(chan struct{}), stopped: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- drain.Serve(ctx, listener, &http.Server{Handler: http.NotFoundHandler()},
			&drain.Options{Delay: -1, Logger: slog.New(slog.DiscardHandler)})
	}()
	connections := make([]net.Conn, 10)
	for i := range connections {
		if connections[i], err = net.Dial("tcp", tcp.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer connections[i].Close()
		if _, err := io.WriteString(connections[i],
			"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	<-listener.stopped
	close(listener.may)
	for _, c := range connections {
		res := expect.Must(http.ReadResponse(bufio.NewReader(c), nil))(t)
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("got %s", res.Status)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", tcp.Addr().String()); err == nil {
		c.Close()
		t.Error("the listener is still open")
	}
}

// While the listener closes, clients go on to connect. Each either gets a response or cannot connect.
func TestNoConnectionIsLost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel cannot be told to ignore new connections")
	}
	const rounds, clients = 8, 32
	var atOnce sync.WaitGroup
	defer atOnce.Wait()
	for round := range rounds {
		atOnce.Go(func() {
			listener, err := drain.Listen([]string{"127.0.0.1:0", ":0"}[round%2]) // also over IPv6, where there is any
			if err != nil {
				t.Error(err)
				return
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- drain.Serve(ctx, listener, &http.Server{Handler: http.NotFoundHandler()},
					&drain.Options{Delay: -1, Logger: slog.New(slog.DiscardHandler)})
			}()
			var all sync.WaitGroup
			var answered atomic.Int64
			for range clients {
				all.Go(func() {
					for {
						c, err := net.DialTimeout("tcp", listener.Addr().String(), 500*time.Millisecond)
						if err != nil {
							return
						}
						_ = c.SetDeadline(time.Now().Add(time.Minute))
						_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
						if err == nil {
							_, err = io.ReadAll(c)
						}
						c.Close()
						if err != nil {
							t.Errorf("a connection was lost: %v", err)
							return
						}
						if answered.Add(1) == 2*clients {
							stop()
						}
					}
				})
			}
			all.Wait()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
