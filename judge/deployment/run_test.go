//go:build unix

package deployment

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/inbox/receipt"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/judge"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/seal"
)

func TestMain(m *testing.M) { os.Exit(judge.Run(m)) }

// patience is how long a process may take for what it does at once on an idle machine.
const patience = time.Minute

// image is a directory with what a Pod of the Deployment has: the program and the folder of the keys.
type image struct {
	root     string
	chroot   bool // the processes see nothing else
	user     syscall.Credential
	versions int // of the keys
}

func newImage(t *testing.T) *image {
	t.Helper()
	user, group := imageUser(t)
	i := &image{root: t.TempDir(), chroot: os.Geteuid() == 0,
		user: syscall.Credential{Uid: uint32(user), Gid: uint32(group)}}
	_, container := readManifests(t).server(t)
	i.makeReceiptKeys(t, value(container, "RECEIPT_KEYS"))
	if !i.chroot {
		t.Log("the processes see the whole file system, because only root can change theirs")
	}
	environment, arguments := buildCommand(t)
	out := slices.Index(arguments, "-o") + 1
	program := filepath.Join(i.root, arguments[out])
	arguments[out] = program
	// it would compile all packages anew
	arguments = slices.DeleteFunc(arguments, func(a string) bool { return a == "-trimpath" })
	build := exec.CommandContext(t.Context(), arguments[0], arguments[1:]...)
	build.Dir = filepath.Join(folder, "../..")
	build.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false") // the image's context has no .git
	for _, variable := range environment {
		if !strings.Contains(variable, "$") { // the platform
			build.Env = append(build.Env, variable)
		}
	}
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, text)
	}
	if runtime.GOOS == "linux" {
		file := expect.Must(elf.Open(program))(t)
		defer file.Close()
		for _, p := range file.Progs {
			if p.Type == elf.PT_INTERP {
				t.Error("the program needs a dynamic linker, which its image does not have")
			}
		}
	}
	return i
}

// makeReceiptKeys makes the keys of receipts, for all instances.
func (i *image) makeReceiptKeys(t *testing.T, file string) {
	t.Helper()
	at := filepath.Join(i.root, file)
	err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), receipt.File(at).Create())
	if i.chroot {
		err = errors.Join(err, os.Chown(at, 0, int(i.user.Gid)), os.Chmod(at, 0o440))
	}
	expect.Check(t, err)
}

// setKeys replaces the keys as the kubelet does for a Secret that is mounted: by a link to another folder.
func (i *image) setKeys(t *testing.T, file string, keys *seal.Ring) {
	t.Helper()
	i.versions++
	dir, version := filepath.Join(i.root, filepath.Dir(file)), fmt.Sprintf("..%d", i.versions)
	at := filepath.Join(dir, version, filepath.Base(file))
	err1 := os.MkdirAll(filepath.Dir(at), 0o755)
	err2 := os.WriteFile(at, []byte(keys.EncodeSecrets()), 0o440)
	if i.chroot {
		err2 = errors.Join(err2, os.Chown(at, 0, int(i.user.Gid)))
	}
	err3 := os.Symlink(version, filepath.Join(dir, "..new"))
	err4 := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data"))
	expect.Check(t, errors.Join(err1, err2, err3, err4))
	// it is there after the first time
	_ = os.Symlink("..data/"+filepath.Base(file), filepath.Join(dir, filepath.Base(file)))
}

// instance is a process of the program.
type instance struct {
	name string
	addr string
	cmd  *exec.Cmd
	done chan error
	log  harness.Log
}

// start starts an instance with the environment of the manifest and more, on a port of its own, and with a collector.
func (i *image) start(t *testing.T, name, database, collector string, more ...string) *instance {
	t.Helper()
	_, container := readManifests(t).server(t)
	p := &instance{name: name, done: make(chan error, 1)}
	if i.chroot {
		p.cmd = exec.Command("/fleet", container.Args...)
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root, Credential: &i.user}
		p.cmd.Dir = "/"
	} else {
		p.cmd = exec.Command(filepath.Join(i.root, "fleet"), container.Args...)
	}
	for _, v := range container.Env {
		value := strings.ReplaceAll(v.Value, "$(POD_NAME)", name)
		switch v.Name {
		case "DATABASE_URL":
			value = database
		case "POD_NAME":
			value = name
		case "ADDR":
			value = "127.0.0.1:0"
		case "KEYS_FILE", "RECEIPT_KEYS":
			if !i.chroot {
				value = filepath.Join(i.root, value)
			}
		}
		p.cmd.Env = append(p.cmd.Env, v.Name+"="+value)
	}
	p.cmd.Env = append(append(p.cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector), more...)
	p.cmd.Stderr = &p.log
	expect.Check(t, p.cmd.Start())
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended unless the test failed
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, p.log.String())
		}
	})
	p.addr, _ = p.await(t, "serving")["addr"].(string)
	return p
}

// await returns the first line of the log with a message.
func (p *instance) await(t *testing.T, message string) map[string]any {
	t.Helper()
	var line map[string]any
	harness.Eventually(t, fmt.Sprintf("%q in the log of %s", message, p.name), func() bool {
		for text := range strings.SplitSeq(p.log.String(), "\n") {
			var l map[string]any
			if err := json.Unmarshal([]byte(text), &l); err == nil && l["msg"] == message {
				line = l
				return true
			}
		}
		return false
	})
	return line
}

// status returns the HTTP status of a path; 0 means that there is no response.
func (p *instance) status(path string) int {
	res, err := http.Get("http://" + p.addr + path)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// connect is a client whose user answers with form.
func (p *instance) connect(t *testing.T,
	form func(context.Context, *client.Question) (*mcp.ElicitResult, error)) *client.Session {
	t.Helper()
	s := expect.Must(client.New(&client.Options{Form: form}).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: "http://" + p.addr + "/mcp"}, nil))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

