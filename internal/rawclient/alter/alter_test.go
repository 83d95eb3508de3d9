package alter

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestLeavesAreFoundInEncodings(t *testing.T) {
	t.Parallel()
	const doc = `{"name":"canary-one","n":7,"in":["x",true]}`
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write([]byte(doc))
	_ = w.Close()
	enc := base64.RawURLEncoding.EncodeToString
	for _, test := range []struct {
		name, state, path string
		protected         bool
	}{
		{"JSON", doc, "/name", false},
		{"base64", base64.StdEncoding.EncodeToString([]byte(doc + "   ")), "base64:/name", false},
		{"base64url", enc([]byte(doc)), "base64url:/name", false},
		{"hexadecimal", hex.EncodeToString([]byte(doc)), "hex:/name", false},
		{"gzip", enc(zipped.Bytes()), "base64url:gzip:/name", false},
		{"gzip and signature", enc(zipped.Bytes()) + ".q7Jm2xY9f0Zk3LrT8vB1nW5cH4dG6sPa",
			"part0:base64url:gzip:/name", true},
		{"checksum behind", enc([]byte(doc + "\x80\x01\x02\xff")), "base64url:/name", false},
		{"MAC behind", enc([]byte(doc + strings.Repeat("\x80\x01\x02\xff", 8))), "base64url:/name", true},
		{"MAC before", enc([]byte(strings.Repeat("\x80{\x02\xff", 8) + doc)), "base64url:/name", true},
		{"a version before", "v1 " + doc, "/name", false},
		{"JWT", enc([]byte(`{"alg":"HS256"}`)) + "." + enc([]byte(doc)) + ".q7Jm2xY9f0Zk3LrT8vB1nW5cH4dG6sPa",
			"part1:base64url:/name", true},
		{"payload and signature", enc([]byte(doc)) + ".9f86d081884c7d659a2feaa0c55ad015", "part0:base64url:/name", true},
		{"signature inside", `{"name":"canary-one","mac":"9f86d081884c7d659a2feaa0c55ad015"}`, "/name", true},
		{"query", "step=2&name=canary-one", "?name", false},
		{"text", "step2:canary-one", "part1:word0", false},
		{"JSON in JSON", `{"p":"{\"name\":\"canary-one\"}"}`, "/p=/name", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var found *Leaf
			for _, l := range Leaves(test.state) {
				if l.Value == "canary-one" {
					found = &l
					break
				}
			}
			if found == nil || found.Path != test.path || found.Protected != test.protected {
				t.Fatalf("found %+v", found)
			}
			changed := expect.Must(State(test.state, fmt.Sprintf("set %s %q", found.Path, "canary-two")))(t)
			var again []string
			for _, l := range Leaves(changed) {
				again = append(again, fmt.Sprint(l.Value))
			}
			if all := strings.Join(again, " "); !strings.Contains(all, "canary-two") || strings.Contains(all, "canary-one") &&
				test.name != "JWT" {
				t.Errorf("changed: %s", all)
			}
		})
	}
}

