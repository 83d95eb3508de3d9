package tasks

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func encodeCursor(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// A cursor that is not this server's is refused before it reaches a store, which may not know its time or text.
func TestCursors(t *testing.T) {
	for text, want := range map[string]bool{
		"0.ABC":                          true,
		"1795300000000.ABC":              true,
		"253402300799000.ABC":            true,
		"253402300800000.ABC":            false, // the year 10000
		"10130000000000000.ABC":          false, // the year 323000, which PostgreSQL does not have
		fmt.Sprint(int64(1)<<62, ".ABC"): false,
		"9223372036854775808.ABC":        false,
		"-1.ABC":                         false,
		"-62135596800000.ABC":            false,
		"1.\x00":                         false,
		"1.\xff":                         false,
		"ABC":                            false,
		".":                              false,
		"":                               false,
		"0." + strings.Repeat("A", 190):  true, // the longest cursor: 256 characters
		"0." + strings.Repeat("A", 191):  false,
	} {
		raw, _ := json.Marshal(encodeCursor(text))
		place, fault := parseCursor(raw)
		if want != (fault == nil) || want != (place != nil) {
			t.Errorf("%q: %v, %v", text, place, fault)
		}
	}
}

// Whatever else a client sends is no cursor either, except null, which is the start.
func TestCursorsThatAreNone(t *testing.T) {
	for raw, want := range map[string]bool{`null`: true, `7`: false, `true`: false, `{}`: false, `"!"`: false,
		`"MC5BQkM="`: false} {
		place, fault := parseCursor([]byte(raw))
		if place != nil || want != (fault == nil) {
			t.Errorf("%s: %v, %v", raw, place, fault)
		} else if fault != nil && fault.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", raw, fault)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	for _, text := range []string{"1795300000000.ABC", "10130000000000000.x", "-1.", "1.\x00", ".", "+1.a", "01.a"} {
		raw, _ := json.Marshal(encodeCursor(text))
		f.Add(raw)
	}
	f.Add([]byte(`null`))
	f.Add([]byte(`7`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // params are checked JSON
		}
		place, fault := parseCursor(raw)
		switch {
		case fault != nil:
			if fault.Code != jsonrpc.CodeInvalidParams || place != nil {
				t.Errorf("%q: %v, %v", raw, place, fault)
			}
		case place != nil:
			if y := place.Created.UTC().Year(); y < 1970 || y > 9999 || place.Created.After(time.UnixMilli(lastCursor)) ||
				!utf8.ValidString(place.ID) || strings.Contains(place.ID, "\x00") || len(place.ID) > 256 {
				t.Errorf("%q: %+v", raw, place)
			}
		}
	})
}
