package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Compiled is a schema that can be applied. It may take many megabytes and is to be dropped soon. It is not safe for
// concurrent use.
type Compiled struct {
	root     *Schema
	resolved *jsonschema.Resolved
	refs     map[*jsonschema.Schema]*jsonschema.Schema // the targets of references
	sizes    map[*jsonschema.Schema]int                // of what a look at the schema reads and may repeat in an error
	programs map[string]int                            // the sizes of patterns
	left     int                                       // steps, of all checks together
}

// Fits checks a value against the schema. A [*BoundError] says that this cannot be done here; it is sure that at most
// mostSteps steps are made in all checks. Unless ctx has ended, any other error says what does not fit, in a kilobyte
// at most.
func (c *Compiled) Fits(ctx context.Context, value []byte) error {
	if len(value) > mostBytes {
		return beyond("the value has more than %d bytes", mostBytes)
	}
	if err := strictjson.Check(value, mostDepth); err != nil {
		return err
	}
	var instance any
	if err := json.Unmarshal(value, &instance); err != nil { // a number that is no float64
		return err
	}
	if err := (&rehearsal{Compiled: c, ctx: ctx}).look(c.root.Schema, instance, 1); err != nil {
		return err
	}
	err := recovered(func() error { return c.resolved.Validate(instance) })
	if _, unable := errors.AsType[*BoundError](err); err == nil || unable {
		return err
	}
	return errors.New(wire.Cut(err.Error(), 1<<10))
}

// dialects are the values of $schema that the validator takes.
var dialects = map[string]bool{
	"": true, "https://json-schema.org/draft/2020-12/schema": true,
	"http://json-schema.org/draft-07/schema#": true, "https://json-schema.org/draft-07/schema#": true,
}

// Compile compiles a schema if it and its patterns are within bounds. A [*BoundError] says that no value can be checked
// against it here.
func Compile(ctx context.Context, raw []byte) (*Compiled, error) {
	root, err := ReadSchema(raw)
	if err != nil {
		return nil, err
	}
	if !dialects[root.Schema.Schema] {
		return nil, beyond("the schema is of a dialect that is not known here, %q", Line(root.Schema.Schema, 100))
	}
	c := &Compiled{root: root, refs: make(map[*jsonschema.Schema]*jsonschema.Schema),
		sizes: make(map[*jsonschema.Schema]int, len(root.parts)), programs: make(map[string]int), left: mostSteps}
	if err := c.measurePatterns(ctx); err != nil {
		return nil, err
	}
	if err := c.followReferences(); err != nil {
		return nil, err
	}
	for _, p := range root.parts {
		p.ID, p.Anchor, p.DynamicAnchor = "", "", "" // references are pointers now
		c.sizes[p.Schema] = p.size()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = recovered(func() (err error) { c.resolved, err = root.Resolve(nil); return err })
	if err != nil {
		return nil, beyond("the schema cannot be applied: %s", wire.Cut(err.Error(), 1<<10))
	}
	return c, nil
}

// followReferences finds the target of each reference, and replaces the reference by a pointer.
func (c *Compiled) followReferences() error {
	if !c.root.Refers() {
		return nil
	}
	targets := make(map[string]part, len(c.root.parts)) // by fragment
	for i, p := range c.root.parts {
		if i > 0 && p.ID != "" {
			return beyond("the schema has references, and a name for a part of it ($id at %s), which is not followed here",
				p.place())
		}
		targets[p.path] = p
		for _, anchor := range []string{p.Anchor, p.DynamicAnchor} {
			if anchor != "" && !strings.HasPrefix(anchor, "/") {
				targets[anchor] = p
			}
		}
	}
	own := c.root.ID
	for _, p := range c.root.parts {
		if p.DynamicRef != "" {
			return beyond("the schema has a $dynamicRef at %s, which is not followed here", p.place())
		}
		if p.Ref == "" {
			continue
		}
		fragment, local := strings.CutPrefix(strings.TrimPrefix(p.Ref, own), "#")
		local = local || p.Ref == own
		name, err := url.PathUnescape(fragment)
		target, found := targets[name]
		if !local || err != nil || !found {
			return beyond("the schema refers to %q at %s, which is not in it, and nothing is fetched", Line(p.Ref, 100),
				p.place())
		}
		c.refs[p.Schema], p.Ref = target.Schema, (&url.URL{Fragment: target.path}).String()
		if target.path == "" {
			p.Ref = "#"
		}
	}
	return nil
}

// size estimates the bytes that a look at the schema alone reads and may repeat in an error.
func (p part) size() int {
	n := len(p.path) + len(p.Properties)
	for _, value := range p.Enum {
		n += sizeOf(value)
	}
	if p.Const != nil {
		n += sizeOf(*p.Const)
	}
	n += sizeOfAll(p.Types) + sizeOfAll(p.Required)
	for name, required := range p.DependentRequired {
		n += len(name) + sizeOfAll(required)
	}
	for name, required := range p.DependencyStrings {
		n += len(name) + sizeOfAll(required)
	}
	return n
}

func sizeOfAll(texts []string) (n int) {
	for _, text := range texts {
		n += len(text) + 4
	}
	return n
}

// sizeOf estimates the bytes of a decoded value.
func sizeOf(value any) int {
	n := 16
	switch value := value.(type) {
	case string:
		n += len(value)
	case []any:
		for _, item := range value {
			n += sizeOf(item)
		}
	case map[string]any:
		for name, member := range value {
			n += len(name) + sizeOf(member)
		}
	}
	return n
}

// recovered returns a panic of the validator as an error.
func recovered(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = beyond("the schema cannot be applied: %.200s", fmt.Sprint(v))
		}
	}()
	return f()
}
