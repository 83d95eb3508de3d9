package client

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// resourceCache holds the resources of direct requests, for as long as each server's ttlMs allows
// (server/utilities/caching).
// The SDK's own cache is for what the SDK reads. The zero value is empty.
type resourceCache struct {
	mu      sync.Mutex
	results map[string]cachedResult // The results, by URI.
	bytes   int
}

type cachedResult struct {
	raw   []byte
	until time.Time
}

// maxCached bounds the bytes of results that a session holds.
const maxCached = 16 << 20

// get returns the result for a resource, or nil.
func (c *resourceCache) get(uri string) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	cached, ok := c.results[uri]
	if !ok || !time.Now().Before(cached.until) {
		c.remove(uri)
		return nil
	}
	return cached.raw
}

// put keeps a result, if it is complete and may be kept. A full cache begins anew.
func (c *resourceCache) put(uri string, raw []byte) {
	kind, err := resultType(raw)
	ttl := milliseconds(strictjson.Get(raw, "ttlMs"))
	if err != nil || kind != "complete" || ttl == 0 || len(raw) > maxCached {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(uri)
	if c.results == nil || c.bytes+len(raw) > maxCached {
		c.results, c.bytes = make(map[string]cachedResult), 0
	}
	c.results[uri] = cachedResult{raw, time.Now().Add(ttl)}
	c.bytes += len(raw)
}

// forget drops the result for a resource that has changed.
func (c *resourceCache) forget(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(uri)
}

func (c *resourceCache) remove(uri string) {
	c.bytes -= len(c.results[uri].raw)
	delete(c.results, uri)
}
