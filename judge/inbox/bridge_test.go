package inbox

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task/sqlite"
)

// bridged is a bridge in front of a scene's server, called by a host that can be asked nothing, and its inbox.
type bridged struct {
	*scene
	host rig.Host
}

// behindBridge starts askback bridge in front of the scene's server.
func (s *scene) behindBridge() *bridged {
	s.Helper()
	dir := s.TempDir()
	program := expect.Must(process.Build(s.Context(), dir))(s)
	b := expect.Must(rig.NewBridge(program, dir, s.server))(s)
	p := expect.Must(b.Start("--wait", "1m"))(s)
	s.Cleanup(p.Kill)
	host := expect.Must(rig.OpenSession(s.Context(), p.URL))(s)
	store := expect.Must(sqlite.Open(s.Context(), b.Store))(s)
	s.Cleanup(func() { store.Close() })
	d := expect.Must(desk.Open(store, nil))(s)
	own := *s
	own.url, own.desk = servePage(s.T, d), d
	return &bridged{&own, host}
}

func (s *bridged) in(t *testing.T) *bridged { return &bridged{s.scene.in(t), s.host} }

// provision has the caller of the bridge answer what the server asks, which the host waits for.
func (s *bridged) provision(who *viewer, hand hand, name string) {
	s.Helper()
	ended := make(chan string, 1)
	go func() {
		result, err := s.host(s.Context(), "provision_vm", map[string]any{"name": name, "diskMiB": 1})
		if err != nil {
			result = json.RawMessage(err.Error())
		}
		ended <- string(result)
	}()
	who.eventually("question in the list", func() bool { // without JavaScript it does not come by itself
		who.visit("/")
		return strings.Contains(who.text(), "provision_vm")
	})
	hand.press(who, ".row a")
	hand.choose(who, `#f0 input[value="2"]`) // isolated
	hand.write(who, "#f1", "x")              // behind the default, which is the name
	hand.press(who, "[value=accept]")
	who.reads("Accepted by " + rig.Caller)
	if result := <-ended; !strings.Contains(result, name+" is running") || !strings.Contains(result, "network isolated") {
		s.Errorf("the host gets %s", result)
	}
}
