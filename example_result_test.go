package askback_test

import (
	"context"
	"fmt"
	"log"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// A host that knows neither tasks nor questions calls a tool that somebody has to approve. It is told in words who is
// awaited, and its model fetches the result when it is there.
func ExampleServer_AddResultTool() {
	ctx := context.Background()
	store := new(task.MemoryStore)
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "releases", Version: "1.0.0"}, nil), &askback.Options{
		Tasks:     &askback.Tasks{Store: store},
		Desk:      &askback.DeskOptions{Wait: time.Second}, // in a service 45 seconds
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "dora", nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	srv.AddResultTool()
	askback.AddTool(srv, &mcp.Tool{Name: "deploy"},
		func(_ context.Context, call *askback.Call, in Release) (string, error) {
			q := askback.Question{Message: "Deploy " + in.Version + "?", For: []string{askback.Group("release")}}
			return in.Version + " is deployed.", askback.Approve(call, "approve", q)
		})
	defer runTasks(srv)()

	call := plainHost(srv)

	told := call("deploy", Release{Version: "4.2"})
	name := regexp.MustCompile(`"([A-Z2-7]{26})"`).FindStringSubmatch(told)[1]
	for sentence := range strings.SplitSeq(strings.ReplaceAll(told, name, "NAME"), ". ") {
		fmt.Println(sentence)
	}

	d, err := desk.Open(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	ada := desk.Person{Name: "ada", Groups: []string{"release"}}
	if _, err := d.Answer(ctx, name, "approve", desk.Answer{By: ada, Action: "accept"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(call("askback_result", map[string]any{"name": name}))
	// Output:
	// The call waits for the answer "approve" of group:release
	// The call goes on by itself; do not repeat it
	// To get its result, call the tool askback_result with the name "NAME".
	// 4.2 is deployed.
}

// A long job for hosts that know no tasks: the call becomes a task in any case, goes on without its host, and its
// result is fetched later.
func ExampleTaskSupport_always() {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "imports", Version: "1.0.0"}, nil), &askback.Options{
		Tasks:     &askback.Tasks{Store: new(task.MemoryStore)},
		Desk:      &askback.DeskOptions{Wait: time.Second}, // in a service 45 seconds
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "dora", nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	srv.AddResultTool()
	finish := make(chan struct{})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "import"}, &askback.TaskSupport{Always: true},
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			return askback.Do(ctx, call, "rows", func(context.Context) (string, error) {
				<-finish
				return "3 million rows are imported.", nil
			})
		})
	defer runTasks(srv)()

	call := plainHost(srv)
	told := call("import", nil)
	name := regexp.MustCompile(`"([A-Z2-7]{26})"`).FindStringSubmatch(told)[1]
	words, _, _ := strings.Cut(told, ";")
	fmt.Println(words)
	close(finish)
	fmt.Println(call("askback_result", map[string]any{"name": name}))
	// Output:
	// The call is running. The call goes on by itself
	// 3 million rows are imported.
}

// plainHost connects a host that knows neither tasks nor questions, and returns what calls a tool for it.
func plainHost(srv *askback.Server) (call func(tool string, arguments any) string) {
	ctx := context.Background()
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(ctx, there, nil); err != nil {
		log.Fatal(err)
	}
	host, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1.0.0"}, nil).Connect(ctx, here, nil)
	if err != nil {
		log.Fatal(err)
	}
	return func(tool string, arguments any) string {
		res, err := host.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			log.Fatal(err)
		}
		return res.Content[0].(*mcp.TextContent).Text
	}
}
