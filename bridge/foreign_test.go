package bridge_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/hostile"
)

// editing has people edit what the hostile server's tools get.
func editing(o *bridge.Options) {
	patient(o)
	o.Approve = &bridge.Approval{Tools: []string{"evil_odd"}, Edit: true}
}

// listsOdd has the hostile server list a tool with this schema, which returns its arguments.
func (h *evilServer) listsOdd(schema string) {
	h.lists(`{"name":"odd","inputSchema":` + schema + `}`)
	h.on("tools/call odd", func(params json.RawMessage) string {
		var call struct{ Arguments json.RawMessage }
		_ = json.Unmarshal(params, &call)
		return fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, call.Arguments)
	})
}

// accept accepts a card with these arguments, or as it is if it has no form, and returns its message.
func (f *front) accept(t *testing.T, arguments string) string {
	t.Helper()
	edited := expect.Must(json.Marshal(map[string]string{"arguments": arguments}))(t)
	var message string
	eventually(t, "ada is asked", func() bool {
		for q := range expect.Each(t, f.desk.Waiting(t.Context(), desk.Waiting{As: &desk.Person{Name: "ada"}})) {
			a := desk.Answer{Action: "accept", By: desk.Person{Name: "ada"}}
			if strings.Contains(string(q.Params), `"Arguments"`) {
				a.Content = edited
			}
			expect.Must(f.desk.Answer(t.Context(), q.Name, q.Key, a))(t)
			message = q.Message
			return true
		}
		return false
	})
	return message
}

// Arguments cannot be edited where their schema cannot be applied, and the card says why. They can be accepted as they
// are, and the other server is served meanwhile.
func TestSchemasThatCannotBeApplied(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, tt := range []struct{ kind, want string }{
		{"circle of definitions", "because they cannot be checked: the schema's references form a circle"},
		{"doubling", "because they cannot be checked: checking the value against the schema takes more than"},
		{"patterns", "cannot be edited: the patterns of the schema are too large together"},
		{"remote", "cannot be edited: the schema refers to"},
		{"dynamic", "cannot be edited: the schema has a $dynamicRef"},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			h := newHostile(t)
			schema, _, _ := hostile.Draw(r, tt.kind)
			h.listsOdd(string(schema))
			front, s := beside(t, h, able(), editing)
			words := calling(t, s, "evil_odd", map[string]any{"a": 1})
			message := front.accept(t, `{"a":2}`)
			served(t, s)
			if !strings.Contains(message, "cannot be edited") {
				message = front.accept(t, `{ "a": 1 }`)
			}
			expect.Contains(t, "the card says", message, tt.want)
			expect.Equal(t, "the tool", <-words, `{"a":1}`)
		})
	}
}

// References are followed, so that edited arguments are checked against what they lead to.
func TestEditedArgumentsAreCheckedThroughReferences(t *testing.T) {
	h := newHostile(t)
	h.listsOdd(`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer","maximum":9}}}`)
	front, s := beside(t, h, able(), editing)
	words := calling(t, s, "evil_odd", map[string]any{"a": 100})
	front.accept(t, `{"a":10}`)
	expect.Contains(t, "the second card says", front.accept(t, `{"a":9}`), "/properties/a")
	expect.Equal(t, "the tool", <-words, `{"a":9}`)
}

// What the server offers is compared with a URI while it is offered, within bounds, and the other server's templates
// are found beside it.
func TestHostileTemplates(t *testing.T) {
	h := newHostile(t)
	template := func(text string) string { return fmt.Sprintf(`{"name":"t","uriTemplate":%q}`, text) }
	lists := func(all ...string) {
		h.on("resources/templates/list", func(json.RawMessage) string {
			return `{"resultType":"complete","ttlMs":0,"cacheScope":"private","resourceTemplates":[` +
				strings.Join(all, ",") + `]}`
		})
	}
	all := []string{
		template("evil://" + strings.Repeat("{a}", 200)), template("evil://" + strings.Repeat("x", 10_000)),
		template("evil://{"), template("evil://{" + strings.Repeat("a,", 2_000) + "a}"),
	}
	for i := range 8_000 {
		all = append(all, template(fmt.Sprintf("evil%d://{a}%s", i, strings.Repeat("{+b}", 15))))
	}
	lists(all...)
	front, s := beside(t, h, client.Options{})
	read := func(uri string) error {
		_, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		return err
	}
	count := func() (n int) {
		for template := range expect.Each(t, s.SDK().ResourceTemplates(t.Context(), nil)) {
			if strings.HasPrefix(template.URITemplate, "evil") {
				n++
			}
		}
		return n
	}
	if n := count(); n == 0 || n > 100 {
		t.Errorf("%d templates are offered", n)
	}
	if err := read("good://item/7"); err != nil {
		t.Errorf("the other server's template: %v", err)
	}
	if err := read("nobody://x/" + strings.Repeat("y", 100_000)); err == nil {
		t.Error("a URI of nobody's is read")
	}
	lists()
	expect.Check(t, front.Refresh(t.Context()))
	expect.Equal(t, "templates are offered that are gone", count(), 0)
	if err := read("good://item/7"); err != nil {
		t.Errorf("the other server's template, after that: %v", err)
	}
}
