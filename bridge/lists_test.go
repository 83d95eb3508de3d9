package bridge_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Each list stands by itself: one that the server does not know is empty, one that fails or has no end costs no other,
// an item that cannot be read is left out, and all that can be offered is.
func TestEachListStandsByItself(t *testing.T) {
	for name, c := range map[string]struct{ prompts, resources string }{
		"methods that are not there": {"error -32601", "error -32601"},
		"errors":                     {"error -32603", "error -32000"},
		"no lists":                   {"{" + cached + `"prompts":7}`, "{" + cached + `"resources":{}}`},
		"items that are none": {
			"{" + cached + `"prompts":[7,{"name":7},null,{"name":"good"},{"name":"bad","arguments":"none"}]}`,
			"{" + cached + `"resources":[{"uri":[],"name":"x"},{"uri":"evil://x","name":"x"}]}`,
		},
		"a page that leads to itself": {
			"{" + cached + `"prompts":[{"name":"good"}],"nextCursor":"x"}`, "{" + cached + `"resources":[],"nextCursor":"x"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			for method, result := range map[string]string{"prompts/list": c.prompts, "resources/list": c.resources} {
				h.on(method, func(json.RawMessage) string { return result })
			}
			h.on("resources/templates/list", func(json.RawMessage) string {
				return "{" + cached + `"resourceTemplates":[{"name":"t","uriTemplate":"evil://{a}"}]}`
			})
			_, s := beside(t, h, client.Options{})
			served(t, s)
			var templates, prompts []string
			for template := range expect.Each(t, s.SDK().ResourceTemplates(t.Context(), nil)) {
				templates = append(templates, template.URITemplate)
			}
			for prompt := range expect.Each(t, s.SDK().Prompts(t.Context(), nil)) {
				prompts = append(prompts, prompt.Name)
			}
			if tools := toolNames(t, s); !slices.Contains(templates, "evil://{a}") || !slices.Contains(tools, "evil_plain") {
				t.Errorf("the templates are %q, the tools %q", templates, tools)
			}
			expect.Equal(t, "the prompts", slices.Contains(prompts, "evil_good"), strings.Contains(c.prompts, `"good"`))
		})
	}
}
