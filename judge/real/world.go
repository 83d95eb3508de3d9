package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/judge/process"
)

const (
	instances = 3                      // as many as in the configuration of nginx
	lease     = 2 * time.Second        // of the tasks of instances and bridges
	wait      = 300 * time.Millisecond // until a host that takes no tasks is told in words
)

// world is everything that runs.
type world struct {
	ctx    context.Context // of all processes
	cancel context.CancelFunc
	dir    string
	seed   uint64
	random *rand.Rand // of the faults

	record   *record
	pages    map[string]string // the decisions that were read on pages, by names and keys
	database *database
	outside  *httptest.Server
	units    []*unit // the instances, the bridge, its page
	nginx    *child.Process
	running  sync.WaitGroup

	mcpURL, inboxURL, bridgeURL, bridgePageURL string
}

// newWorld starts everything except the hosts and the people.
func newWorld(ctx context.Context, seed uint64) (_ *world, err error) {
	w := &world{seed: seed, random: rand.New(rand.NewPCG(seed, 1)), record: new(record), pages: make(map[string]string)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.outside = httptest.NewServer(w.record.outside())
	defer func() {
		if err != nil {
			w.end()
		}
	}()
	if w.dir, err = os.MkdirTemp("", "real-"); err != nil {
		return nil, err
	}
	if w.database, err = startDatabase(ctx); err != nil {
		return nil, err
	}
	keys := filepath.Join(w.dir, "askback.keys")
	program, err1 := process.Build(ctx, w.dir)
	at, err2 := process.FreeAddresses(instances + 4)
	self, err3 := os.Executable()
	if err := errors.Join(err1, err2, err3, process.NewKeys(keys)); err != nil {
		return nil, err
	}
	for n, addr := range at[:instances] {
		text, _ := json.Marshal(instance{addr, w.database.url("postgres"), keys, w.outside.URL}) // it has strings only
		w.add(fmt.Sprint("instance-", n+1), []string{instanceVariable + "=" + string(text)}, self)
	}
	front, pages, bridgeAt, pageAt := at[instances], at[instances+1], at[instances+2], at[instances+3]
	w.mcpURL, w.inboxURL = "http://"+front+"/mcp", "http://"+pages+"/inbox"
	w.bridgeURL, w.bridgePageURL = "http://"+bridgeAt+"/mcp", "http://"+pageAt
	w.add(bridge, nil, program, "bridge", w.mcpURL, "--addr", bridgeAt, "--as", carol, "--keys", keys,
		"--store", w.database.url(bridge), "--wait", wait.String(), "--lease", lease.String(), "--approve", "once",
		"--header", userHeader+": "+carol)
	w.add("page", nil, program, "inbox", "serve", w.database.url(bridge), "--addr", pageAt, "--trust-header",
		personHeader, "--trusted", "127.0.0.1")
	if err := w.startNginx(front, pages, at[:instances]); err != nil {
		return nil, err
	}
	for _, u := range w.units {
		u.await(ctx, nil)
	}
	return w, process.WaitFor(ctx, w.mcpURL, http.StatusBadRequest, http.StatusMethodNotAllowed)
}

// end kills everything, and returns when it is gone.
func (w *world) end() {
	w.cancel()
	w.running.Wait()
	if w.nginx != nil {
		_ = process.Stop(w.nginx) // and its workers with it
	}
	w.outside.CloseClientConnections()
	w.outside.Close()
	if w.database != nil {
		w.database.end()
	}
}

// startNginx starts nginx with the configuration of examples/fleet, in which it replaces what belongs to containers.
func (w *world) startNginx(front, pages string, at []string) error {
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	mcp, err1 := os.ReadFile("../examples/fleet/nginx.conf") // from judge
	inbox, err2 := os.ReadFile("../examples/fleet/inbox.conf")
	people, config := filepath.Join(w.dir, "people"), string(mcp)+string(inbox)
	for from, to := range map[string]string{
		"listen 8080;": "listen " + front + ";", "listen 8081;": "listen " + pages + ";", "/etc/nginx/people": people,
		"172.30.80.11:8080": at[0], "172.30.80.12:8080": at[1], "172.30.80.13:8080": at[2],
	} {
		if err1 == nil && err2 == nil && !strings.Contains(config, from) {
			return fmt.Errorf("the configuration of examples/fleet has no %s", from)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	err3 := os.WriteFile(people, []byte("ada:{PLAIN}ada\nbob:{PLAIN}bob\n"), 0o600)
	file, err4 := process.NginxConfig(w.dir, config)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	w.nginx, err = process.Start(exec.Command(program, "-p", w.dir, "-c", file), filepath.Join(w.dir, "nginx.log"))
	return err
}
