// Package hostile draws JSON Schemas as no honest server sends them, for tests and judges.
package hostile

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Kinds are the kinds of schemas that Draw knows.
var Kinds = []string{
	"circle", "circle of definitions", "doubling", "doubling anyOf", "patterns", "one pattern", "wide", "deep", "nested",
	"long names", "dynamic", "anchors", "values", "enum", "unevaluated", "conditions", "unique", "remote", "names",
	"branches", "required", "plain",
}

// Draw returns a schema of a kind, an object that one might send to a tool with it, and whether a check against the
// schema is to end with a verdict.
func Draw(r *rand.Rand, kind string) (schema, value []byte, applies bool) {
	object := func(format string, args ...any) []byte {
		return []byte(`{"type":"object",` + fmt.Sprintf(format, args...) + `}`)
	}
	many := func(n int, separator string, text func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = text(i)
		}
		return strings.Join(all, separator)
	}
	n := 1 + r.IntN(10)
	value = []byte(`{"a":{"a":{"a":[1,"x",{"a":null}]}},"b":"` + strings.Repeat("a", r.IntN(2_000)) + `"}`)
	in := []string{"allOf", "anyOf", "oneOf"}[r.IntN(3)]
	switch kind {
	case "circle":
		return []([]byte){
			object(`"$ref":"#"`),
			object(`"%s":[{"$ref":"#"}]`, in),
			object(`"not":{"not":{"$ref":"#"}}`),
			object(`"if":{"$ref":"#"},"then":{}`),
			object(`"dependentSchemas":{"a":{"$ref":"#"}}`),
			object(`"$id":"https://example.com/s","$ref":"https://example.com/s"`),
		}[r.IntN(6)], value, false
	case "circle of definitions":
		return object(`"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{%s}`, many(n, ",", func(i int) string {
			return fmt.Sprintf(`"d%d":{"%s":[{"$ref":"#/$defs/d%d"}]}`, i, in, (i+1)%n)
		})), value, false
	case "doubling", "doubling anyOf":
		if in = "allOf"; kind != "doubling" {
			in = "anyOf"
		}
		return object(`"$ref":"#/$defs/d0","$defs":{%s,"d%d":{}}`, many(30+n, ",", func(i int) string {
			return fmt.Sprintf(`"d%d":{"%s":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, in, i+1, i+1)
		}), 30+n), value, false
	case "patterns":
		return object(`"properties":{%s}`, many(20_000/n, ",", func(i int) string {
			return fmt.Sprintf(`"p%d":{"pattern":"(a{1,%d}){1,9}"}`, i, 90+r.IntN(20))
		})), value, false
	case "one pattern":
		return object(`"properties":{"b":{"pattern":"%s$"}},"patternProperties":{"%s":{}}`, strings.Repeat("(a*)*", 50*n),
			strings.Repeat(`\\pL`, 30*n)), value, false
	case "wide":
		return object(`"properties":{%s}`, many(1_500*n, ",", func(i int) string {
			return fmt.Sprintf(`"p%d":{"type":"string","description":"%s"}`, i, strings.Repeat("x", r.IntN(60)))
		})), value, false
	case "deep":
		depth := 1_000 * n
		return object(`"properties":{"a":%s{}%s}`, strings.Repeat(`{"items":`, depth), strings.Repeat("}", depth)), value,
			false
	case "nested":
		return object(`"properties":{"a":%s{"description":"%s"}%s}`, strings.Repeat(`{"not":`, 50),
			strings.Repeat("x", 80_000*n), strings.Repeat("}", 50)), value, false
	case "long names":
		return object(`"properties":{"%s":{"properties":{%s}}}`, strings.Repeat("x", 40_000*n), many(2_000, ",",
			func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) })), value, false
	case "dynamic":
		return object(`"$dynamicAnchor":"node","properties":{"a":{"$dynamicRef":"#node"}}`), value, false
	case "anchors":
		return object(`"properties":{"a":{"$ref":"#t"}},"$defs":{"t":{"$anchor":"t","properties":{"a":{"$ref":"#t"}}}}`),
			[]byte(`{"a":{"a":{"a":{}}}}`), true
	case "values":
		deep := strings.Repeat(`{"a":[`, n*3) + strings.Repeat(`]}`, n*3)
		return object(`"properties":{"a":{"const":%s},"b":{"enum":[%s]}}`, deep, many(1_000*n, ",", func(i int) string {
			return `"` + strings.Repeat("v", i%90) + `"`
		})), []byte(`{"a":` + deep + `,"b":"` + strings.Repeat("v", 89) + `"}`), false
	case "enum":
		return object(`"additionalProperties":{"type":"array","items":{"enum":[%s]}}`, many(1_000*n, ",",
				func(i int) string { return fmt.Sprintf(`{"a":%d}`, i) })),
			[]byte(`{"a":[` + many(2_000, ",", func(i int) string { return fmt.Sprintf(`{"a":%d}`, i) }) + `]}`), false
	case "unevaluated":
		return object(`"allOf":[%s],"unevaluatedProperties":{"type":["number","object","string"],"unevaluatedItems":false}`,
			many(100*n, ",", func(i int) string {
				return fmt.Sprintf(`{"properties":{"p%d":{"unevaluatedProperties":false}}}`, i)
			})), []byte(`{` + many(100*n, ",", func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) }) + `}`), false
	case "conditions":
		return object(`"allOf":[%s]`, many(100*n, ",", func(i int) string {
			return fmt.Sprintf(`{"if":{"properties":{"a":{"const":%d}}},"then":{"required":["p%d"]},"else":{"not":{}}}`, i, i)
		})), value, false
	case "unique":
		return object(`"properties":{"a":{"uniqueItems":true,"items":{"uniqueItems":true}}}`),
			[]byte(`{"a":[` + many(5_000*n, ",", func(i int) string { return fmt.Sprintf(`[%d]`, i) }) + `]}`), false
	case "remote":
		return object(`"$ref":"http://127.0.0.1:1/schema%d.json"`, n), value, false
	case "names":
		return object(`"patternProperties":{%s},"propertyNames":{"pattern":"^[a-z]+$"}`, many(300*n, ",",
				func(i int) string { return fmt.Sprintf(`"^%d.*$":{"type":"string"}`, i) })),
			[]byte(`{` + many(3_000, ",", func(i int) string { return fmt.Sprintf(`"%d%d":1`, i, i) }) + `}`), false
	case "branches":
		return object(`"properties":{"b":{"anyOf":[%s]}}`, many(1_500*n, ",", func(i int) string {
			return fmt.Sprintf(`{"type":"array","minItems":%d}`, i)
		})), []byte(`{"b":"` + strings.Repeat("x", 50_000*n) + `"}`), false
	case "required":
		return object(`"required":[%s]`, many(1_500*n, ",", func(i int) string {
			return fmt.Sprintf(`"p%d"`, i)
		})), value, false
	}
	return object(`"properties":{"a":{"type":"object"},"b":{"type":"string","maxLength":%d}}`, 2_000), value, true
}