func TestAJWTMayBeUnsigned(t *testing.T) {
	t.Parallel()
	enc := base64.RawURLEncoding.EncodeToString
	state := enc([]byte(`{"alg":"HS256"}`)) + "." + enc([]byte(`{"name":"a"}`)) + ".q7Jm2xY9f0Zk3LrT8vB1nW5cH4dG6sPa"
	changed, err := State(state, `set unsigned:base64url:/name "b"`)
	want := enc([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + enc([]byte(`{"name":"b"}`)) + "."
	if err != nil || changed != want {
		t.Errorf("got %s, %v", changed, err)
	}
}

// A text is replaced wherever it can be read, and a state that is the text itself is replaced whole.
func TestATextIsSwapped(t *testing.T) {
	t.Parallel()
	enc := base64.StdEncoding.EncodeToString
	for _, test := range []struct{ state, texts, want string }{
		{"ord-1001", `"ord-1001" "ord-1002"`, "ord-1002"},
		{"0b0e7a54-6b0f-4b6f-9d38-2f5a3c1d8e77", `"0b0e7a54-6b0f-4b6f-9d38-2f5a3c1d8e77" "other"`, "other"},
		{"cancel:ord-1001", `"ord-1001" "ord-1002"`, "cancel:ord-1002"},
		{enc([]byte(`{"id":7,"of":"order 17","n":17}`)), `"17" "18"`, enc([]byte(`{"id":7,"of":"order 17","n":18}`))},
		{enc([]byte(`{"a":"ord-1001","b":["x ord-1001"]}`)), `"ord-1001" "ord-1002"`,
			enc([]byte(`{"a":"ord-1002","b":["x ord-1002"]}`))},
		{"ord-1001", `"ord-9999" "ord-1002"`, ""},
		{"ord-1001", `"ord-1001"`, ""},
	} {
		if got, err := State(test.state, "swap "+test.texts); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s %s: %q, %v", test.state, test.texts, got, err)
		}
	}
}

// A time is one value, and a query keeps the form in which it was written.
func TestTimesAreNotSplit(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"until=2026-11-26T07:37:58Z&ask=greet": "until=x&ask=greet", "2026-11-26T07:37:58Z": "x",
		"greet 2026-11-26T07:37:58.5+01:00": "greet x", "a=%41": "a=x",
	} {
		i := slices.IndexFunc(Leaves(state), func(l Leaf) bool {
			text, _ := l.Value.(string)
			return strings.HasPrefix(text, "2026-") || text == "A"
		})
		if i < 0 {
			t.Errorf("%s: %+v", state, Leaves(state))
		} else if got := Leaves(state)[i].With(`"x"`); got != want {
			t.Errorf("%s: %s", state, got)
		}
	}
}

func TestSealedStatesHaveNoLeaves(t *testing.T) {
	t.Parallel()
	for _, state := range []string{
		"abk1.q7Jm2xY9f0Zk3LrT8vB1nW5cH4dG6sPaXe", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"0b0e7a54-6b0f-4b6f-9d38-2f5a3c1d8e77", "",
	} {
		for _, l := range Leaves(state) {
			if l.Value != "abk1" {
				t.Errorf("%s: %+v", state, l)
			}
		}
	}
}

func TestChangesOfCharacters(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"eyJhIjoxfQ", "9f86d081884c7d65", `{"a":"b","c":123}`, "a+b/cdefgh=="} {
		for _, how := range append(append(Flips(state, 4), Cuts(state)...), "random 1") {
			changed, err := State(state, how)
			if err != nil || changed == state {
				t.Errorf("%s, %s: %s, %v", state, how, changed, err)
			}
		}
	}
	for _, how := range []string{"", "flip", "flip x", "flip -1", "flip 99", "cut 0", "set", "set /none 1", "fold 1"} {
		if changed, err := State("abcdef", how); err == nil {
			t.Errorf("%q: %s", how, changed)
		}
	}
}

func FuzzState(f *testing.F) {
	f.Add(`{"a":{"b":["c",1,true]}}`, "set /a/b/0 \"x\"")
	f.Add("eyJhIjoxfQ.9f86d081884c7d659a2feaa0c55ad015", "cut 3")
	f.Add("a=b&c=d", "flip 2")
	f.Add(`{"a":"bbbbbb","c":"bbbbbb 2026-11-26T07:37:58Z"}`, `swap "bbbbbb" "x"`)
	f.Fuzz(func(t *testing.T, state, how string) {
		if changed, err := State(state, how); err == nil && changed == state {
			t.Error("unchanged")
		}
		for _, l := range Leaves(state) {
			if _, err := json.Marshal(l.Value); err != nil || strings.Contains(l.Path, " ") {
				t.Errorf("leaf %+v: %v", l, err)
			}
			_ = l.With(`"x"`)
		}
	})
}
