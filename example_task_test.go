package askback_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/task"
)

type Deployment struct {
	Service string `json:"service"`
}

type Window struct {
	Night bool `json:"night" title:"Deploy at night?"`
}

// The calls of this tool are durable tasks. The client's CallTool waits for the result. With
// StartTask the client would get the ID and could disconnect.
func ExampleAddTaskTool() {
	playTask(&askback.TaskSupport{}, func(ctx context.Context, call *askback.Call, in Deployment) (string, error) {
		call.OnCancel(func(context.Context) error {
			fmt.Println("taking", in.Service, "down")
			return nil
		})
		version, err := askback.Do(ctx, call, "build", func(context.Context) (string, error) {
			return "v2", nil // committed to the store before the handler continues
		})
		if err != nil {
			return "", err
		}
		window, err := askback.Elicit[Window](call, "window", "When shall "+version+" go out?")
		if err != nil {
			return "", err // the task waits as a row in the store
		}
		return fmt.Sprintf("%s %s is deployed, at night: %v.", in.Service, version, window.Night), nil
	})
	// Output:
	// asked: When shall v2 go out?
	// shop v2 is deployed, at night: true.
}

// A website accepts a page only from the claim that it was shown last, or one with a higher number: a worker that was
// out of reach for longer than its lease cannot overwrite what the one after it published, even if the database has
// lost a claim and given its number to both.
type website struct {
	mu    sync.Mutex
	fence int64
	nonce string
	page  string
}

func (s *website) publish(page string, fence int64, nonce string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fence < s.fence || fence == s.fence && nonce != s.nonce {
		return fmt.Errorf("%w: claim %d is not the one that the website was shown last, %d",
			task.ErrLeaseLost, fence, s.fence)
	}
	s.page, s.fence, s.nonce = page, fence, nonce
	return nil
}

func ExampleCall_Fence() {
	var web website
	playTask(&askback.TaskSupport{}, func(ctx context.Context, call *askback.Call, in Deployment) (string, error) {
		err := call.Do(ctx, "publish", func(context.Context) error {
			// UPDATE site SET body = $1, fence = $2, nonce = $3 WHERE fence < $2 OR fence = $2 AND nonce = $3
			return web.publish(in.Service+" is open.", call.Fence(), call.Nonce())
		})
		return web.page, err
	})
	fmt.Println(web.publish("shop is closed.", 1, "of a claim that the database has lost"))
	// Output:
	// shop is open.
	// the lease on the task is lost: claim 1 is not the one that the website was shown last, 1
}

// If the database has lost one of two claims with the same number, the nonce distinguishes them: a system that lends
// out something names the borrower by both.
func ExampleCall_Nonce() {
	lent := make(map[string]string) // to a claim
	playTask(&askback.TaskSupport{}, func(ctx context.Context, call *askback.Call, in Deployment) (string, error) {
		err := call.Do(ctx, "lend", func(context.Context) error {
			lent["crane"] = fmt.Sprintf("%d-%s", call.Fence(), call.Nonce())
			return nil
		})
		return "It has the crane.", err
	})
	number, nonce, _ := strings.Cut(lent["crane"], "-")
	fmt.Println("claim", number, "has a nonce:", nonce != "")
	// Output:
	// It has the crane.
	// claim 1 has a nonce: true
}

// The questions that decide whether there is work to do are asked in rounds, without a store.
// Only then does the call become a task.
func ExampleCall_Detach() {
	playTask(&askback.TaskSupport{AtDetach: true},
		func(ctx context.Context, call *askback.Call, in Deployment) (string, error) {
			window, err := askback.Elicit[Window](call, "window", "Deploy "+in.Service+" when?")
			if err != nil {
				return "", err
			}
			if err := call.Detach(); err != nil {
				return "", err // the client gets the task's id
			}
			return fmt.Sprintf("Deployed in the background, at night: %v.", window.Night), nil
		})
	// Output:
	// asked: Deploy shop when?
	// Deployed in the background, at night: true.
}

// The bank takes no idempotency key: a payment without an answer must not be sent again, and somebody has to look.
func ExampleAtMostOnce() {
	playTask(&askback.TaskSupport{}, func(ctx context.Context, call *askback.Call, in Deployment) (string, error) {
		_, err := askback.AtMostOnce(ctx, call, "old bank", func(context.Context) (string, error) {
			return "", &askback.DidNotHappenError{Reason: "the account is closed"}
		})
		if none, ok := errors.AsType[*askback.DidNotHappenError](err); ok {
			fmt.Println("not paid:", none)
			_, err = askback.AtMostOnce(ctx, call, "new bank", func(context.Context) (string, error) {
				return "", errors.New("no answer")
			})
		}
		if _, unknown := errors.AsType[*askback.UnknownOutcomeError](err); unknown {
			err = askback.Approve(call, "paid", askback.Question{Message: "Is the " + in.Service + " paid for?"})
		}
		if err != nil {
			return "", err
		}
		return "The " + in.Service + " is paid for.", nil
	})
	// Output:
	// not paid: the account is closed
	// asked: Is the shop paid for?
	// not paid: the account is closed
	// The shop is paid for.
}

// playTask serves a tool with tasks in memory, and calls it.
func playTask(support *askback.TaskSupport, handler askback.ToolHandler[Deployment, string]) {
	ctx, cancel := context.WithCancel(context.Background())
	m := mcp.NewServer(&mcp.Implementation{Name: "deployer", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{
		Tasks:  &askback.Tasks{Store: new(task.MemoryStore)},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, support, handler)
	done := make(chan error)
	go func() { done <- srv.RunTasks(ctx) }()
	defer func() { cancel(); <-done }()
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()

	caller := client.New(&client.Options{Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		fmt.Println("asked:", q.Message)
		return accept(map[string]any{"night": true}), nil
	}})
	session, err := caller.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "deploy", Arguments: Deployment{"shop"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
}

// A program with tasks waits for RunTasks when it stops, because that gives unfinished tasks to other instances.
func ExampleServer_RunTasks() {
	m := mcp.NewServer(&mcp.Implementation{Name: "deployer", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{
		Tasks: &askback.Tasks{
			Store:         new(task.MemoryStore), // in a service one of task/sqlite or task/postgres
			ListAnonymous: true,                  // all callers are one user
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	support := &askback.TaskSupport{Required: true, PollInterval: 10 * time.Millisecond}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, support,
		func(_ context.Context, _ *askback.Call, in Deployment) (string, error) {
			return in.Service + " is deployed.", nil
		})
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- srv.RunTasks(ctx) }()
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()

	for _, dialect := range []client.TaskDialect{client.TasksOff, client.TasksProposal} {
		session, err := client.New(&client.Options{Tasks: dialect}).Connect(ctx,
			&mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
		if err != nil {
			log.Fatal(err)
		}
		started, _, err := session.StartTask(ctx, &mcp.CallToolParams{Name: "deploy", Arguments: Deployment{"shop"}}, 0)
		if err != nil {
			fmt.Println("refused:", err)
			session.Close()
			continue
		}
		res, err := session.WaitTask(ctx, started.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Content[0].(*mcp.TextContent).Text)
		tasks, _, err := session.ListTasks(ctx, "")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(tasks), "task,", tasks[0].Status)
		session.Close()
	}
	stop()
	fmt.Println("stopped:", <-ran)
	// Output:
	// refused: calling "tools/call": Missing required client capability: io.modelcontextprotocol/tasks
	// shop is deployed.
	// 1 task, completed
	// stopped: <nil>
}
