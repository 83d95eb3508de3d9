package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// VerifyOptions are what [Verify] knows besides the files. Nil and the zero value are no heads, and files from the
// first line of all on.
type VerifyOptions struct {
	// After is the digest of the last line before the files, if earlier ones were deleted on purpose.
	After string

	Heads string            // the file of what Options.Heads got, or ""
	Key   ed25519.PublicKey // of all heads
}

// Report is what [Verify] has found.
type Report struct {
	Lines, Chains int
	Heads         int    // how many have the right signature and fit a line
	Unsigned      int    // how many lines come after the last such head: a change among them can go unseen
	Last          string // the digest of the last line, for VerifyOptions.After
	Faults        []string
	More          int // faults that are not in Faults, which has at most 100
}

// Verify reads the files of an audit, in the order of time, and checks that each line follows the one before it. A
// fault begins with the file's name and the number of the line.
//
// Without heads, Verify finds each changed, removed, repeated or moved line that others follow. It does not find that
// the end was cut off, that the last line was changed, or that all of a file was written anew from some line on. With
// heads it finds those too, up to the line of the last head. The error says that a file cannot be read.
func Verify(files []string, opts *VerifyOptions) (*Report, error) {
	v := &verifier{heads: make(map[place][]*found), seen: make(map[string]bool), last: line{Prev: noDigest}}
	v.report.Last = noDigest
	if opts != nil && opts.After != "" {
		v.report.Last = opts.After
	}
	signed := opts != nil && opts.Heads != ""
	if signed {
		if len(opts.Key) != ed25519.PublicKeySize {
			return nil, errors.New("audit: VerifyOptions.Key is not a public key of Ed25519")
		}
		if err := eachLine(opts.Heads, func(at string, text []byte, _ bool) { v.head(at, text, opts.Key) }); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	for _, file := range files {
		if err := eachLine(file, v.line); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	if v.report.Lines == 0 {
		v.fault("%q: there is no line", files)
	}
	if signed {
		v.compareHeads(opts.Heads, opts.After != "")
	}
	v.report.Chains = len(v.seen)
	return &v.report, nil
}

type verifier struct {
	report Report
	last   line            // the fields of the last line that could be read
	seen   map[string]bool // the chains
	order  []*found        // the heads
	heads  map[place][]*found
}

type place struct {
	chain string
	seq   int64
}

// found is a head, and whether its line is there.
type found struct {
	head
	at    string
	there bool
}

func (v *verifier) fault(format string, args ...any) {
	if len(v.report.Faults) >= 100 {
		v.report.More++
		return
	}
	v.report.Faults = append(v.report.Faults, fmt.Sprintf(format, args...))
}

// line checks the next line.
func (v *verifier) line(at string, text []byte, whole bool) {
	v.report.Lines++
	v.report.Unsigned++
	before, first := v.report.Last, v.report.Lines == 1
	v.report.Last = digestOf(text)
	var l line
	switch err := json.Unmarshal(text, &l); {
	case !whole:
		v.fault("%s: the line is not complete, or too long: its process crashed, or is writing it", at)
		return
	case err != nil || l.Chain == "":
		v.fault("%s: this is not a line of an audit: it was changed", at)
		return
	case l.Prev != before && first:
		v.fault("%s: the lines before it are missing: give the file that ends with the digest %.64q, or that digest "+
			"if it was deleted on purpose", at, l.Prev)
	case l.Prev != before:
		v.fault("%s: it does not follow the line before it: lines were changed, removed or moved here", at)
	case !v.continues(l, first):
		v.fault("%s: line %d of chain %.40q does not follow line %d of chain %.40q", at, l.Seq, l.Chain, v.last.Seq,
			v.last.Chain)
	}
	v.last, v.seen[l.Chain] = l, true
	for _, h := range v.heads[place{l.Chain, l.Seq}] {
		if h.there = h.there || h.Digest == v.report.Last; h.there {
			v.report.Heads++
			v.report.Unsigned = 0
		} else {
			v.fault("%s: %s signed another line in this place: the file was written anew", at, h.at)
		}
	}
}

// continues reports whether the number of a line is the next of its chain, or begins one.
func (v *verifier) continues(l line, first bool) bool {
	if l.Begin {
		return l.Seq == 1 && !v.seen[l.Chain]
	}
	return first || l.Chain == v.last.Chain && l.Seq == v.last.Seq+1
}

// head checks a line of the heads.
func (v *verifier) head(at string, text []byte, key ed25519.PublicKey) {
	if text = bytes.TrimSuffix(text, []byte{'\n'}); len(text) == 0 {
		return
	}
	h, err := parseHead(text, key)
	if err != nil {
		v.fault("%s: %v", at, err)
		return
	}
	f := &found{head: h, at: at}
	v.order = append(v.order, f)
	v.heads[place{h.Chain, h.Seq}] = append(v.heads[place{h.Chain, h.Seq}], f)
}

// compareHeads names the heads whose lines are not there. If earlier files were deleted, the first heads may have
// none.
func (v *verifier) compareHeads(file string, deleted bool) {
	if v.report.Heads == 0 {
		v.fault("%s: no head is of these files", file)
		return
	}
	for _, h := range v.order {
		if deleted = deleted && !h.there; !h.there && !deleted {
			v.fault("%s: line %d of chain %.40q is not in the files: the end was cut off, a file is missing, or lines were "+
				"changed", h.at, h.Seq, h.Chain)
		}
	}
}

// eachLine calls each for the lines of a file, with their newlines. A line that has none, or is longer than maxLine,
// is not whole, and is passed in part.
func eachLine(file string, each func(at string, text []byte, whole bool)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, maxLine)
	for n := 1; ; n++ {
		text, err := in.ReadSlice('\n')
		if len(text) > 0 {
			each(fmt.Sprintf("%s:%d", file, n), text, err == nil)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
