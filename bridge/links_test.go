package bridge_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// makes has the server list a resource once it is made.
func (h *evilServer) makes() *atomic.Bool {
	made := new(atomic.Bool)
	h.on("resources/list", func(json.RawMessage) string {
		if !made.Load() {
			return "{" + cached + `"resources":[]}`
		}
		return "{" + cached + `"resources":[{"uri":"evil://made","name":"made"}]}`
	})
	return made
}

// A resource that a server has made since its lists were read is read at once, although the server tells nobody. What
// no server has stays unknown.
func TestNewResourceIsRead(t *testing.T) {
	h := newHostile(t)
	made := h.makes()
	h.on("resources/templates/list", func(json.RawMessage) string { return "{" + cached + `"resourceTemplates":[]}` })
	h.on("resources/read", func(json.RawMessage) string {
		return "{" + cached + `"contents":[{"uri":"evil://made","text":"octocat"}]}`
	})
	_, s := beside(t, h, client.Options{})
	made.Store(true)
	result, err := s.SDK().ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "evil://made"})
	if err != nil || len(result.Contents) != 1 || result.Contents[0].Text != "octocat" {
		t.Errorf("the new resource: %v, %v", result, err)
	}
	if result, err := s.SDK().ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "evil://none"}); err == nil {
		t.Errorf("what no server has: %v", result)
	}
}

// A server that says nothing more keeps nobody from a resource that another one has just made.
func TestANewResourceBesideASilentServer(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	made := h.makes()
	h.on("resources/read", func(json.RawMessage) string { return "{" + cached + `"contents":[]}` })
	silent := newSwitched(t, small(t, "silent").Config.Handler, works)
	front := newFront(t, "", inFront(named("evil", h.URL), named("silent", silent.URL)))
	s := host(t, front.url, "", client.Options{})
	made.Store(true)
	silent.mode.Store(hangs)
	defer silent.end() // or the end of the bridge would wait for it
	ctx := harness.InTime(t)
	for range 20 {
		expect.Must(s.SDK().ReadResource(ctx, &mcp.ReadResourceParams{URI: "evil://made"}))(t)
	}
}
