//go:build unix

package strictjson

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// hostile returns documents of about size bytes, each of which is expensive for some way of reading it.
func hostile(size int) map[string][]byte {
	members := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	wrap := func(n int, open, inside, end string) []byte {
		return []byte(strings.Repeat(open, n) + inside + strings.Repeat(end, n))
	}
	return map[string][]byte{
		"many members":                []byte(`{` + members(size/10, `"%d":0,`) + `"":0}`),
		"many escaped names":          []byte(`{` + members(size/12, `"\n%d":0,`) + `"":0}`),
		"many objects just too large": []byte(`[` + strings.Repeat(`{`+members(17, `"%d":0,`)+`"":0},`, size/120) + `0]`),
		"a large leaf far down":       wrap(MaxDepth/2, `{"b":`, `"`+strings.Repeat("x", size)+`"`, `,"a":0}`),
		"large objects inside large":  wrap(50, `{`+members(size/50/8, `"a%d":0,`)+`"b":`, `0`, `}`),
		"small objects deep down": []byte(`[` + strings.Repeat(string(wrap(40, `{"b":0,"a":`, `0`, `}`))+`,`, size/500) +
			`0]`),
		"objects out of order deep": wrap(MaxDepth/2, `{"b":0,"a":`, `"`+strings.Repeat("x", size)+`"`, `}`),
		"objects in order around": wrap(MaxDepth/2, `{"a":0,"b":`,
			`[`+strings.Repeat(`{"b":"`+strings.Repeat("x", 500)+`","a":0},`, size/520)+`0]`, `}`),
		"backslashes":              []byte(`"` + strings.Repeat(`\\`, size/2) + `"`),
		"a long coefficient":       []byte(`0.` + strings.Repeat("0", size/2) + strings.Repeat("1", size/2)),
		"a long exponent":          []byte(`10e-1` + strings.Repeat("0", size)),
		"many huge exponents":      []byte(`[` + strings.Repeat(`1e999999999999999999999,`, size/24) + `0]`),
		"names with a long prefix": []byte(`{` + members(size/3000, `"`+strings.Repeat("x", 3000)+`%d":0,`) + `"":0}`),
	}
}

// The time is that of the processor, which other processes do not take from this one, and the limit is between the
// ratio of linear time, 16, and that of quadratic time, 256.
func TestHostileDocumentsTakeLinearTime(t *testing.T) {
	const size, times, limit = 100_000, 16, 100
	large := hostile(size * times)
	for name, doc := range hostile(size) {
		few := min(readingTime(t, doc), readingTime(t, doc), readingTime(t, doc))
		many := min(readingTime(t, large[name]), readingTime(t, large[name]))
		ratio := float64(many) / float64(max(few, 5*time.Millisecond))
		t.Logf("%-28s %6d bytes: %v, %8d bytes: %v, %.0f times as long", name, len(doc), few, len(large[name]), many, ratio)
		if ratio > limit {
			t.Errorf("%s: %d times as many bytes take %.0f times as long", name, times, ratio)
		}
	}
}

// readingTime is the processor time of reading a document in every way.
func readingTime(t *testing.T, doc []byte) time.Duration {
	t.Helper()
	began := processorTime(t)
	expect.Check(t, Check(doc, MaxDepth))
	Digest(doc)
	Get(doc, "nothing")
	String(doc)
	return processorTime(t) - began
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	expect.Check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano())
}
