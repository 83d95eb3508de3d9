package askback_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/harness"
)

func TestLimitsNameThemselves(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits askback.Limits
		tool   askback.ToolHandler[struct{}, *mcp.CallToolResult]
	}{
		{"rounds per call", askback.Limits{Rounds: 3}, func(ctx context.Context, call *askback.Call,
			_ struct{}) (*mcp.CallToolResult, error) {
			return nil, call.Checkpoint(ctx, fmt.Sprint(call.Round()))
		}},
		{"questions per round", askback.Limits{Questions: 1}, func(ctx context.Context, call *askback.Call,
			_ struct{}) (*mcp.CallToolResult, error) {
			_, err1 := askback.Elicit[harness.Login](call, "a", "?")
			_, err2 := askback.Elicit[harness.Login](call, "b", "?")
			return nil, errors.Join(err1, err2)
		}},
		{"bytes of requestState", askback.Limits{StateBytes: 1000},
			func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
				_, err := askback.Do(ctx, call, "big", func(context.Context) (string, error) {
					return strings.Repeat("x", 2000),
						nil
				})
				if err != nil {
					return nil, err
				}
				return nil, call.Checkpoint(ctx, "c")
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := harness.NewServer(t, &askback.Options{Limits: test.limits}, func(srv *askback.Server) {
				askback.AddTool(srv, &mcp.Tool{Name: "t"}, test.tool)
			}).HTTPHandler(nil)
			r := harness.Request{Target: "t"}
			for range 10 {
				res := r.Send(t, h)
				if res.Error == nil {
					r.State = res.Asked(t)
					continue
				}
				if res.Refused(t, 200, -32603); !strings.Contains(res.Error.Message, test.name) {
					t.Errorf("message %q", res.Error.Message)
				}
				return
			}
			t.Error("no limit was reached")
		})
	}
}

// If the time of a call ends while its handler works, the error says so.
func TestCallsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := harness.NewServer(t, &askback.Options{Limits: askback.Limits{CallTTL: time.Minute}}, func(srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call,
				_ struct{}) (*mcp.CallToolResult, error) {
				time.Sleep(2 * time.Minute)
				return nil, call.Checkpoint(ctx, "c")
			})
		}).HTTPHandler(nil)
		if message := (harness.Request{Target: "slow"}).Send(t, h).Refused(t, 200, -32603); !strings.Contains(message,
			"60 seconds per call") {
			t.Errorf("message %q", message)
		}
	})
}

func TestSharesThatFitNothing(t *testing.T) {
	for _, limits := range []askback.Limits{
		{Requests: askback.Share{Total: -1}}, {Sessions: askback.Share{PerPrincipal: -1}},
		{Streams: askback.Share{Anonymous: -1}},
		{BodyBytes: askback.Share{Total: 1 << 20}}, {BodyBytes: askback.Share{Anonymous: 1 << 20}}, {Batch: -1},
		{SessionCalls: -1}, {Rounds: -1}, {MessageBytes: -1}, {RoundTTL: -1}, {CallTTL: -1},
	} {
		if _, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "test"}, nil),
			&askback.Options{Limits: limits}); err == nil {
			t.Errorf("%+v: no error", limits)
		}
	}
	for _, limits := range []askback.Limits{{MessageBytes: 1 << 62}, {BodyBytes: askback.Share{Total: 4 << 20}},
		{Requests: askback.Share{Total: 1}}} {
		srv := harness.NewServer(t, &askback.Options{Limits: limits}, harness.AddGreet)
		harness.Request{Target: "greet", Arguments: `{"place":"x"}`}.Send(t, srv.HTTPHandler(nil)).Asked(t, "login")
	}
}

// docs/proof/limits.md has a row for every field of Limits.
func TestTheTableOfLimitsIsComplete(t *testing.T) {
	table, err := os.ReadFile("docs/proof/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for i := range reflect.TypeFor[askback.Limits]().NumField() {
		name := "`Limits." + reflect.TypeFor[askback.Limits]().Field(i).Name + "`"
		if n := strings.Count(string(table), name); n == 0 {
			t.Errorf("docs/proof/limits.md does not name %s", name)
		}
	}
}
