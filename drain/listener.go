package drain

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Listen listens on a TCP address, such as ":8080", for [Serve]. On Linux, Serve closes such a listener without losing
// a connection. Closing any other listener resets the connections that arrive at that moment, and the requests on them
// are lost.
//
// The listener is for one process. A socket that was inherited or will be passed on needs [net.FileListener] or
// [net.Listen].
func Listen(address string) (net.Listener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // its sockets take no filter
	l, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	return &ownListener{l.(*net.TCPListener)}, nil
}

// ownListener is a listener that no other process has.
type ownListener struct{ *net.TCPListener }

// lastCall is a listener that accepts, before it ends, the connections that the kernel has accepted already. Their
// clients may have sent a request, which would be lost if the listener were closed.
type lastCall struct {
	net.Listener

	close func() error // once

	mu    sync.Mutex
	until time.Time // The end of the last call; zero before it begins.
}

func newLastCall(l net.Listener) *lastCall {
	return &lastCall{Listener: l, close: sync.OnceValue(l.Close)}
}

func (l *lastCall) Close() error { return l.close() }

const (
	// After lulls pauses of this length without a connection, none is waiting. One pause would not do: on a busy machine
	// an Accept may begin after its deadline, and then does not look.
	lull  = 5 * time.Millisecond
	lulls = 3

	lastTime = time.Second // the limit of a last call
)

// call makes Accept return the connections that wait, and then [net.ErrClosed]. A listener that cannot do that is
// closed.
func (l *lastCall) call() {
	if own, ok := l.Listener.(*ownListener); ok {
		ignoreNew(own.TCPListener)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(lastTime)
	d, ok := l.Listener.(interface{ SetDeadline(time.Time) error })
	if !ok || d.SetDeadline(time.Unix(1, 0)) != nil { // wakes an Accept that waits
		l.Close()
	}
}

func (l *lastCall) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return c, err
	}
	l.mu.Lock()
	until := l.until
	l.mu.Unlock()
	if until.IsZero() { // the deadline is somebody else's
		return nil, err
	}
	for range lulls {
		if time.Now().After(until) {
			break
		}
		_ = l.Listener.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Now().Add(lull))
		if c, err = l.Listener.Accept(); err == nil {
			return c, nil
		}
	}
	return nil, net.ErrClosed
}
