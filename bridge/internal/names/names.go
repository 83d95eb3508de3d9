// Package names tells which tools of a server are offered, and under which names hosts see them.
//
// The name of a tool or a prompt has up to three parts: a prefix, the name at the server or the new one that the
// operator has given it, and a digest. The first two follow from the options alone, and so does the digest of a name
// that is cut. Only a name that two tools would have depends on what is listed: then each of them gets a digest, and
// none has the name because it was there first.
package names

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Scheme makes the names of what one server offers.
type Scheme struct {
	// Server is the server's name for people.
	Server string
	// Prefix stands before the server's names: see [Scheme.Before].
	Prefix string
	// Most bounds names, in bytes. Zero means Longest.
	Most int
	// Choices are the operator's, for this server and then for all servers.
	Choices [2]*Choice
}

// shortest is the least number of bytes to which names can be cut.
const shortest = 16

// Own are the tools of the bridge itself. No other tool gets their names.
var Own = map[string]bool{"askback_result": true}

// Check returns an error for options that no name could have.
func (s *Scheme) Check() error {
	switch {
	case s.Prefix != "" && !IsPlain(s.Prefix):
		return fmt.Errorf("the prefix %.200q is not at most %d letters, digits, _, - or dots", s.Prefix, Longest)
	case s.Most != 0 && (s.Most < shortest || s.Most > Longest):
		return fmt.Errorf("names of at most %d letters: want %d to %d", s.Most, shortest, Longest)
	}
	return s.Choices[0].Check()
}

// Before is what stands before the server's own names.
func (s *Scheme) Before() string {
	if s.Prefix == "" || strings.ContainsAny(s.Prefix[len(s.Prefix)-1:], "_-.") {
		return s.Prefix
	}
	return s.Prefix + "_"
}

// Renamed is the name of a tool with its prefix and its new name, before it is cut.
func (s *Scheme) Renamed(own string) string {
	whole := s.Before() + own
	for _, c := range s.Choices {
		if to, ok := c.Rename[own]; ok {
			return s.Before() + to
		}
		if to, ok := c.Rename[whole]; ok {
			return to
		}
	}
	return whole
}

// All are all names of a tool that an operator may know: a pattern that matches one of them is meant for the tool. The
// first two are the name at the server, and that name with its prefix.
func (s *Scheme) All(own string) []string {
	names := []string{own, s.Before() + own}
	if renamed := s.Renamed(own); renamed != names[1] {
		names = append(names, renamed)
	}
	if name, cut := s.Label(own, s.Renamed(own)).Short(); cut {
		names = append(names, name)
	}
	return names
}

// LeavesOut reports whether a tool is not offered.
func (s *Scheme) LeavesOut(own string) bool {
	names := s.All(own)
	return s.Choices[0].leavesOut(names) || s.Choices[1].leavesOut(names)
}

// Label returns the label of something that is to have a name.
func (s *Scheme) Label(own, name string) Label {
	return Label{s.Server, own, name, cmp.Or(s.Most, Longest)}
}

// Label is the name that something is to have.
type Label struct {
	Server string
	Own    string // name at the server
	Name   string // wanted
	Most   int    // bytes of the name
}

// Short is the name, which is cut if it is too long.
func (l Label) Short() (name string, cut bool) {
	if len(l.Name) <= l.Most {
		return l.Name, false
	}
	return l.apart(), true
}

// apart is the name with a digest of what it is the name of.
func (l Label) apart() string {
	digest := sha256.Sum256([]byte(l.Server + "\n" + l.Own))
	end := min(len(l.Name), l.Most-9)
	for end < len(l.Name) && end > 0 && !utf8.RuneStart(l.Name[end]) {
		end--
	}
	return l.Name[:end] + "-" + hex.EncodeToString(digest[:4])
}

// Distinct returns a name for each label, which no other has. Their order does not matter. The name is empty for labels
// that even their digests do not tell apart.
func Distinct(labels []Label) []string {
	names, apart := make([]string, len(labels)), make([]bool, len(labels))
	holders := make(map[string][]int)
	var shared []string // names that have to be looked at
	hold := func(i int) {
		holders[names[i]] = append(holders[names[i]], i)
		if len(holders[names[i]]) > 1 || Own[names[i]] {
			shared = append(shared, names[i])
		}
	}
	for i, l := range labels {
		names[i], apart[i] = l.Short()
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
			if len(same) > 1 || Own[names[i]] {
				names[i] = ""
			}
		}
	}
	return names
}
