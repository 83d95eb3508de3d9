package sqlite_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task/sqlite"
)

// This is the code of docs/tasks.md. TestDocument compares and runs it.

type (
	Machine struct {
		Name string `json:"name"`
	}
	VM struct {
		ID string
	}
	Network struct {
		Name string `json:"name"`
	}
)

// cloud stands for a service that makes machines.
var cloud clouds

type clouds struct{}

func (clouds) Create(_ context.Context, name, key string) (VM, error) {
	if key == "" {
		return VM{}, errors.New("no key")
	}
	return VM{"vm-" + name}, nil
}

func (clouds) Join(_ context.Context, vm VM, network string) error {
	if vm.ID != "vm-web1" || network != "nat" {
		return errors.New(vm.ID + " cannot join " + network)
	}
	return nil
}

func (clouds) Delete(context.Context, string) error { return nil }

func provision(ctx context.Context, call *askback.Call, in Machine) (string, error) {
	call.OnCancel(func(ctx context.Context) error { return cloud.Delete(ctx, in.Name) })
	vm, err := askback.Do(ctx, call, "create", func(ctx context.Context) (VM, error) {
		return cloud.Create(ctx, in.Name, call.IdempotencyKey("create"))
	})
	if err != nil {
		return "", err
	}
	call.Progress(ctx, 1, 2, "created")
	net, err := askback.Elicit[Network](call, "network", "Which network shall it join?") // the task is a row meanwhile
	if err != nil {
		return "", err
	}
	err = call.Do(ctx, "join", func(ctx context.Context) error { return cloud.Join(ctx, vm, net.Name) })
	return in.Name + " is in the network " + net.Name, err
}

func serveTasks(
	ctx context.Context, path string, m *mcp.Server, keys *seal.Ring, listener net.Listener,
) error {
	store, err := sqlite.Open(ctx, path) // of a file; or postgres.Open(ctx, "postgres://…") for a fleet
	if err != nil {
		return err
	}
	defer store.Close()
	srv, err := askback.New(m, &askback.Options{Keys: keys, Tasks: &askback.Tasks{Store: store}})
	if err != nil {
		return err
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "provision_vm"}, nil, provision)

	work, ctx := errgroup.WithContext(ctx)             // golang.org/x/sync/errgroup
	work.Go(func() error { return srv.RunTasks(ctx) }) // until ctx is done
	work.Go(func() error {
		return drain.Serve(ctx, listener, &http.Server{Handler: srv.HTTPHandler(nil)}, nil)
	})
	return work.Wait()
}

func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/tasks.md")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the document is not in the module")
	}
	code, err2 := os.ReadFile("document_test.go")
	expect.Check(t, errors.Join(err, err2))
	unindent := func(text []byte) string { return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(string(text), "") }
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(unindent(text), -1)
	if len(blocks) < 2 {
		t.Fatalf("%d blocks of Go", len(blocks))
	}
	for _, block := range blocks[:2] {
		if !strings.Contains(unindent(code), block[1]) {
			t.Errorf("not in document_test.go:\n%s", block[1])
		}
	}

	path := filepath.Join(t.TempDir(), "tasks.db")
	keys, err1 := seal.NewRing(seal.NewKey(time.Now()))
	listener, err2 := net.Listen("tcp", "127.0.0.1:0")
	expect.Check(t, errors.Join(err1, err2))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- serveTasks(ctx, path, mcp.NewServer(&mcp.Implementation{Name: "machines", Version: "1.0.0"}, nil), keys,
			listener)
	}()
	session, err := client.New(&client.Options{Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "nat"}}, nil
	}}).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + listener.Addr().String()}, nil)
	expect.Check(t, err)
	defer session.Close()
	started, _, err := session.StartTask(t.Context(),
		&mcp.CallToolParams{Name: "provision_vm", Arguments: Machine{"web1"}}, 0)
	expect.Check(t, err)
	if started == nil {
		t.Fatal("the call is no task")
	}
	result, err := session.WaitTask(t.Context(), started.ID)
	expect.Check(t, err)
	expect.Equal(t, "the result", result.Content[0].(*mcp.TextContent).Text, "web1 is in the network nat")
	stop()
	if err := <-served; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
