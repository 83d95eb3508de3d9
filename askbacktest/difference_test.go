package askbacktest

import "testing"

// Whatever differs between two runs is said: what changed, what is missing, and what came in addition.
func TestDifferencesAreFound(t *testing.T) {
	type object = map[string]any
	type array = []any
	for _, c := range []struct {
		first, second any
		want          string
	}{
		{object{"a": 1}, object{"a": 1}, ""},
		{array{"a", 1, nil}, array{"a", 1, nil}, ""},
		{object{"a": 1}, object{"a": 2}, "a: 1 → 2"},
		{object{"a": 1}, object{}, "a: 1 → nothing"},
		{object{}, object{"a": 1}, "a: nothing → 1"},
		{object{"a": 1}, object{"a": 1, "b": object{"c": 2}}, `b: nothing → {"c":2}`},
		{object{"a": object{"b": 1}}, object{"a": object{"b": 1, "c": true}}, "a.c: nothing → true"},
		{array{1}, array{1, 2}, ": 1 elements → 2"},
		{array{1, 2}, array{1}, ": 2 elements → 1"},
		{object{"a": array{}}, object{"a": array{object{}}}, "a: 0 elements → 1"},
		{object{"a": array{1, array{2, 3}}}, object{"a": array{1, array{2, 4}}}, "a[1][1]: 3 → 4"},
		{object{"a": "x"}, object{"a": "y"}, `a: "x" → "y"`},
		{object{"a": "1"}, object{"a": 1}, `a: "1" → 1`},
		{object{"a": object{}}, object{"a": array{}}, "a: {} → []"},
	} {
		if got := compare("", decode(c.first), decode(c.second)); got != c.want {
			t.Errorf("%v and %v differ as %q, want %q", c.first, c.second, got, c.want)
		}
	}
}
