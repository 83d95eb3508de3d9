package main

import (
	"bufio"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// echo answers each line with the same line, and counts them.
func echo(t *testing.T) (addr string, heard *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	heard = new(atomic.Int64)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewReader(conn); ; {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					heard.Add(1)
					conn.Write([]byte(line))
				}
			}()
		}
	}()
	return listener.Addr().String(), heard
}

// through connects to an echo through a proxy.
func through(t *testing.T, loss float64) (p *proxy, conn net.Conn, heard *atomic.Int64) {
	t.Helper()
	addr, heard := echo(t)
	p, err := newProxy(func() string { return addr }, loss, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	if conn, err = net.Dial("tcp", p.addr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return p, conn, heard
}

func say(conn net.Conn) (answer string, err error) {
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func TestALostResponseIsOneToARequestThatWasHeard(t *testing.T) {
	p, conn, heard := through(t, 1)
	if answer, err := say(conn); answer != "hello\n" || err != nil {
		t.Fatalf("before there are faults: %q, %v", answer, err)
	}
	p.faulty.Store(true)
	if answer, err := say(conn); answer != "" || err == nil {
		t.Errorf("got %q, %v, want an end", answer, err)
	}
	if heard.Load() != 2 || p.lost.Load() != 1 {
		t.Errorf("the server heard %d requests, and %d responses were lost", heard.Load(), p.lost.Load())
	}
}

// What is sent during an interruption arrives after it, also if the sender has given up.
func TestAnInterruptionHoldsBackWhatIsSent(t *testing.T) {
	p, conn, heard := through(t, 0)
	if _, err := say(conn); err != nil {
		t.Fatal(err)
	}
	heal := p.interrupt(everything)
	if _, err := conn.Write([]byte("held back\n")); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	other, err := net.Dial("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	answers := make(chan error, 1)
	go func() { _, err := say(other); answers <- err }()
	select {
	case <-answers:
		t.Fatal("an answer came through")
	case <-time.After(50 * time.Millisecond):
	}
	if heard.Load() != 1 {
		t.Fatal("a request came through")
	}
	heal()
	if err := <-answers; err != nil {
		t.Errorf("after the interruption: %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); heard.Load() < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("the server heard %d requests, want all 3", heard.Load())
		}
		time.Sleep(time.Millisecond)
	}
}

// An interruption of statements lets connections, what prepares a statement, and answers pass.
func TestAnInterruptionOfStatements(t *testing.T) {
	p, conn, heard := through(t, 0)
	heal := p.interrupt(statements)
	if answer, err := say(conn); answer != "hello\n" || err != nil {
		t.Fatalf("what is no statement: %q, %v", answer, err)
	}
	if _, err := conn.Write([]byte("B is how one begins\n")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if heard.Load() != 1 {
		t.Error("a statement came through")
	}
	heal()
	if answer, err := bufio.NewReader(conn).ReadString('\n'); answer != "B is how one begins\n" || err != nil {
		t.Errorf("after the interruption: %q, %v", answer, err)
	}
}

// A target that does not answer for a long time is told of, whether it answers in the end or its client gives up.
func TestSilenceIsNoted(t *testing.T) {
	for name, patience := range map[string]time.Duration{"silent": time.Millisecond, "patient": time.Hour} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			p, err := newProxy(listener.Addr().String, 0, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			noted := make(chan time.Duration, 2)
			p.patience = patience
			p.silent = func(from, to time.Time) { noted <- to.Sub(from) }
			for _, answers := range []bool{true, false} {
				conn, err := net.Dial("tcp", p.addr())
				if err != nil {
					t.Fatal(err)
				}
				conn.Write([]byte("hello\n"))
				target, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := bufio.NewReader(target).ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Millisecond) // longer than its patience
				if answers {
					target.Write([]byte("hello\n"))
					if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				conn.Close()
				target.Close()
				if patience == time.Millisecond {
					if silence := <-noted; silence < patience {
						t.Errorf("it was noted after %v", silence)
					}
				}
			}
			if len(noted) > 0 {
				t.Error("a silence too many")
			}
		})
	}
}

// A request that is held arrives, although its sender has given up.
func TestAHeldRequestArrives(t *testing.T) {
	p, conn, heard := through(t, 0)
	if _, err := say(conn); err != nil {
		t.Fatal(err)
	}
	held := make(chan time.Time, 1)
	p.hold, p.held, p.silent = 1, 10*time.Millisecond, func(_, to time.Time) { held <- to }
	p.faulty.Store(true)
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	until := <-held
	for heard.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	if time.Now().Before(until) {
		t.Error("it arrived before its time")
	}
}
