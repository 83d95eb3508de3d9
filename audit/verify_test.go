package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// written is an audit of two processes in several files, as its lines, with the heads.
type written struct {
	lines [][]byte
	heads []byte
	key   ed25519.PublicKey
	where string
}

// write records events in two processes, one after the other.
func write(t testing.TB, events int, o Options) *written {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	expect.Check(t, err)
	var heads bytes.Buffer
	o.Key, o.Heads = private, &heads
	w := &written{key: public, where: filepath.Join(t.TempDir(), "audit.jsonl")}
	for range 2 {
		log := open(t, w.where, &o)
		for i := range events {
			log.Record(t.Context(), askback.AuditEvent{Kind: askback.AuditStep, Principal: "ada", Round: i, Key: "book"})
		}
		expect.Check(t, log.Close())
	}
	for _, file := range w.files(t) {
		w.lines = append(w.lines, linesOf(t, file)...)
	}
	w.heads = heads.Bytes()
	return w
}

func open(t testing.TB, path string, o *Options) *Log {
	t.Helper()
	log := expect.Must(Open(path, o))(t)
	return log
}

// files lists the files of an audit in the order of time.
func (w *written) files(t testing.TB) []string {
	t.Helper()
	full := expect.Must(filepath.Glob(w.where + ".2*"))(t)
	return append(full, w.where)
}

func linesOf(t testing.TB, file string) (lines [][]byte) {
	t.Helper()
	text := expect.Must(os.ReadFile(file))(t)
	return slices.Collect(bytes.Lines(text))
}

func (w *written) headsFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "heads")
	expect.Check(t, os.WriteFile(file, w.heads, 0o600))
	return file
}

// verify verifies lines, with the heads or without.
func (w *written) verify(t testing.TB, lines [][]byte, heads bool) *Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	expect.Check(t, os.WriteFile(file, bytes.Join(lines, nil), 0o600))
	o := &VerifyOptions{Key: w.key}
	if heads {
		o.Heads = w.headsFile(t)
	}
	report := expect.Must(Verify([]string{file}, o))(t)
	return report
}

func TestAnAuditIsWhole(t *testing.T) {
	w := write(t, 30, Options{})
	for _, heads := range []bool{false, true} {
		if r := w.verify(t, w.lines, heads); len(r.Faults) > 0 || r.Lines != 62 || r.Chains != 2 {
			t.Errorf("heads %v: %+v", heads, r)
		} else if heads && (r.Heads < 2 || r.Unsigned != 0) {
			t.Errorf("Close has signed no head for the last line: %+v", r)
		}
	}
}

