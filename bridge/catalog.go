package bridge

import "github.com/askback-mcp/askback/bridge/internal/calls"

// catalog has the tools, prompts and resources of all servers, as hosts see them.
type catalog struct {
	tools     *shelf
	prompts   *shelf
	resources owners        // and templates
	only      *calls.Server // if there is one server
}

// seen returns what hosts see under a name or a URI, or nil.
func (c *catalog) seen(kind, name string) *calls.Target {
	switch kind {
	case kindTool:
		return c.tools.of(name)
	case kindPrompt:
		return c.prompts.of(name)
	}
	if t := c.resources.of(kind, name); t != nil {
		return t.Target
	}
	return nil
}

// ofURI returns the server of a resource, or of the first template that matches its URI, or nil.
func (c *catalog) ofURI(uri string) *calls.Server {
	if t := c.resources.of(kindResource, uri); t != nil {
		return t.Server
	}
	if c.only != nil {
		return c.only
	}
	var first *owned
	for _, t := range c.resources.templates() {
		if (first == nil || t.index < first.index) && t.Template.Matches(uri) {
			first = t
		}
	}
	if first == nil {
		return nil
	}
	return first.Server
}

// hasResource reports whether a server has a resource with this URI, or a template that matches it.
func (c *catalog) hasResource(uri string) bool {
	if c.resources.of(kindResource, uri) != nil {
		return true
	}
	for _, t := range c.resources.templates() {
		if t.Template.Matches(uri) {
			return true
		}
	}
	return false
}

// The kinds of what servers offer. Each ends with a space, so that no kind and name read as another kind and name.
const (
	kindTool     = "tool "
	kindPrompt   = "prompt "
	kindResource = "resource "
	kindTemplate = "template "
)
