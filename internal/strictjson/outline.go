package strictjson

import "iter"

// Outline records the positions of the members of a document, and of one object in it, so that nobody has to read a
// value again to find its end. It has a fixed size, so that it costs no allocation: if an object has more than 8
// members, or a name with escapes, its members are found as [Members] finds them. So are all members for a nil Outline.
type Outline struct {
	data   []byte
	want   Wanted
	levels [2]level // the members of the document, and the members of its member Inner
	within bool     // Inner is being read

	digested bool
	digest   [32]byte
	wide     bool
}

// Wanted selects the members that an [Outline] records and digests.
type Wanted struct {
	Inner  string // the member of the document whose members are found, too
	Digest string // the member of Inner whose digest is made; empty for none
}

// Check is [Check]. The outline is then the outline of the document.
func (o *Outline) Check(data []byte, maxDepth int, want Wanted) error {
	*o = Outline{data: data, want: want}
	return check(data, maxDepth, o)
}

// Digest returns the [Digest] of the wanted member, or nil if it was not made. Making it during the check costs no more
// than making it later, so the check of those bytes is free.
func (o *Outline) Digest() *[32]byte {
	if o == nil || !o.digested {
		return nil
	}
	return &o.digest
}

// Floats reports whether each number of the document is certainly a float64: none is too large, or so long or with an
// exponent that it might be.
func (o *Outline) Floats() bool { return o != nil && !o.wide }

// Members is the function [Members] for the document, which has passed Check.
func (o *Outline) Members() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) { o.walk(0, o.data, yield) }
}

// Inner is the function [Members] for the document's member inner, which is obj.
func (o *Outline) Inner(obj []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) { o.walk(1, obj, yield) }
}

func (o *Outline) walk(i int, obj []byte, yield func(name, value []byte) bool) {
	if o == nil || o.levels[i].missing {
		Members(obj)(yield)
		return
	}
	for _, m := range o.levels[i].members[:o.levels[i].n] {
		// Capped, so that appending to one cannot overwrite the document.
		if !yield(o.data[m.name.start:m.name.end:m.name.end], o.data[m.value.start:m.value.end:m.value.end]) {
			return
		}
	}
}

// level returns where the members of an object belong that is as deep in the document, or nil.
func (o *Outline) level(depth int) *level {
	if o == nil || depth > 2 || depth == 2 && !o.within {
		return nil
	}
	return &o.levels[depth-1]
}

// enter notes that the value of a member at a level is read next, and reports whether its digest is wanted.
func (o *Outline) enter(depth int, name []byte) (digest bool) {
	if depth == 1 {
		o.within = string(name) == o.want.Inner
		return false
	}
	return o.want.Digest != "" && string(name) == o.want.Digest
}

// level has the members of one object.
type level struct {
	members [8]struct{ name, value span32 }
	n       uint8
	missing bool // Some members are not in the list: they are found by Members.
}

type span32 struct{ start, end uint32 }

func (s span) short() span32 { return span32{uint32(s.start), uint32(s.end)} }

// add adds a member of a document of that size.
func (l *level) add(name, value span, size int) {
	if int(l.n) == len(l.members) || name.start >= size || uint64(size) > 1<<32-1 {
		l.missing = true
		return
	}
	l.members[l.n].name, l.members[l.n].value = name.short(), value.short()
	l.n++
}
