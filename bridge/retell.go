package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// What hosts are told of the servers behind is made of the bytes of these servers. The results of the bridge's own
// server have the SDK's types, which leave out what they do not know, and what is zero.

// tellings change a member of a result. By the request's method.
var tellings = map[string]func(b *Bridge, name string, value []byte) []byte{
	"initialize": (*Bridge).tellWho, "server/discover": (*Bridge).tellWho,
	"tools/list":               listing("tools", kindTool, "name"),
	"prompts/list":             listing("prompts", kindPrompt, "name"),
	"resources/list":           listing("resources", kindResource, "uri"),
	"resources/templates/list": listing("resourceTemplates", kindTemplate, "uriTemplate"),
}

// retell returns a result of which each member is what tell makes of it. A member of which it makes nothing is left
// out.
func (b *Bridge) retell(result mcp.Result, tell func(*Bridge, string, []byte) []byte) (mcp.Result, error) {
	encoded, err := encode(result)
	if err != nil {
		return nil, err
	}
	told := object{'{'}
	for name, value := range strictjson.Members(encoded) {
		if name := string(name); name != "_meta" && name != "resultType" {
			told.add(name, tell(b, name, value))
		}
	}
	if instructions := b.instructions(); instructions != "" && strictjson.Get(encoded, "capabilities") != nil {
		told.add("instructions", wire.AppendString(nil, instructions))
	}
	own := &raw.Result{Object: told.end()}
	own.Meta = result.GetMeta()
	return own, nil
}

// tellWho tells what the bridge can do. It has lists of every kind, and besides what one of the servers has. A server
// that is not there yet may have anything.
func (b *Bridge) tellWho(name string, value []byte) []byte {
	if name != "capabilities" {
		return value
	}
	var logging, completions, subscribe bool
	for _, u := range b.servers {
		res := u.behind.introduction()
		has := res == nil
		if res == nil || res.Capabilities == nil {
			logging, completions, subscribe = logging || has, completions || has, subscribe || has
			continue
		}
		logging = logging || res.Capabilities.Logging != nil
		completions = completions || res.Capabilities.Completions != nil
		subscribe = subscribe || res.Capabilities.Resources != nil && res.Capabilities.Resources.Subscribe
	}
	told := object{'{'}
	for name, value := range strictjson.Members(value) {
		switch name := string(name); {
		case name == "logging" && !logging, name == "completions" && !completions:
		case name == "resources" && !subscribe:
			told.add(name, []byte(`{"listChanged":true}`))
		default:
			told.add(name, value)
		}
	}
	return told.end()
}

// listing tells each item of a list as its server has written it.
func listing(member, kind, key string) func(*Bridge, string, []byte) []byte {
	return func(b *Bridge, name string, value []byte) []byte {
		if name != member {
			return value
		}
		told := []byte{'['}
		for item := range strictjson.Elements(value) {
			if len(told) > 1 {
				told = append(told, ',')
			}
			exposed, _ := strictjson.String(strictjson.Get(item, key))
			t := b.seen(kind, exposed)
			if t == nil || t.definition == "" {
				told = append(told, item...)
				continue
			}
			told = append(told, t.asWritten(item)...)
		}
		return append(told, ']')
	}
}

// asWritten returns the definition that the server has written. Two members are the bridge's own: the name, and how
// calls become tasks.
func (t *target) asWritten(own []byte) []byte {
	told, written := object{'{'}, []byte(t.definition)
	for name, value := range strictjson.Members(written) {
		switch name := string(name); name {
		case "name", "execution":
			told.add(name, strictjson.Get(own, name))
		case "_meta":
			meta := object{'{'}
			for name, value := range strictjson.Members(value) {
				if !isOwnMeta(string(name)) {
					meta.add(string(name), value)
				}
			}
			told.add(name, meta.end())
		default:
			told.add(name, value)
		}
	}
	for name, value := range strictjson.Members(own) {
		if strictjson.Get(written, string(name)) == nil {
			told.add(string(name), value)
		}
	}
	return told.end()
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

// object is a JSON object that is being written.
type object []byte

// add adds a member, unless its value is nil.
func (o *object) add(name string, value []byte) {
	if value == nil {
		return
	}
	if len(*o) > 1 {
		*o = append(*o, ',')
	}
	*o = append(append(wire.AppendString(*o, name), ':'), value...)
}

func (o *object) end() []byte { return append(*o, '}') }

// instructions joins the instructions of all servers that are there.
func (b *Bridge) instructions() (all string) {
	for _, u := range b.servers {
		if res := u.behind.introduction(); res != nil {
			all += u.instructions(res)
		}
	}
	return strings.TrimSpace(all)
}

// mostInstructions bounds the instructions of one of several servers, in bytes.
const mostInstructions = 8 << 10

// instructions are the instructions of the server. Of several servers they say whose they are.
func (u *upstream) instructions(res *mcp.InitializeResult) string {
	if u.before() == "" && len(u.servers) == 1 || res.Instructions == "" {
		return res.Instructions
	}
	text := res.Instructions
	if len(text) > mostInstructions {
		text = strings.ToValidUTF8(text[:mostInstructions], "") + "…"
	}
	whose := "whose names begin with " + u.before()
	if u.before() == "" {
		name := u.Name // the title may still change
		if name == "" && res.ServerInfo != nil {
			name = oneLine(res.ServerInfo.Name, 64)
		}
		whose = "of " + name
	}
	return fmt.Sprintf("About the tools %s:\n%s\n\n", whose, text)
}
