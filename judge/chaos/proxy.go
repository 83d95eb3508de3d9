package main

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// proxy is the network between two parties. It loses responses, delays them, and can be interrupted. It is safe for
// concurrent use.
type proxy struct {
	listener net.Listener
	target   func() string // address; "" if nobody listens there
	loss     float64       // the probability that a request is carried, and its response lost
	delay    float64       // the probability that a response is late
	latest   time.Duration // how late a response can be
	hold     float64       // the probability that a request arrives only after held, when its sender has given up
	held     time.Duration

	// silent, if set, is told of a request that is held, and of one that had no response for as long as patience, without
	// a fault of the proxy's.
	silent   func(from, to time.Time)
	patience time.Duration

	faulty  atomic.Bool  // whether responses are lost and delayed
	slow    atomic.Int64 // by how many nanoseconds each request is late
	lost    atomic.Int64
	delayed atomic.Int64

	holds    atomic.Int64
	silences atomic.Int64

	mu     sync.Mutex
	healed chan struct{}     // closed at the end of an interruption; nil without one
	meant  func([]byte) bool // what the interruption holds back
}

// newProxy listens on a free port of 127.0.0.1.
func newProxy(target func() string, loss, delay float64, latest time.Duration) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, target: target, loss: loss, delay: delay, latest: latest}
	go p.serve()
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// interrupt holds back what is meant of all that is sent from now on, in both directions. Nobody sees an error. When
// the interruption heals, everything arrives, as it does where TCP sends again: also what was sent by somebody who
// has given up since. A connection that is made or closed is nil.
func (p *proxy) interrupt(meant func(part []byte) bool) (heal func()) {
	healed := make(chan struct{})
	p.mu.Lock()
	p.healed, p.meant = healed, meant
	p.mu.Unlock()
	return sync.OnceFunc(func() {
		p.mu.Lock()
		p.healed = nil
		p.mu.Unlock()
		close(healed)
	})
}

func everything([]byte) bool { return true }

// statements are PostgreSQL's requests that execute what was prepared on a connection.
func statements(part []byte) bool { return len(part) > 0 && part[0] == 'B' }

// pass returns when nothing holds this back.
func (p *proxy) pass(part []byte) {
	for {
		p.mu.Lock()
		healed, meant := p.healed, p.meant
		p.mu.Unlock()
		if healed == nil || !meant(part) {
			return
		}
		<-healed
	}
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // it is closed
		}
		go p.carry(client.(*net.TCPConn))
	}
}

// carry connects a client with the target until one of them closes the connection.
func (p *proxy) carry(client *net.TCPConn) {
	defer client.Close()
	p.pass(nil)
	conn, err := net.DialTimeout("tcp", p.target(), 5*time.Second)
	if err != nil {
		return
	}
	defer conn.Close()
	server := conn.(*net.TCPConn)
	var doomed atomic.Bool // the next response is lost, and the connection with it
	var asked atomic.Int64 // when the first request without a response was carried, in nanoseconds of Unix; or 0
	answered := func() {
		now := time.Now()
		if from := time.Unix(0, asked.Swap(0)); p.silent != nil && from.Unix() > 0 && now.Sub(from) >= p.patience {
			p.silences.Add(1)
			p.silent(from, now)
		}
	}
	defer answered() // or given up
	var requests sync.WaitGroup
	requests.Go(func() {
		p.copy(server, client, func() bool {
			if now := time.Now(); p.faulty.Load() && rand.Float64() < p.hold {
				p.silent(now, now.Add(p.held))
				p.holds.Add(1)
				time.Sleep(p.held)
			}
			time.Sleep(time.Duration(p.slow.Load()))
			asked.CompareAndSwap(0, time.Now().UnixNano())
			if p.faulty.Load() && rand.Float64() < p.loss {
				doomed.Store(true)
			}
			return true
		})
		server.CloseWrite() // the server still does what it was told
	})
	p.copy(client, server, func() bool {
		answered()
		if doomed.Load() {
			p.lost.Add(1)
			return false
		}
		if p.faulty.Load() && rand.Float64() < p.delay {
			p.delayed.Add(1)
			time.Sleep(rand.N(p.latest))
		}
		return true
	})
	client.Close()
	server.Close()
	requests.Wait()
}

// copy copies until the source ends, the destination is gone, or allow refuses a part.
func (p *proxy) copy(to, from *net.TCPConn, allow func() bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.pass(buffer[:n])
			if !allow() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err == io.EOF {
				p.pass(nil)
			}
			return
		}
	}
}

// close ends the network, so that no connection can be made any more.
func (p *proxy) close() { p.listener.Close() }
