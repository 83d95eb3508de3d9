package main

import (
	"context"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task/sqlite"
)

// serveBridge is a bridge that can be profiled, which the command cannot.
func serveBridge(ctx context.Context, server, file string) error {
	store, err := sqlite.Open(ctx, file)
	if err != nil {
		return err
	}
	defer store.Close()
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		return err
	}
	b, err := bridge.New(&bridge.Options{
		Implementation: &mcp.Implementation{Name: "bridge", Version: "1"},
		Servers: []bridge.Server{{
			Identity: server, Connect: func() (mcp.Transport, error) { return bridge.AtURL(server, nil), nil },
		}},
		Server: askback.Options{
			Keys: keys, Tasks: &askback.Tasks{Store: store}, Desk: &askback.DeskOptions{Fallback: true},
			Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return rig.Caller, nil },
		},
	})
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.Start(ctx); err != nil {
		return err
	}
	return process.Serve(ctx, new(http.Server), b.Server().HTTPHandler(nil))
}
