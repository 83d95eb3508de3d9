package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The name under which hosts see a tool or a prompt has up to three parts: a prefix, the name at the server or the new
// one that the operator has given it, and a digest. The first two follow from the options alone, and so does the digest
// of a name that is cut. Only a name that two tools would have depends on what is listed: then each of them gets a
// digest, and none has the name because it was there first.

// Choice says which tools are offered, and under which names. The zero value offers all, under their own.
type Choice struct {
	// Allow has patterns, as Approval.Tools has. Nil means all tools, and an empty slice means none.
	Allow []string
	// Deny has patterns of tools that are not offered even if they are allowed.
	Deny []string
	// Rename has new names for tools. The old one is the name at the server, and then the prefix stays. Or it is the name
	// with its prefix, and then the new one has none.
	Rename map[string]string
}

// Check returns an error for a pattern that is malformed, or a name that the specification does not allow.
func (c *Choice) Check() error {
	for _, pattern := range slices.Concat(c.Allow, c.Deny) {
		if err := checkPattern(pattern); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Rename)) {
		if to := c.Rename[name]; name == "" || !isPlain(to) {
			return fmt.Errorf("the new name %.200q of the tool %.200q is not 1 to %d letters, digits, _, - or dots", to, name,
				longestName)
		}
	}
	return nil
}

// checkPattern returns an error for a pattern that is malformed, or that no name can match.
func checkPattern(pattern string) error {
	strange := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	if pattern == "" || strings.ContainsFunc(pattern, strange) {
		return fmt.Errorf("the pattern %q is empty, or has characters that no name of a tool has", pattern)
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	return nil
}

func matchesAny(patterns, names []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, names) })
}

// leavesOut reports whether a tool with these names is not offered.
func (c *Choice) leavesOut(names []string) bool {
	return matchesAny(c.Deny, names) || c.Allow != nil && !matchesAny(c.Allow, names)
}

// shortestName is the least number of bytes to which names can be cut.
const shortestName = 16

// check returns an error for options of a server that no name could have.
func (s *Server) check() error {
	switch {
	case s.Prefix != "" && !isPlain(s.Prefix):
		return fmt.Errorf("the prefix %.200q is not at most %d letters, digits, _, - or dots", s.Prefix, longestName)
	case s.NameLength != 0 && (s.NameLength < shortestName || s.NameLength > longestName):
		return fmt.Errorf("names of at most %d letters: want %d to %d", s.NameLength, shortestName, longestName)
	}
	return s.Tools.Check()
}

// before is what stands before the server's own names.
func (s *Server) before() string {
	if s.Prefix == "" || strings.ContainsAny(s.Prefix[len(s.Prefix)-1:], "_-.") {
		return s.Prefix
	}
	return s.Prefix + "_"
}

// renamed is the name of a tool with its prefix and its new name, before it is cut.
func (u *upstream) renamed(own string) string {
	whole := u.before() + own
	for _, c := range []*Choice{&u.Tools, &u.opts.Tools} {
		if to, ok := c.Rename[own]; ok {
			return u.before() + to
		}
		if to, ok := c.Rename[whole]; ok {
			return to
		}
	}
	return whole
}

// names are all names of a tool that an operator may know: a pattern that matches one of them is meant for the tool.
func (u *upstream) names(own string) []string {
	names := []string{own, u.before() + own}
	if renamed := u.renamed(own); renamed != names[1] {
		names = append(names, renamed)
	}
	if name, cut := u.label(own, u.renamed(own)).short(); cut {
		names = append(names, name)
	}
	return names
}

// leavesOut reports whether a tool is not offered.
func (u *upstream) leavesOut(own string) bool {
	names := u.names(own)
	return u.Tools.leavesOut(names) || u.opts.Tools.leavesOut(names)
}

// label is the name that something is to have.
type label struct {
	server string
	own    string // name at the server
	name   string // wanted
	most   int    // bytes of the name
}

func (u *upstream) label(own, name string) label {
	most := longestName
	if u.NameLength > 0 {
		most = u.NameLength
	}
	return label{u.Name, own, name, most}
}

// short is the name, which is cut if it is too long.
func (l label) short() (name string, cut bool) {
	if len(l.name) <= l.most {
		return l.name, false
	}
	return l.apart(), true
}

// apart is the name with a digest of what it is the name of.
func (l label) apart() string {
	digest := sha256.Sum256([]byte(l.server + "\n" + l.own))
	end := min(len(l.name), l.most-9)
	for end < len(l.name) && end > 0 && !utf8.RuneStart(l.name[end]) {
		end--
	}
	return l.name[:end] + "-" + hex.EncodeToString(digest[:4])
}

