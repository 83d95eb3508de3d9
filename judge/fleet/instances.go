package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/seal"
)

// patience is how long a process may take to start or to stop.
const patience = 2 * time.Minute

// fleet is a proxy and its instances.
type fleet struct {
	url       string // of the proxy's endpoint
	proxy     *exec.Cmd
	plain     *http.Server // a proxy in this process
	cancel    context.CancelFunc
	instances []*instance
	ctx       context.Context // of the processes
}

// instance is an address and the process that listens there.
type instance struct {
	addr    string
	command func() (*exec.Cmd, error)
	process *child.Process
}

// startFleet starts three instances and a proxy, whose files are in dir.
func startFleet(ctx context.Context, o *options, proxy, program, dir string) (f *fleet, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ring, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		return nil, err
	}
	keys := filepath.Join(dir, "askback.keys")
	if err := os.WriteFile(keys, []byte(ring.EncodeSecrets()), 0o600); err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(4)
	if err != nil {
		return nil, err
	}
	f = &fleet{url: "http://" + addresses[0] + "/mcp"}
	f.ctx, f.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	for n, addr := range addresses[1:] {
		i := &instance{addr: addr, command: func() (*exec.Cmd, error) {
			log, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("instance%d.log", n+1)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				return nil, err
			}
			arguments := []string{"serve", "--addr", addr, "--keys", keys, "--data", filepath.Join(dir, "data"), "--pace", "600ms", "--until-eof"}
			cmd := exec.CommandContext(f.ctx, program, append(arguments, o.serve...)...)
			if stop, own := plainProxies[proxy]; own {
				cmd = exec.CommandContext(f.ctx, os.Args[0], "-serve", addr, "-keys", keys, "-stop", stop)
			}
			cmd.Stderr = log
			return cmd, nil
		}}
		if err := i.start(ctx); err != nil {
			return nil, err
		}
		f.instances = append(f.instances, i)
	}
	if _, own := plainProxies[proxy]; own {
		return f, f.startPlain(addresses)
	}
	return f, f.startProxy(proxy, o.configs, dir, addresses)
}

// freeAddresses returns addresses that nobody listens on at present.
func freeAddresses(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// start starts a process and waits until it is ready.
func (i *instance) start(ctx context.Context) error {
	cmd, err := i.command()
	if err != nil {
		return err
	}
	if i.process, err = child.Start(cmd); err != nil {
		return fmt.Errorf("starting an instance: %w", err)
	}
	if _, err := i.process.Wait(patience); err != nil {
		return fmt.Errorf("an instance: %w", err)
	}
	return waitFor(ctx, "http://"+i.addr+"/readyz", http.StatusOK)
}

// restart stops an instance as a supervisor does, and starts it again.
func (f *fleet) restart(ctx context.Context, n int) error {
	i := f.instances[n]
	process, err := os.FindProcess(i.process.PID())
	if err == nil {
		err = process.Signal(syscall.SIGTERM)
	}
	if err != nil {
		return fmt.Errorf("stopping an instance: %w", err)
	}
	select {
	case <-i.process.Dead:
	case <-time.After(patience):
		return fmt.Errorf("an instance did not stop within %v", patience)
	}
	return i.start(ctx)
}

// stop kills all processes and waits for their end.
func (f *fleet) stop() {
	f.cancel()
	for _, i := range f.instances {
		<-i.process.Dead
	}
	if f.proxy != nil {
		_ = f.proxy.Wait() // it was killed
	}
	if f.plain != nil {
		f.plain.Close()
	}
}

// ports are those of the configurations in docs/deploy: the proxy's, and those of the instances.
var ports = []string{"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082", "127.0.0.1:8083"}

// startProxy starts a proxy with its configuration, in which it replaces the addresses.
func (f *fleet) startProxy(name, configs, dir string, addresses []string) error {
	source := map[string]string{"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[name]
	if source == "" {
		return fmt.Errorf("an unknown proxy: want nginx, haproxy or plain")
	}
	text, err := os.ReadFile(filepath.Join(configs, source))
	if err != nil {
		return fmt.Errorf("reading the configuration, which is found from the root of the repository only: %w", err)
	}
	config := string(text)
	for n, port := range ports {
		if !strings.Contains(config, port) {
			return fmt.Errorf("%s has no %s", source, port)
		}
		config = strings.ReplaceAll(config, port, addresses[n])
	}
	file := filepath.Join(dir, source)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	switch name {
	case "nginx":
		main := filepath.Join(dir, "main.conf") // as that of a distribution, which includes conf.d
		err := os.WriteFile(main, fmt.Appendf(nil, nginxMain, dir, file), 0o600)
		if err != nil {
			return err
		}
		f.proxy = exec.CommandContext(f.ctx, "nginx", "-p", dir, "-c", main)
	case "haproxy":
		f.proxy = exec.CommandContext(f.ctx, "haproxy", "-db", "-f", file)
	}
	f.proxy.Cancel = func() error { return f.proxy.Process.Signal(syscall.SIGTERM) } // nginx ends its workers
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	f.proxy.Stdout, f.proxy.Stderr = log, log
	if err := f.proxy.Start(); err != nil {
		f.proxy = nil
		return fmt.Errorf("starting the proxy: %w", err)
	}
	// It has no tool for a GET, but the instances' answer shows that it passes requests on.
	return waitFor(f.ctx, f.url, http.StatusBadRequest, http.StatusMethodNotAllowed)
}

const nginxMain = `daemon off;
worker_processes 2;
pid %[1]s/nginx.pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path %[1]s/body;
    proxy_temp_path %[1]s/proxy;
    fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi;
    scgi_temp_path %[1]s/scgi;
    include %[2]s;
}
`

// waitFor waits until a URL is answered with one of these statuses.
func waitFor(ctx context.Context, url string, statuses ...int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		last := ""
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			last = res.Status
			for _, status := range statuses {
				if res.StatusCode == status {
					return nil
				}
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s is not there; its last status was %q: %w", url, last, context.Cause(ctx))
		}
	}
}
