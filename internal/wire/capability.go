package wire

import (
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// Capability is a set of capabilities that a client declared. It is stored with tasks, so a bit keeps its meaning, and
// a new capability comes last.
type Capability uint32

// The capabilities that matter to a call.
const (
	Form Capability = 1 << iota
	URL
	Sampling
	SamplingTools
	Roots
	Tasks  // the extension
	_      // stored tasks have another fact there
	Events // the extension
)

// capability is a single capability, its name and the capabilities object that declares it.
type capability struct {
	set          Capability
	name, object string
}

var capabilities = []capability{
	{Form, "elicitation.form", `{"elicitation":{"form":{}}}`},
	{URL, "elicitation.url", `{"elicitation":{"url":{}}}`},
	{SamplingTools, "sampling.tools", `{"sampling":{"tools":{}}}`},
	{Sampling, "sampling", `{"sampling":{}}`},
	{Roots, "roots", `{"roots":{}}`},
	{Tasks, TasksExtension, `{"extensions":{"` + TasksExtension + `":{}}}`},
	{Events, EventsExtension, `{"extensions":{"` + EventsExtension + `":{}}}`},
}

// String names the capabilities, such as "elicitation.form".
func (c Capability) String() string {
	var names []string
	for _, known := range capabilities {
		if c&known.set != 0 {
			names = append(names, known.name)
		}
	}
	return strings.Join(names, ", ")
}

// MissingCapability is the error for a client that did not declare need (basic, "Per-request protocol fields").
func MissingCapability(need Capability) *jsonrpc.Error {
	object := "{}"
	if i := slices.IndexFunc(capabilities, func(c capability) bool { return need&c.set != 0 }); i >= 0 {
		object = capabilities[i].object
	}
	return &jsonrpc.Error{
		Code:    mcp.CodeMissingRequiredClientCapabilities,
		Message: "Missing required client capability: " + need.String(),
		Data:    []byte(`{"requiredCapabilities":` + object + `}`),
	}
}

func parseCapabilities(caps []byte) Capability {
	var can Capability
	for name, value := range strictjson.Members(caps) {
		if strictjson.TypeOf(value) != strictjson.TypeObject {
			continue
		}
		switch string(name) {
		case "elicitation":
			form, url := has(value, "form"), has(value, "url")
			// An empty elicitation capability means form mode (client/elicitation, "Capabilities").
			if form || !url {
				can |= Form
			}
			if url {
				can |= URL
			}
		case "sampling":
			can |= Sampling
			if has(value, "tools") {
				can |= SamplingTools
			}
		case "roots":
			can |= Roots
		case "extensions":
			if has(value, TasksExtension) {
				can |= Tasks
			}
			if has(value, EventsExtension) {
				can |= Events
			}
		}
	}
	return can
}

func has(obj []byte, name string) bool {
	v := strictjson.Get(obj, name)
	return v != nil && strictjson.TypeOf(v) == strictjson.TypeObject
}
