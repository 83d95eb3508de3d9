package names

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

// Whatever tools are to be called, each gets a name of its own that is short enough, and the order in which they came
// makes no difference. A name that only one wants, and that is short enough, is left as it is.
func TestNamesAreDistinct(t *testing.T) {
	pieces := []string{"create", "list", "askback_result", strings.Repeat("long", 20), strings.Repeat("ö", 40)}
	law := func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 0))
		var labels []Label
		wanted := make(map[string]int)
		for i := range r.IntN(12) {
			l := Label{fmt.Sprint("server ", r.IntN(3)), fmt.Sprint("tool ", i), pieces[r.IntN(len(pieces))], 64}
			if n := len(labels); n > 0 && r.IntN(3) == 0 { // the name that another one gets
				l.Name = labels[r.IntN(n)].apart()
			}
			labels = append(labels, l)
			wanted[l.Name]++
		}
		assigned := func() map[Label]string {
			all := make(map[Label]string)
			for i, name := range Distinct(labels) {
				all[labels[i]] = name
			}
			return all
		}
		names, seen := assigned(), make(map[string]bool)
		for l, name := range names {
			plain := wanted[l.Name] == 1 && len(l.Name) <= 64 && !Own[l.Name] && !strings.Contains(l.Name, "-")
			legal := name != "" && len(name) <= 64 && utf8.ValidString(name) && !Own[name]
			if !legal || seen[name] || plain && name != l.Name {
				t.Logf("%+v is named %q among %v", l, name, names)
				return false
			}
			seen[name] = true
		}
		r.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
		return maps.Equal(names, assigned())
	}
	if err := quick.Check(law, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

// A server that names each tool as the one before it is to be named takes no more time than any other.
func TestAChainOfNames(t *testing.T) {
	labels := []Label{{"evil", "0", "a", 128}, {"evil", "1", "a", 128}}
	for i := range 10_000 {
		labels = append(labels, Label{"evil", fmt.Sprint(i + 2), labels[len(labels)-1].apart(), 128})
	}
	names := Distinct(labels)
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != len(labels) || names[0] == "" {
		t.Errorf("%d tools have %d names", len(labels), n)
	}
}

// What cannot be told apart by a digest gets no name, so that nobody calls one of the two in place of the other.
func TestNamesThatAreTheSame(t *testing.T) {
	same := Label{"a", "tool", "create", 64}
	if names := Distinct([]Label{same, {"b", "tool", "create", 64}, same}); names[0] != "" || names[2] != "" ||
		names[1] == "" {
		t.Errorf("the names are %q", names)
	}
}