// Each kind of manipulation is tried 60 times, at drawn places.
func TestManipulationsAreFound(t *testing.T) {
	w := write(t, 30, Options{})
	last := len(w.lines) - 1
	for _, m := range []struct {
		name  string
		heads bool
		do    func(draw *rand.Rand, lines [][]byte) [][]byte
	}{
		{"a byte of a line is changed", false, func(draw *rand.Rand, lines [][]byte) [][]byte {
			change(draw, lines[draw.IntN(last)])
			return lines
		}},
		{"a line is removed", false, func(draw *rand.Rand, lines [][]byte) [][]byte {
			at := draw.IntN(last)
			return slices.Delete(lines, at, at+1)
		}},
		{"a line is repeated", false, func(draw *rand.Rand, lines [][]byte) [][]byte {
			return slices.Insert(lines, draw.IntN(last+1), lines[draw.IntN(last+1)])
		}},
		{"two lines are swapped", false, func(draw *rand.Rand, lines [][]byte) [][]byte {
			a, b := draw.IntN(last+1), draw.IntN(last)
			if b >= a {
				b++
			}
			lines[a], lines[b] = lines[b], lines[a]
			return lines
		}},
		{"a byte of any line is changed", true, func(draw *rand.Rand, lines [][]byte) [][]byte {
			change(draw, lines[draw.IntN(last+1)])
			return lines
		}},
		{"the end is cut off", true, func(draw *rand.Rand, lines [][]byte) [][]byte {
			return lines[:1+draw.IntN(last)]
		}},
		{"the end is cut off in a line", true, func(draw *rand.Rand, lines [][]byte) [][]byte {
			at := draw.IntN(last + 1)
			lines[at] = lines[at][:draw.IntN(len(lines[at]))]
			return lines[:at+1]
		}},
		{"all is written anew from a line on", true, func(draw *rand.Rand, lines [][]byte) [][]byte {
			at := draw.IntN(last + 1)
			lines[at] = bytes.Replace(lines[at], []byte(`"time":"2`), []byte(`"time":"1`), 1)
			for i := at + 1; i < len(lines); i++ {
				_, rest, _ := bytes.Cut(lines[i], []byte(`"prev":"`))
				lines[i] = bytes.Replace(lines[i], rest[:64], []byte(digestOf(lines[i-1])), 1)
			}
			return lines
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			found, draw := 0, rand.New(rand.NewPCG(7, uint64(len(m.name))))
			for range 60 {
				lines := make([][]byte, len(w.lines))
				for i, l := range w.lines {
					lines[i] = bytes.Clone(l)
				}
				lines = m.do(draw, lines)
				if r := w.verify(t, lines, m.heads); len(r.Faults) > 0 {
					found++
				}
				if m.name == "all is written anew from a line on" && len(w.verify(t, lines, false).Faults) > 0 {
					t.Error("the forger has made a mistake that is found without heads")
				}
			}
			expect.Equal(t, "found", found, 60)
		})
	}
}

// change changes one byte.
func change(draw *rand.Rand, line []byte) {
	line[draw.IntN(len(line))] ^= byte(1 + draw.IntN(255))
}

func TestFaultsNameTheirLines(t *testing.T) {
	w := write(t, 5, Options{})
	for _, c := range []struct {
		name  string
		lines [][]byte
		want  string
	}{
		{"the first line is missing", w.lines[1:], "audit.jsonl:1: the lines before it are missing"},
		{"the third line is missing", slices.Delete(slices.Clone(w.lines), 2, 3), ":3: it does not follow the line"},
		{"the third line is no line", slices.Insert(slices.Clone(w.lines), 2, []byte("\n")), ":3: this is not a line"},
		{"the third line is long", slices.Insert(slices.Clone(w.lines), 2, bytes.Repeat([]byte("x"), 3*maxLine),
			[]byte("\n")),
			":3: the line is not complete, or too long"},
		{"there is no line", nil, "there is no line"},
	} {
		if r := w.verify(t, c.lines, false); len(r.Faults) == 0 || !strings.Contains(r.Faults[0], c.want) {
			t.Errorf("%s: got %q, want %q", c.name, r.Faults, c.want)
		}
	}
}

// A chain that is linked well, but numbers its lines wrongly, was not written by a Log.
func TestNumbersGoOn(t *testing.T) {
	w := write(t, 5, Options{})
	lines := slices.Clone(w.lines[:4])
	lines[3] = bytes.Replace(lines[3], []byte(`"seq":4`), []byte(`"seq":5`), 1)
	if r := w.verify(t, lines, false); len(r.Faults) != 1 || !strings.Contains(r.Faults[0], ":4: line 5 of chain") {
		t.Errorf("got %q", r.Faults)
	}
}

