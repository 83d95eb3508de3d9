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

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/judge/process"
)

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
	addr, log string
	command   func() *exec.Cmd
	process   *child.Process
}

// startFleet starts three instances and a proxy, whose files are in dir.
func startFleet(ctx context.Context, o *options, proxy, program, dir string) (f *fleet, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	keys := filepath.Join(dir, "askback.keys")
	if err := process.NewKeys(keys); err != nil {
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
	stop, own := plainProxies[proxy]
	for n, addr := range addresses[1:] {
		arguments := append([]string{"serve", "--addr", addr, "--keys", keys, "--data", filepath.Join(dir, "data"),
			"--pace", "600ms", "--until-eof"}, o.serve...)
		if own {
			program, arguments = os.Args[0], []string{"-serve", addr, "-keys", keys, "-stop", stop}
		}
		i := &instance{addr: addr, log: filepath.Join(dir, fmt.Sprintf("instance%d.log", n+1)), command: func() *exec.Cmd {
			return exec.CommandContext(f.ctx, program, arguments...)
		}}
		if err := i.start(ctx); err != nil {
			return nil, err
		}
		f.instances = append(f.instances, i)
	}
	if own {
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
func (i *instance) start(ctx context.Context) (err error) {
	if i.process, _, err = process.StartReady(i.command(), i.log); err != nil {
		return err
	}
	return process.WaitFor(ctx, "http://"+i.addr+"/readyz", http.StatusOK)
}

// restart stops an instance as a supervisor does, and starts it again.
func (f *fleet) restart(ctx context.Context, n int) error {
	if err := process.Stop(f.instances[n].process); err != nil {
		return err
	}
	return f.instances[n].start(ctx)
}

// stop kills all processes and waits for their end.
func (f *fleet) stop() {
	f.cancel()
	for _, i := range f.instances {
		if i.process != nil {
			<-i.process.Dead
		}
	}
	if f.proxy != nil {
		_ = f.proxy.Wait() // it was killed
	}
	if f.plain != nil {
		f.plain.Close()
	}
}

// ports are the ports in the configurations of docs/deploy: the proxy's, and the instances'.
var ports = []string{"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082", "127.0.0.1:8083"}

// startProxy starts a proxy with its configuration, in which it replaces the addresses.
func (f *fleet) startProxy(name, configs, dir string, addresses []string) error {
	source := map[string]string{"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[name]
	if source == "" {
		return fmt.Errorf("an unknown proxy: want nginx, haproxy or plain")
	}
	text, err := os.ReadFile(filepath.Join(configs, source))
	if err != nil {
		return fmt.Errorf("read the configuration, which is found from the root of the repository only: %w", err)
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
	f.proxy = exec.CommandContext(f.ctx, "haproxy", "-db", "-f", file)
	if name == "nginx" {
		main := filepath.Join(dir, "main.conf") // as a distribution's nginx.conf, which includes conf.d
		if err := os.WriteFile(main, fmt.Appendf(nil, nginxMain, dir, file), 0o600); err != nil {
			return err
		}
		f.proxy = exec.CommandContext(f.ctx, "nginx", "-p", dir, "-c", main)
	}
	f.proxy.Cancel = func() error { return f.proxy.Process.Signal(syscall.SIGTERM) } // nginx ends its workers
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	f.proxy.Stdout, f.proxy.Stderr = log, log
	if err := f.proxy.Start(); err != nil {
		f.proxy = nil
		return fmt.Errorf("start the proxy: %w", err)
	}
	return f.waitForProxy()
}

// waitForProxy waits until the proxy passes requests on: the instances have no response to a GET but these.
func (f *fleet) waitForProxy() error {
	return process.WaitFor(f.ctx, f.url, http.StatusBadRequest, http.StatusMethodNotAllowed)
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
