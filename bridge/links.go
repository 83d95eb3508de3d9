package bridge

import (
	"context"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A tool can make a resource and link it in its result. The host may then read the resource before the bridge has heard
// that the lists changed, or the server may not say so.

// findTime bounds how long a read waits for servers that do not answer.
const findTime = 5 * time.Second

// find has the servers' lists read again before a resource is read that none of them has listed. It returns when the
// resource is there, or when all lists were read. Each server is read once for all reads that come meanwhile.
func (f *front) find(ctx context.Context, req mcp.Request) {
	p, ok := req.GetParams().(*mcp.ReadResourceParams)
	if !ok || f.catalog.hasResource(p.URI) {
		return
	}
	type reading struct {
		*lists
		after int64
	}
	var awaited []reading
	for _, u := range f.servers {
		if res := u.Conn.Introduction(); res != nil && res.Capabilities != nil && res.Capabilities.Resources != nil {
			awaited = append(awaited, reading{&u.lists, u.lists.reads.Load()})
			u.lists.changed()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	for ctx.Err() == nil {
		news := f.catalog.resources.news.Next()
		if f.catalog.hasResource(p.URI) ||
			!slices.ContainsFunc(awaited, func(r reading) bool { return r.read.Load() <= r.after }) {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
}
