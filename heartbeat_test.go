package askback_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// A client in a session that asked for progress is told, while its user thinks, that the call goes on. One that did not
// ask for it is told nothing.
func TestAClientHearsOfAQuestionThatIsOpen(t *testing.T) {
	for token, want := range map[any]int{"p": 4, nil: 0} {
		synctest.Test(t, func(t *testing.T) {
			srv := harness.NewServer(t, &askback.Options{Logger: slog.New(slog.DiscardHandler)}, harness.AddGreet)
			here, there := mcp.NewInMemoryTransports()
			served, err := srv.Connect(t.Context(), there, nil)
			if err != nil {
				t.Fatal(err)
			}
			reports := make(chan float64, 100)
			client := mcp.NewClient(&mcp.Implementation{Name: "slow", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					time.Sleep(22 * time.Second)
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
				},
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					reports <- r.Params.Progress
				},
			})
			session, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatal(err)
			}
			params := &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"place": "Oslo"}}
			if token != nil {
				params.SetProgressToken(token)
			}
			res, err := session.CallTool(t.Context(), params)
			if err != nil || res.IsError {
				t.Errorf("the call ends with %v, %v", res, err)
			}
			synctest.Wait()
			n, last := 0, 0.0
			for range len(reports) {
				p := <-reports
				if n++; p <= last {
					t.Errorf("progress %v after %v", p, last)
				}
				last = p
			}
			if n < want || want == 0 && n > 0 {
				t.Errorf("%d reports, want %d", n, want)
			}
			_ = session.Close()
			_ = served.Wait()
		})
	}
}
