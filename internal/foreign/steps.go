package foreign

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"
)

// The bounds of a check.
const (
	mostSteps  = 8 << 20
	mostNested = 256 // schemas that look at each other's values at once
)

// rehearsal goes the way of the validator before it, and counts the steps. It visits each schema with each value that
// the validator may visit with it, as if none of them ended the check. So what the validator does is bounded by what
// was counted, in memory, too: all that is counted for a look may be in an error, once for each schema around it.
type rehearsal struct {
	*Compiled
	ctx  context.Context
	made int // looks
}

// perLook are the steps of a look at nothing.
const perLook = 32

// look counts a look of a schema at a value, and all those that come of it.
func (r *rehearsal) look(s *jsonschema.Schema, value any, nested int) error {
	if nested > mostNested {
		return beyond("the schema's references form a circle, or lead more than %d schemas deep", mostNested)
	}
	size := sizeOf(value)
	if err := r.spend(perLook + nested*(r.sizes[s]+size) + r.programs[s.Pattern]*size); err != nil {
		return err
	}
	nested++
	if err := r.lookAll(nested, value, r.refs[s], s.Not, s.If, s.Then, s.Else); err != nil {
		return err
	}
	for _, all := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		if err := r.lookAll(nested, value, all...); err != nil {
			return err
		}
	}
	for _, all := range []map[string]*jsonschema.Schema{s.DependentSchemas, s.DependencySchemas} {
		for _, one := range all {
			if err := r.lookAll(nested, value, one); err != nil {
				return err
			}
		}
	}
	switch value := value.(type) {
	case []any:
		return r.lookAtItems(nested, s, value)
	case map[string]any:
		return r.lookAtMembers(nested, s, value)
	}
	return nil
}

// lookAll counts the looks of several schemas at a value. A nil one looks at nothing.
func (r *rehearsal) lookAll(nested int, value any, schemas ...*jsonschema.Schema) error {
	for _, s := range schemas {
		if s == nil {
			continue
		}
		if err := r.look(s, value, nested); err != nil {
			return err
		}
	}
	return nil
}

func (r *rehearsal) lookAtItems(nested int, s *jsonschema.Schema, items []any) error {
	for i, item := range items {
		for _, first := range [][]*jsonschema.Schema{s.PrefixItems, s.ItemsArray} {
			if i < len(first) {
				if err := r.lookAll(nested, item, first[i]); err != nil {
					return err
				}
			}
		}
		if err := r.lookAll(nested, item, s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems); err != nil {
			return err
		}
	}
	return nil
}

func (r *rehearsal) lookAtMembers(nested int, s *jsonschema.Schema, members map[string]any) error {
	for name, member := range members {
		named := s.Properties[name]
		if named == nil {
			named = s.AdditionalProperties
		}
		if err := r.lookAll(nested, member, named, s.UnevaluatedProperties); err != nil {
			return err
		}
		for pattern, matching := range s.PatternProperties {
			if err := r.spend(r.programs[pattern] * (len(name) + 1)); err != nil {
				return err
			}
			if err := r.lookAll(nested, member, matching); err != nil {
				return err
			}
		}
		if err := r.lookAll(nested, name, s.PropertyNames); err != nil {
			return err
		}
	}
	return nil
}

// spend counts steps.
func (r *rehearsal) spend(steps int) error {
	if r.left -= steps; r.left < 0 {
		return beyond("checking the value against the schema takes more than %d steps", mostSteps)
	}
	if r.made++; r.made%1024 == 0 {
		return r.ctx.Err()
	}
	return nil
}
