package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A tools/call, the same with more arguments, and with a lot.
var (
	doc300 = toolsCall(2)
	doc3K  = toolsCall(28)
	doc30K = toolsCall(295)
)

func toolsCall(items int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"update_work_item",` +
		`"arguments":{"items":[`)
	for i := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"workItemId":%d,"state":"Resolved","effort":2.5,"title":"Crash on save, naïve path",`+
			`"tags":["bug",null]}`, 4500+i)
	}
	b.WriteString(`]}}}`)
	return b.Bytes()
}

func benchmark(b *testing.B, f func(doc []byte)) {
	for _, doc := range [][]byte{doc300, doc3K, doc30K} {
		b.Run(fmt.Sprintf("%dB", len(doc)), func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				f(doc)
			}
		})
	}
}

// largeArguments are arguments of about size bytes, in the shapes that cost differently.
func largeArguments(size int) map[string][]byte {
	fill := func(item string) []byte {
		return []byte(`{"items":[` + strings.Repeat(item+",", size/(len(item)+1)) + `0]}`)
	}
	return map[string][]byte{
		"strings": fill(`"Crash on save, naïve path, after the second attempt to write"`),
		"objects": fill(`{"workItemId":4711,"state":"Resolved","effort":2.5,"title":"Crash on save, naïve path",` +
			`"tags":["bug",null]}`),
		"sorted": fill(`{"effort":2.5,"state":"Resolved","tags":["bug",null],"title":"Crash on save, naïve path",` +
			`"workItemId":4711}`),
		"tiny":    fill(`{"y":1,"x":2}`),
		"numbers": fill(`1.25`),
		"arrays":  fill(strings.Repeat("[", 32) + "1" + strings.Repeat("]", 32)),
	}
}

// BenchmarkLarge compares Digest with Check.
func BenchmarkLarge(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		docs := largeArguments(size)
		for _, name := range slices.Sorted(maps.Keys(docs)) {
			run := func(what string, f func(doc []byte)) {
				b.Run(fmt.Sprintf("%s/%s/%dKB", what, name, size>>10), func(b *testing.B) {
					b.SetBytes(int64(len(docs[name])))
					b.ReportAllocs()
					for b.Loop() {
						f(docs[name])
					}
				})
			}
			run("check", func(doc []byte) { _ = Check(doc, 64) })
			run("digest", func(doc []byte) { Digest(doc) })
		}
	}
}

func BenchmarkCheck(b *testing.B)  { benchmark(b, func(doc []byte) { _ = Check(doc, 64) }) }
func BenchmarkDigest(b *testing.B) { benchmark(b, func(doc []byte) { Digest(doc) }) }
func BenchmarkGet(b *testing.B) {
	benchmark(b, func(doc []byte) { Get(Get(doc, "params"), "arguments") })
}

// BenchmarkJSONValid is what to compare Check with.
func BenchmarkJSONValid(b *testing.B) { benchmark(b, func(doc []byte) { json.Valid(doc) }) }

// BenchmarkCanonical is Digest without the hash.
func BenchmarkCanonical(b *testing.B) {
	var dst []byte
	benchmark(b, func(doc []byte) { dst = AppendCanonical(dst[:0], doc) })
}
