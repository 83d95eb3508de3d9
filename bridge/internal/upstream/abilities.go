package upstream

import (
	"encoding/json"
	"sync"

	"github.com/askback-mcp/askback/internal/wire"
)

// Abilities are the client capabilities that a server is told: what it can ask.
type Abilities struct{ Form, URL, Sampling, Tools, Roots bool }

// All is everything that a server can ask.
var All = Abilities{true, true, true, true, true}

// declarations are the capabilities that were told before, of the few that there are.
var declarations sync.Map // from declaration to json.RawMessage

type declaration struct {
	can   Abilities
	tasks bool
}

// Declaration returns the capabilities that tell a server so, and whether its calls may become tasks.
func (can Abilities) Declaration(tasks bool) json.RawMessage {
	if known, ok := declarations.Load(declaration{can, tasks}); ok {
		return known.(json.RawMessage)
	}
	all, none := make(map[string]any), struct{}{}
	if tasks {
		all["extensions"] = map[string]any{wire.TasksExtension: none}
	}
	elicitation, sampling := make(map[string]any), make(map[string]any)
	if can.Form {
		elicitation["form"] = none
	}
	if can.URL {
		elicitation["url"] = none
	}
	if len(elicitation) > 0 {
		all["elicitation"] = elicitation
	}
	if can.Tools {
		sampling["tools"] = none
	}
	if can.Sampling {
		all["sampling"] = sampling
	}
	if can.Roots {
		all["roots"] = none
	}
	encoded, _ := json.Marshal(all) // always marshals
	declarations.Store(declaration{can, tasks}, json.RawMessage(encoded))
	return encoded
}