// Files that were deleted on purpose are missing no more, once their last digest is given. The end still is.
func TestEarlierFilesMayBeDeleted(t *testing.T) {
	w := write(t, 30, Options{MaxSize: 3000})
	files := w.files(t)
	if len(files) < 5 {
		t.Fatalf("there are only the files %q", files)
	}
	check := func(files []string, after string) *Report {
		r := expect.Must(Verify(files, &VerifyOptions{After: after, Heads: w.headsFile(t), Key: w.key}))(t)
		return r
	}
	deleted, err := Verify(files[:2], nil)
	if err != nil || len(deleted.Faults) > 0 {
		t.Fatal(deleted, err)
	}
	if r := check(files, ""); len(r.Faults) > 0 {
		t.Errorf("all files: %q", r.Faults)
	}
	if r := check(files[2:], deleted.Last); len(r.Faults) > 0 || r.Unsigned > 0 {
		t.Errorf("with the digest: %+v", r)
	}
	for _, c := range []struct {
		name  string
		files []string
		after string
	}{
		{"without the digest", files[2:], ""}, {"with another digest", files[2:], noDigest},
		{"without the last file", files[2 : len(files)-1], deleted.Last},
		{"without a file between", slices.Delete(slices.Clone(files), 2, 3), ""},
		{"in another order", append(files[1:len(files):len(files)], files[0]), ""},
	} {
		if r := check(c.files, c.after); len(r.Faults) == 0 {
			t.Errorf("%s: nothing was found", c.name)
		}
	}
}

func TestHeadsOfOthersAreRefused(t *testing.T) {
	w, other := write(t, 3, Options{}), write(t, 3, Options{})
	for name, heads := range map[string][]byte{
		"of another key": other.heads, "none": nil, "cut off": w.heads[:len(w.heads)-9],
		"changed": bytes.Replace(w.heads, []byte(`"seq":4`), []byte(`"seq":3`), 1), "no head": []byte("head\n"),
	} {
		c := *w
		if c.heads = heads; len(c.verify(t, w.lines, true).Faults) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
	}
	if _, err := Verify([]string{w.where}, &VerifyOptions{Heads: w.headsFile(t)}); err == nil {
		t.Error("heads were read without a key")
	}
}

func TestFaultsAreBounded(t *testing.T) {
	w := write(t, 1, Options{})
	r := w.verify(t, slices.Repeat([][]byte{[]byte("{}\n")}, 300), false)
	if len(r.Faults) != 100 || r.More != 200 {
		t.Errorf("%d faults, and %d more", len(r.Faults), r.More)
	}
}

// Whatever stands in a file, the verifier ends, and calls it whole only if it is a chain.
func FuzzVerify(f *testing.F) {
	w := write(f, 3, Options{})
	f.Add(bytes.Join(w.lines, nil), w.heads)
	f.Add([]byte("{\"chain\":\"a\",\"seq\":1,\"begin\":true,\"prev\":\""+noDigest+"\"}\n"), []byte("\n{}\t\n"))
	f.Add([]byte("\x00"), []byte("\t"))
	f.Fuzz(func(t *testing.T, lines, heads []byte) {
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		expect.Check(t, os.WriteFile(file, lines, 0o600))
		r, err := Verify([]string{file}, &VerifyOptions{Heads: (&written{heads: heads}).headsFile(t), Key: w.key})
		expect.Check(t, err)
		if len(r.Faults) > 0 {
			return
		}
		prev := noDigest
		for line := range bytes.Lines(lines) {
			if !bytes.Contains(line, []byte(prev)) {
				t.Fatalf("%q does not have the digest %s", line, prev)
			}
			prev = digestOf(line)
		}
		if r.Heads == 0 || r.Last != prev {
			t.Fatalf("%+v", r)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	for _, o := range []Options{{}, {Sync: 1 << 30}} {
		b.Run(fmt.Sprintf("sync=%v", o.Sync == 0), func(b *testing.B) {
			log := open(b, filepath.Join(b.TempDir(), "audit.jsonl"), &o)
			defer func() {
				if err := log.Close(); err != nil {
					b.Error(err)
				}
			}()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					log.Record(context.Background(), askback.AuditEvent{Kind: askback.AuditStep, Principal: "ada", Key: "book"})
				}
			})
		})
	}
}
