package call

import (
	"slices"
	"sync"

	"github.com/askback-mcp/askback/internal/wire"
)

// Registry finds the handler for a request. The zero value is empty. It is safe for concurrent use.
type Registry struct {
	mu        sync.RWMutex
	named     map[name]*Handler
	templates []*Handler // never changed, only replaced
}

type name struct{ method, target string }

// Add adds a handler under its target, or replaces the one that is there.
func (g *Registry) Add(h *Handler, target string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h.Matches != nil {
		g.templates = append(without(g.templates, h.Template), h)
		return
	}
	if g.named == nil {
		g.named = make(map[name]*Handler)
	}
	g.named[name{h.Method, target}] = h
}

// Remove removes the handlers for these targets.
func (g *Registry) Remove(method string, targets ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, target := range targets {
		delete(g.named, name{method, target})
	}
}

// RemoveTemplates removes these resource templates.
func (g *Registry) RemoveTemplates(templates ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.templates = without(g.templates, templates...)
}

func without(handlers []*Handler, templates ...string) []*Handler {
	return slices.DeleteFunc(slices.Clone(handlers), func(h *Handler) bool {
		return slices.Contains(templates, h.Template)
	})
}

// Lookup finds a handler for a request, or nil: a resource goes before the templates that match its URI.
func (g *Registry) Lookup(method, target string) *Handler {
	g.mu.RLock()
	h, templates := g.named[name{method, target}], g.templates
	g.mu.RUnlock()
	if h != nil || method != wire.ReadResource {
		return h
	}
	if i := slices.IndexFunc(templates, func(h *Handler) bool { return h.Matches(target) }); i >= 0 {
		return templates[i]
	}
	return nil
}

// Template returns the handler of a resource template, or nil.
func (g *Registry) Template(template string) *Handler {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if i := slices.IndexFunc(g.templates, func(h *Handler) bool { return h.Template == template }); i >= 0 {
		return g.templates[i]
	}
	return nil
}
