package drain

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// lastCall is a listener that accepts, before it ends, the connections that the kernel has accepted already. Their
// clients may have sent a request, which would be lost if the listener were closed.
type lastCall struct {
	net.Listener

	mu    sync.Mutex
	until time.Time // when the last call ends; zero before it
}

const (
	lull     = 20 * time.Millisecond // without a connection, after which none is waiting
	lulls    = 3                     // an Accept that begins after its deadline, on a busy machine, does not look
	lastTime = time.Second           // after which a last call ends in any case
)

// call makes Accept return what is waiting, and then [net.ErrClosed]. It reports false if the listener cannot do that.
func (l *lastCall) call() bool {
	d, ok := l.Listener.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(lastTime)
	return d.SetDeadline(time.Unix(1, 0)) == nil // wakes an Accept that waits
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
