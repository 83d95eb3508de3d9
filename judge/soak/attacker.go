package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// attacker is a flood that goes on: the goroutines of this process, or a process of its own.
type attacker struct {
	full <-chan struct{}         // closed when the flood has reached its full extent
	stop func() (counted, error) // ends the flood
}

// counted is what an attacker counted.
type counted struct{ Sent, Refused int64 }

// here attacks from within this process.
func here(ctx context.Context, f *flood, s *subject) (*attacker, error) {
	ctx, stop := context.WithCancel(ctx)
	a := &attack{client: newClient(s, f.user), full: make(chan struct{})}
	attacked := make(chan struct{})
	go func() {
		defer close(attacked)
		f.attack(ctx, a)
	}()
	return &attacker{a.full, func() (counted, error) {
		stop()
		<-attacked
		a.close()
		return counted{a.sent.Load(), a.refused.Load()}, nil
	}}, nil
}

// away attacks from a process that the machine serves last. An attacker has processors of his own: here his work must not
// count as the server's, nor keep the other caller from measuring.
func away(_ context.Context, f *flood, s *subject) (*attacker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("nice", "-n", "19", self, "-attack", f.name, "-url", s.url)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	full, ended := make(chan struct{}), make(chan error, 1)
	var got counted
	go func() {
		lines := bufio.NewReader(stdout)
		_, err := lines.ReadString('\n')
		if err == nil {
			close(full)
			err = json.NewDecoder(lines).Decode(&got)
		}
		_, _ = io.Copy(io.Discard, lines) // Wait closes the pipe
		if waited := cmd.Wait(); waited != nil {
			err = waited
		}
		ended <- err
	}()
	return &attacker{full, func() (counted, error) {
		stdin.Close()
		err := <-ended
		return got, err
	}}, nil
}

// runAttacker is the process of away. It attacks until standard input ends.
func runAttacker(ctx context.Context, name, url string) error {
	for _, f := range floods {
		if f.name != name {
			continue
		}
		a, err := here(ctx, &f, &subject{url: url})
		if err != nil {
			return err
		}
		ended := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(ended)
		}()
		select {
		case <-a.full:
		case <-ended:
		}
		fmt.Println("full")
		<-ended
		got, err := a.stop()
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(got)
	}
	return fmt.Errorf("no flood is named %q", name)
}
