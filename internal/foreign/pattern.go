package foreign

import (
	"context"
	"regexp/syntax"
)

// The bounds of the patterns in a schema.
const (
	mostPatternBytes = 2 << 10
	mostProgram      = 200_000 // instructions and ranges of characters, of all patterns of a schema
)

// measurePatterns finds the sizes of all patterns, which the validator compiles.
func (c *Compiled) measurePatterns(ctx context.Context) error {
	size := 0
	measure := func(p part, pattern string) error {
		if _, known := c.programs[pattern]; !known {
			if len(pattern) > mostPatternBytes {
				return beyond("the schema has a pattern of more than %d bytes at %s", mostPatternBytes, p.place())
			}
			parsed, err := syntax.Parse(pattern, syntax.Perl)
			if err != nil {
				return beyond("the schema has a pattern at %s that cannot be read here: %.200v", p.place(), err)
			}
			c.programs[pattern] = program(parsed)
		}
		if size += c.programs[pattern]; size > mostProgram { // the validator compiles each anew
			return beyond("the patterns of the schema are too large together; the last of them is at %s", p.place())
		}
		return ctx.Err()
	}
	for _, p := range c.root.parts {
		if p.Pattern != "" {
			if err := measure(p, p.Pattern); err != nil {
				return err
			}
		}
		for pattern := range p.PatternProperties {
			if err := measure(p, pattern); err != nil {
				return err
			}
		}
	}
	return nil
}

// program is the size of a compiled pattern, in instructions and ranges of characters, or more.
func program(re *syntax.Regexp) int {
	n := 2 + len(re.Rune)
	for _, sub := range re.Sub {
		n += program(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min+1)
	}
	return n
}
