package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/names"
	"github.com/askback-mcp/askback/bridge/internal/object"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// What hosts are out of the servers behind is made of the bytes of these servers. The results of the bridge's own
// server have the SDK's types, which leave out what they do not know, and what is zero.

// tellings change a member of a result. By the request's method.
var tellings = map[string]func(f *front, name string, value []byte) []byte{
	"initialize": (*front).tellWho, "server/discover": (*front).tellWho,
	"tools/list":               listing("tools", kindTool, "name"),
	"prompts/list":             listing("prompts", kindPrompt, "name"),
	"resources/list":           listing("resources", kindResource, "uri"),
	"resources/templates/list": listing("resourceTemplates", kindTemplate, "uriTemplate"),
}

// retell returns a result with each member as tell changes it. Nil leaves the member out.
func (f *front) retell(result mcp.Result, tell func(*front, string, []byte) []byte) (mcp.Result, error) {
	encoded, err := encode(result)
	if err != nil {
		return nil, err
	}
	out := object.New(0)
	for name, value := range strictjson.Members(encoded) {
		if name := string(name); name != "_meta" && name != "resultType" {
			out.Add(name, tell(f, name, value))
		}
	}
	if instructions := f.instructions(); instructions != "" && strictjson.Get(encoded, "capabilities") != nil {
		out.Add("instructions", wire.AppendString(nil, instructions))
	}
	own := &raw.Result{Object: out.End()}
	own.Meta = result.GetMeta()
	return own, nil
}

// tellWho tells what the bridge can do. It has lists of every kind, and besides what one of the servers has. A server
// that is not there yet may have anything.
func (f *front) tellWho(name string, value []byte) []byte {
	if name != "capabilities" {
		return value
	}
	var logging, completions, subscribe bool
	for _, u := range f.servers {
		res := u.Conn.Introduction()
		has := res == nil
		if res == nil || res.Capabilities == nil {
			logging, completions, subscribe = logging || has, completions || has, subscribe || has
			continue
		}
		logging = logging || res.Capabilities.Logging != nil
		completions = completions || res.Capabilities.Completions != nil
		subscribe = subscribe || res.Capabilities.Resources != nil && res.Capabilities.Resources.Subscribe
	}
	out := object.New(0)
	for name, value := range strictjson.Members(value) {
		switch name := string(name); {
		case name == "logging" && !logging, name == "completions" && !completions:
		case name == "resources" && !subscribe:
			out.Add(name, []byte(`{"listChanged":true}`))
		default:
			out.Add(name, value)
		}
	}
	return out.End()
}

// listing tells each item of a list as its server has written it.
func listing(member, kind, key string) func(*front, string, []byte) []byte {
	return func(f *front, name string, value []byte) []byte {
		if name != member {
			return value
		}
		out := []byte{'['}
		for item := range strictjson.Elements(value) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			exposed, _ := strictjson.String(strictjson.Get(item, key))
			t := f.catalog.seen(kind, exposed)
			if t == nil || t.Definition == "" {
				out = append(out, item...)
				continue
			}
			out = append(out, asWritten(t, item)...)
		}
		return append(out, ']')
	}
}

// asWritten returns the definition that the server has written. Two members are the bridge's own: the name, and how
// calls become tasks.
func asWritten(t *calls.Target, own []byte) []byte {
	out, written := object.New(0), []byte(t.Definition)
	for name, value := range strictjson.Members(written) {
		switch name := string(name); name {
		case "name", "execution":
			out.Add(name, strictjson.Get(own, name))
		case "_meta":
			meta := object.New(0)
			for name, value := range strictjson.Members(value) {
				if !calls.IsOwnMeta(string(name)) {
					meta.Add(string(name), value)
				}
			}
			out.Add(name, meta.End())
		default:
			out.Add(name, value)
		}
	}
	for name, value := range strictjson.Members(own) {
		if strictjson.Get(written, string(name)) == nil {
			out.Add(string(name), value)
		}
	}
	return out.End()
}

// encode encodes a result without escapes for HTML, where descriptions are readable.
func encode(result mcp.Result) ([]byte, error) {
	if m, ok := result.(json.Marshaler); ok {
		return m.MarshalJSON()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(result)
	return b.Bytes(), err
}

// instructions joins the instructions of all servers that are there.
func (f *front) instructions() (all string) {
	for _, u := range f.servers {
		if res := u.Conn.Introduction(); res != nil {
			all += u.instructions(res, len(f.servers) > 1)
		}
	}
	return strings.TrimSpace(all)
}

// mostInstructions bounds the instructions of one of several servers, in bytes.
const mostInstructions = 8 << 10

// instructions are the instructions of the server. Of several servers they say whose they are.
func (b *behind) instructions(res *mcp.InitializeResult, several bool) string {
	if b.scheme.Before() == "" && !several || res.Instructions == "" {
		return res.Instructions
	}
	text := res.Instructions
	if len(text) > mostInstructions {
		text = strings.ToValidUTF8(text[:mostInstructions], "") + "…"
	}
	whose := "whose names begin with " + b.scheme.Before()
	if b.scheme.Before() == "" {
		name := b.Name // the title may still change
		if name == "" && res.ServerInfo != nil {
			name = names.OneLine(res.ServerInfo.Name, 64)
		}
		whose = "of " + name
	}
	return fmt.Sprintf("About the tools %s:\n%s\n\n", whose, text)
}
