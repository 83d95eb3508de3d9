package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A server that asks Err refuses calls while its disk is full, and serves again afterwards.
func TestAServerRefusesWhileItCannotRecord(t *testing.T) {
	disk := new(full)
	quiet := slog.New(slog.DiscardHandler)
	log := disk.opened(t, filepath.Join(t.TempDir(), "audit.jsonl"), &Options{MaxSize: 1, Logger: quiet})
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "s"}, nil), &askback.Options{
		Logger: quiet, Audit: log.Record,
		Authorize: func(context.Context, askback.Access) error {
			if err := log.Err(); err != nil {
				return fmt.Errorf("%w: %w", askback.ErrUndecided, err)
			}
			return nil
		},
	})
	expect.Check(t, err)
	ran := 0
	askback.AddTool(srv, &mcp.Tool{Name: "count"}, func(context.Context, *askback.Call, struct{}) (string, error) {
		ran++
		return "", nil
	})
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	session, err := client.New(nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	expect.Check(t, err)
	defer session.Close()
	call := func() error {
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "count"})
		return err
	}
	expect.Check(t, call())
	disk.is.Store(true)
	log.Record(t.Context(), step) // the first event that finds the disk full
	if err := call(); err == nil || ran != 1 {
		t.Errorf("a call without an audit: %v; the handler ran %d times", err, ran)
	}
	disk.is.Store(false)
	for log.Err() != nil {
		runtime.Gosched()
	}
	if err := errors.Join(call(), log.Close()); err != nil || ran != 2 {
		t.Errorf("afterwards: %v; the handler ran %d times", err, ran)
	}
}
