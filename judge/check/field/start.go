package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/askback-mcp/askback/judge/process"
)

// starter starts a server that writes into a log, and returns the command's arguments that name it.
type starter func(ctx context.Context, log string) (target []string, stop func(), err error)

// serve returns the starter of a command that listens on the address or port that it is given.
func serve(path string, command func(address string, port int) *exec.Cmd) starter {
	return func(ctx context.Context, log string) ([]string, func(), error) {
		port, err := freePort(ctx)
		if err != nil {
			return nil, nil, err
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		output, err := os.Create(log)
		if err != nil {
			return nil, nil, err
		}
		defer output.Close()
		cmd := command(address, port)
		cmd.Stdout, cmd.Stderr = output, output
		if err := cmd.Start(); err != nil {
			return nil, nil, err
		}
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // it is killed
			close(ended)
		}()
		stop := func() {
			_ = cmd.Process.Kill() // it may have ended
			<-ended
		}
		if err := listening(ctx, address, ended); err != nil {
			stop()
			return nil, nil, fmt.Errorf("%w; its log ends with\n%s", err, process.Tail(log))
		}
		return []string{"http://" + address + path}, stop, nil
	}
}

// freePort returns a port that nothing listens on.
func freePort(ctx context.Context) (int, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// listening waits until something listens on the address.
func listening(ctx context.Context, address string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	for {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ended:
			return fmt.Errorf("the server has ended")
		case <-ctx.Done():
			return err
		}
	}
}