// distinct returns a name for each label, which no other has. Their order does not matter. The name is empty for labels
// that even their digests do not tell apart.
func distinct(labels []label) []string {
	names, apart := make([]string, len(labels)), make([]bool, len(labels))
	holders := make(map[string][]int)
	var shared []string // names that have to be looked at
	hold := func(i int) {
		holders[names[i]] = append(holders[names[i]], i)
		if len(holders[names[i]]) > 1 || ownTools[names[i]] {
			shared = append(shared, names[i])
		}
	}
	for i, l := range labels {
		names[i], apart[i] = l.short()
		hold(i)
	}
	for len(shared) > 0 {
		name := shared[len(shared)-1]
		shared = shared[:len(shared)-1]
		all := holders[name]
		holders[name] = nil
		for _, i := range all {
			if apart[i] {
				holders[name] = append(holders[name], i)
			}
		}
		for _, i := range all {
			if !apart[i] {
				names[i], apart[i] = labels[i].apart(), true
				hold(i)
			}
		}
	}
	for _, same := range holders {
		for _, i := range same {
			if len(same) > 1 || ownTools[names[i]] {
				names[i] = ""
			}
		}
	}
	return names
}

// shelf has what the servers offer under names that hosts choose by: the tools, or the prompts.
type shelf struct {
	kind string
	hide func(...string) // no longer offers names

	mu     sync.Mutex
	offers map[source]*offer
	latest map[source]*target // of all that was ever shown
	shown  map[string]*target // by the names that hosts see
}

// source is where something is from: a server, and the name there.
type source struct {
	*upstream
	own string
}

// offer is something that a server offers.
type offer struct {
	label
	show  func(name string) *target // offers it to hosts under a name, or panics
	as    string                    // the name that hosts see, or empty
	stale bool                      // hosts have to see it anew
}

func newShelf(kind string, hide func(...string)) *shelf {
	return &shelf{kind: kind, hide: hide, offers: make(map[source]*offer), latest: make(map[source]*target),
		shown: make(map[string]*target)}
}

// put lays something on the shelf, in place of what had its name at the server. Hosts see it after settle.
func (s *shelf) put(u *upstream, l label, show func(name string) *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &offer{label: l, show: show, stale: true}
	if had := s.offers[source{u, l.own}]; had != nil {
		o.as = had.as
	}
	s.offers[source{u, l.own}] = o
}

// drop takes something from the shelf.
func (s *shelf) drop(u *upstream, own string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := source{u, own}
	if o := s.offers[from]; o != nil {
		s.withdraw(o)
		delete(s.offers, from)
	}
	if t := s.latest[from]; t != nil {
		t.gone.Store(true)
	}
}

// withdraw hides something, with the lock held.
func (s *shelf) withdraw(o *offer) {
	if o.as != "" {
		s.hide(o.as)
		s.shown[o.as].hidden.Store(true)
		delete(s.shown, o.as)
		o.as = ""
	}
}

// settle shows hosts all that is on the shelf, under names that are distinct. What cannot be shown is left out.
func (s *shelf) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for again := true; again; {
		again = false
		var from []source
		var labels []label
		for f, o := range s.offers {
			from, labels = append(from, f), append(labels, o.label)
		}
		names := distinct(labels)
		for i, f := range from { // first, so that a name is free when something else gets it
			if o := s.offers[f]; o.as != names[i] {
				s.withdraw(o)
			}
		}
		for i, f := range from {
			o := s.offers[f]
			if o.as == names[i] && !o.stale {
				continue
			}
			if err := s.show(f, o, names[i]); err != nil {
				f.leaveOut(s.kind, f.own, err)
				if o.as == "" { // and keeps nothing else from having its name
					delete(s.offers, f)
					again = true
				}
			}
		}
	}
}

// show shows something to hosts under a name, with the lock held.
func (s *shelf) show(from source, o *offer, name string) error {
	o.stale = false
	if name == "" {
		return errors.New("its name cannot be told from another one")
	}
	if short, _ := o.short(); o.as != name && name != short {
		from.log.Warn("bridge: two would have one name, so each gets a digest; rename one of them", "server", from.title,
			"kind", strings.TrimSpace(s.kind), "name", short, "as", name)
	}
	return safely(func() error {
		t := o.show(name)
		if before := s.latest[from]; before != nil && t.strict() {
			before.turned.Store(true)
		}
		s.latest[from], s.shown[name], o.as = t, t, name
		return nil
	})
}

// of returns what hosts see under a name, or nil.
func (s *shelf) of(name string) *target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown[name]
}

// from returns what a server had last under its own name, or nil, and the name that hosts see, if they do.
func (s *shelf) from(u *upstream, own string) (t *target, as string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.offers[source{u, own}]; o != nil {
		as = o.as
	}
	return s.latest[source{u, own}], as
}

// has reports whether something of a server is on the shelf.
func (s *shelf) has(u *upstream, own string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offers[source{u, own}] != nil
}
