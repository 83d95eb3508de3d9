package bridge

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A tool can make a resource and link it in its result. The host may then read the resource before the bridge has heard
// that the lists changed, or the server may not say so.

// find reads the lists of the servers again before a resource is read that none of them has listed. Reads that come at
// once share one reading.
func (b *Bridge) find(ctx context.Context, req mcp.Request) {
	p, ok := req.GetParams().(*mcp.ReadResourceParams)
	if !ok || b.hasResource(p.URI) {
		return
	}
	var all sync.WaitGroup
	for _, u := range b.servers {
		if res := u.behind.introduction(); res != nil && res.Capabilities != nil && res.Capabilities.Resources != nil {
			begun := u.lists.begun.Load()
			all.Go(func() { _ = u.refreshSince(ctx, begun) }) // then the resource stays unknown
		}
	}
	all.Wait()
}

// hasResource reports whether a server has a resource with this URI, or a template that matches it.
func (b *Bridge) hasResource(uri string) bool {
	if b.owners.of(kindResource, uri) != nil {
		return true
	}
	for _, t := range b.owners.templates() {
		if t.template.Matches(uri) {
			return true
		}
	}
	return false
}