func text(result mcp.Result) string {
	r, ok := result.(*mcp.CallToolResult)
	if !ok || len(r.Content) != 1 {
		return fmt.Sprintf("%+v", result)
	}
	content, _ := r.Content[0].(*mcp.TextContent)
	return content.Text
}

// Two instances run as the Deployment has them. A call that asks at one goes on at the other, after their keys were
// rotated under them, and both stop in the time that the kubelet gives them.
func TestFleetRunsAsItsManifestsSay(t *testing.T) {
	database := pgtest.DSN(t)
	pod, container := readManifests(t).server(t)
	keysFile := value(container, "KEYS_FILE")
	keys := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	i := newImage(t)
	i.setKeys(t, keysFile, keys)
	var sent sync.Map // what the collector got, by path and instance
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, name := range []string{"orders-one", "orders-two"} {
			if bytes.Contains(body, []byte("service.instance.id")) && bytes.Contains(body, []byte(name)) {
				sent.Store(r.URL.Path+" "+name, true)
			}
		}
	}))
	defer collector.Close()
	one, two := i.start(t, "orders-one", database, collector.URL), i.start(t, "orders-two", database, collector.URL)
	fleet := []*instance{one, two}
	for _, p := range fleet {
		harness.Eventually(t, "readiness of "+p.name,
			func() bool { return p.status(container.ReadinessProbe.HTTPGet.Path) == http.StatusOK })
		if status := p.status(container.LivenessProbe.HTTPGet.Path); status != http.StatusOK {
			t.Errorf("%s: the liveness probe gets %d", p.name, status)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	park := func(context.Context, *client.Question) (*mcp.ElicitResult, error) { return nil, client.ErrPark }
	answer := func(refund bool) func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"refund": refund}}, nil
		}
	}
	_, err := one.connect(t, park).CallTool(ctx,
		&mcp.CallToolParams{Name: "refund_order", Arguments: map[string]any{"id": "17"}})
	parked, ok := errors.AsType[*client.PendingError](err)
	if !ok {
		t.Fatalf("want a question, got %v", err)
	}

	next, step, err := keys.Rotate(time.Now().Add(time.Hour), time.Minute)
	if err != nil || step != seal.StepLearn {
		t.Fatal(step, err)
	}
	i.setKeys(t, keysFile, next)
	for _, p := range fleet {
		if line := p.await(t, "the key file has changed"); strings.Count(fmt.Sprint(line["keys"]), "seal.Key") != 2 {
			t.Errorf("%s has the keys %v", p.name, line["keys"])
		}
	}

	result := expect.Must(two.connect(t, answer(true)).Resume(ctx, parked.Pending))(t)
	expect.Equal(t, "the result", text(result), "Order 17 is refunded.")
	// Another answer to the same question counts at no instance: the client gets what the first one came to.
	again := expect.Must(one.connect(t, answer(false)).Resume(ctx, parked.Pending))(t)
	if want, got := text(result), text(again); got != want {
		t.Errorf("answered again, the result is %q, not %q", got, want)
	}
	expect.Equal(t, "refunds", strings.Count(one.log.String()+two.log.String(), `"refunding"`), 1)

	began := time.Now()
	for _, p := range fleet {
		expect.Check(t, p.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, p := range fleet {
		harness.Eventually(t, "end of the readiness of "+p.name,
			func() bool { return p.status(container.ReadinessProbe.HTTPGet.Path) == http.StatusServiceUnavailable })
	}
	killed := time.After(time.Until(began.Add(time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second)))
	for _, p := range fleet {
		select {
		case err := <-p.done:
			if err != nil {
				t.Errorf("%s ended with %v", p.name, err)
			}
		case <-killed:
			t.Fatalf("%s would have been killed", p.name)
		}
	}
	for _, p := range fleet {
		for _, path := range []string{"/v1/traces ", "/v1/metrics "} {
			if _, ok := sent.Load(path + p.name); !ok {
				t.Errorf("the collector got nothing at %s, at the latest when it ended", path+p.name)
			}
		}
	}
	for _, secret := range append(strings.Fields(next.EncodeSecrets()), database) {
		if strings.HasPrefix(secret, "#") || len(secret) < 20 {
			continue
		}
		if strings.Contains(one.log.String()+two.log.String(), secret) {
			t.Error("a secret is in the log")
		}
	}
}

// A setting that is missing or wrong ends the program at once, and is named.
func TestSettingsThatAreWrongAreNamed(t *testing.T) {
	i, keys := newImage(t), filepath.Join(t.TempDir(), "askback.keys")
	ring := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	expect.Check(t, os.WriteFile(keys, []byte(ring.EncodeSecrets()), 0o600))
	for _, c := range []struct {
		environment []string
		want        string
	}{
		{nil, "DATABASE_URL is not set"},
		{[]string{"DATABASE_URL=postgres://"}, "KEYS_FILE is not set"},
		{[]string{"DATABASE_URL=postgres://", "KEYS_FILE=/nowhere"}, "KEYS_FILE: "},
		{[]string{"DATABASE_URL=postgres://", "KEYS_FILE=/nowhere", "DRAIN_DELAY=5"}, "DRAIN_DELAY: "},
		{[]string{"DATABASE_URL=" + pgtest.DSN(t), "KEYS_FILE=" + keys, "RECEIPT_KEYS=/nowhere"}, "RECEIPT_KEYS: "},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(i.root, "fleet"))
		cmd.Env = append([]string{}, c.environment...)
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 ||
			!strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v, %s", c.environment, err, out)
		}
	}
}
