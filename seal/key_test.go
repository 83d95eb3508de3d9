package seal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/internal/test/expect"
)

var testSecret = [keySize]byte([]byte("\xf0\xe1\xd2\xc3THIS KEY IS SECRET\xb4\xa5\x96\x87!!!!!!"))

// spellings are the ways in which a secret has turned up in logs before.
func spellings(secret []byte) map[string]string {
	decimals := strings.Trim(fmt.Sprint(secret[:8]), "[]")
	return map[string]string{
		"raw":                     string(secret[:8]),
		"hexadecimal":             hex.EncodeToString(secret[:8]),
		"base64url":               bodyEncoding.EncodeToString(secret)[:12],
		"decimal":                 decimals,
		"decimal, as JSON":        strings.ReplaceAll(decimals, " ", ","),
		"Go syntax":               strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", secret[:8]), "[]byte{"), "}"),
		"quoted":                  strings.Trim(fmt.Sprintf("%q", secret[:8]), `"`),
		"hexadecimal in capitals": strings.ToUpper(hex.EncodeToString(secret[:8])),
	}
}

func TestPrintingShowsNoSecret(t *testing.T) {
	secret := testSecret
	key := newKey(secret, testNow)
	ring := mustRing(t, key)
	payload := []byte("THE PAYLOAD IS SECRET")
	state := expect.Must(ring.Open(mustSeal(t, ring, string(payload)), testBinding, testNow))(t)
	// The fields of a foreign struct, where fmt asks no methods.
	type hidden struct {
		key     Key
		pointer *Key
		keys    []Key
		ring    *Ring
		value   Ring
	}
	foreign := hidden{key, &key, ring.Keys(), ring, *ring}

	printed := map[string]string{}
	for name, value := range map[string]any{
		"key":            key,
		"pointer to key": &key,
		"slice of keys":  ring.Keys(),
		"map of keys":    map[string]Key{"k": key},
		"ring":           ring,
		"ring value":     *ring,
		"state":          state,
		"state value":    *state,
		"exported fields": struct {
			Key   Key
			Ring  *Ring
			Value Ring
			State *State
		}{key, ring, *ring, state},
		"unexported fields":            foreign,
		"pointer to unexported fields": &foreign,
	} {
		verbs := []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%U", "%b", "%o", "%T", "%10.3v"}
		if !strings.Contains(name, "state") { // fmt asks no method for %w
			verbs = append(verbs, "%w")
		}
		for _, verb := range verbs {
			printed[name+" with "+verb] = fmt.Sprintf(verb, value)
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "value", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", key, "ring", ring)
		printed[name+" in slog"] = log.String()
		if !strings.Contains(name, "state") && !strings.Contains(name, "exported") { // a payload in JSON is asked for
			text := expect.Must(json.Marshal(value))(t)
			printed[name+" in JSON"] = string(text)
		}
	}
	for where, text := range printed {
		for kind, spelling := range spellings(secret[:]) {
			if strings.Contains(text, spelling) {
				t.Errorf("%s: shows the key's secret, %s: %s", where, kind, text)
			}
		}
		for kind, spelling := range spellings(payload) {
			if strings.Contains(text, spelling) {
				t.Errorf("%s: shows the payload, %s: %s", where, kind, text)
			}
		}
		if strings.Contains(text, testBinding.Principal) {
			t.Errorf("%s: shows the principal: %s", where, text)
		}
	}
	want := "seal.Key(" + key.ID() + ", created 2026-11-20T11:00:00Z)"
	text := expect.Must(json.Marshal(key))(t)
	for how, got := range map[string]string{
		"%v": fmt.Sprintf("%v", key), "%#v": fmt.Sprintf("%#v", key), "%x": fmt.Sprintf("%x", key),
		"slog": key.LogValue().String(), "JSON": strings.Trim(string(text), `"`),
	} {
		if got != want {
			t.Errorf("with %s the key prints as %s, want %s", how, got, want)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%d"} {
		if got := fmt.Sprintf(verb, ring); got != "seal.Ring("+want+")" {
			t.Errorf("with %s the ring prints as %s, want seal.Ring(%s)", verb, got, want)
		}
	}
	if !strings.Contains(key.EncodeSecret(), bodyEncoding.EncodeToString(secret[:])) {
		t.Error("EncodeSecret does not write the secret, so this test tests nothing")
	}
}

func TestErrorsShowNoSecret(t *testing.T) {
	secret := [keySize]byte([]byte("THIS KEY IS SECRET AND SHALL NOT"))
	ring := mustRing(t, newKey(secret, testNow))
	sealed := Binding{Audience: "tracker", Principal: "PRINCIPAL-SEALED", Method: "tools/call", Target: "TARGET-SEALED"}
	presented := Binding{Audience: "tracker", Principal: "PRINCIPAL-PRESENTED", Method: "tools/call",
		Target: "TARGET-PRESENTED"}
	token := expect.Must(ring.Seal(sealed, []byte("PAYLOAD"), testNow, testExpires))(t)
	seen := map[Reason]bool{}
	for _, token := range []string{
		token, token + "\n", token + "!", token[:40], "x" + token, "ab7" + token[3:], "ab1.aaaaaaaa" + token[12:],
		token[:60] + "AAAA" + token[64:], token + strings.Repeat("A", MaxTokenSize),
	} {
		for _, b := range []Binding{
			presented, {}, {Audience: "tracker", Principal: sealed.Principal, Target: presented.Target},
			{Audience: "tracker", Principal: sealed.Principal, Method: "tools/call", Target: presented.Target},
			{Audience: "tracker", Principal: sealed.Principal, Method: "tools/call", Target: sealed.Target,
				Arguments: [32]byte{1}},
			sealed,
		} {
			for _, now := range []time.Time{testExpires, testNow.Add(-time.Hour)} {
				state, err := ring.Open(token, b, now)
				seen[reasonOf(t, state, err)] = true
				text := fmt.Sprintf("%v %+v %s", err, err, errors.Unwrap(err))
				for _, secret := range []string{"PRINCIPAL", "TARGET", "PAYLOAD", "SECRET", token[13:min(len(token), 25)]} {
					if strings.Contains(text, secret) {
						t.Errorf("shows %s: %s", secret, text)
					}
				}
			}
		}
	}
	if len(seen) != 12 {
		t.Errorf("saw only the reasons %v, want all 12", seen)
	}
}

func TestErrorsQuoteForeignText(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	token := mustSeal(t, r, "")
	b := testBinding
	b.Audience = "x\nlevel=ERROR msg=forged " + strings.Repeat("y", 10_000)
	_, err := r.Open(token, b, testNow)
	if text := err.Error(); strings.Contains(text, "\n") || len(text) > 500 {
		t.Errorf("an audience forges or floods the log: %.600s", text)
	}
}

func TestZeroKey(t *testing.T) {
	var k Key
	if k.ID() != "" || !k.Created().IsZero() || k.EncodeSecret() != "" || k.String() != "seal.Key(none)" {
		t.Errorf("got %q, %v, %q, %v", k.ID(), k.Created(), k.EncodeSecret(), k)
	}
}

func TestNewRingRefuses(t *testing.T) {
	key := NewKey(testNow)
	for name, keys := range map[string][]Key{
		"no key":       {},
		"the zero key": {key, {}},
		"a key twice":  {key, NewKey(testNow), key},
	} {
		if r, err := NewRing(keys...); r != nil || err == nil {
			t.Errorf("%s: got %v, %v, want an error", name, r, err)
		}
	}
}

func TestRingDoesNotShareItsKeys(t *testing.T) {
	a, b := NewKey(testNow), NewKey(testNow)
	keys := []Key{a, b}
	r := mustRing(t, keys...)
	keys[0] = b
	r.Keys()[0] = b
	if got := r.Keys()[0]; got.ID() != a.ID() {
		t.Errorf("the ring begins with %v after its caller changed a slice, want %v", got, a)
	}
}

func TestParseRing(t *testing.T) {
	a := newKey([32]byte{1}, testNow)
	b := newKey([32]byte{2}, testNow.Add(time.Hour))
	at, bt := a.EncodeSecret(), b.EncodeSecret()
	for name, tt := range map[string]struct {
		text     string
		want     []Key
		switched bool
	}{
		"one key":                    {at, []Key{a}, false},
		"order is kept":              {bt + "\n" + at + "\n", []Key{b, a}, false},
		"commas":                     {at + "," + bt, []Key{a, b}, false},
		"commas and space":           {" " + at + " ,\t" + bt + ",", []Key{a, b}, false},
		"line ends of Windows":       {"\ufeff# keys\r\n" + at + "\r\n\r\n" + bt + "\r\n", []Key{a, b}, false},
		"comments":                   {"#" + bt + "\n" + at + "# " + bt + "\n  # x", []Key{a}, false},
		"switched":                   {"switched=20261120T120000Z " + at + " " + bt, []Key{a, b}, true},
		"switched in the last place": {at + " " + bt + ",switched=20261120T120000Z", []Key{a, b}, true},
		"written by EncodeSecrets":   {mustRing(t, a, b).EncodeSecrets(), []Key{a, b}, false},
		"its line ends turned to CRs": {strings.ReplaceAll(mustRing(t, a, b).EncodeSecrets(), "\n", "\r\n"),
			[]Key{a, b}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := expect.Must(ParseRing(tt.text))(t)
			expect.Diff(t, "keys", secrets(tt.want), secrets(r.Keys()))
			if r.load().switched.IsZero() == tt.switched {
				t.Errorf("switched at %v", r.load().switched)
			}
		})
	}
}

func secrets(keys []Key) (texts []string) {
	for _, k := range keys {
		texts = append(texts, k.EncodeSecret())
	}
	return texts
}

func TestParseRingRefuses(t *testing.T) {
	a, b := newKey(testSecret, testNow), newKey([32]byte{2}, testNow)
	at, bt := a.EncodeSecret(), b.EncodeSecret()
	secret := at[len(at)-43:]
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":                {"", "no key"},
		"white space":            {" \n,\n", "no key"},
		"lost line breaks":       {strings.ReplaceAll(mustRing(t, a).EncodeSecrets(), "\n", " "), "lost its line breaks"},
		"something else":         {"\n\nAWS_SECRET_" + secret, "line 3, entry 1: does not begin"},
		"second entry":           {at + " " + secret, "line 1, entry 2: does not begin"},
		"key after CRs":          {"# x\r\n" + at + "\r\n" + secret, "line 3, entry 1"},
		"other format":           {strings.Replace(at, "key-1", "key-2", 1), "format other than"},
		"no secret":              {"askback-key-1_20261120T110000Z", "ends before its secret"},
		"time with fractions":    {"askback-key-1_20261120T110000.5Z_" + secret, "time of creation"},
		"time that never was":    {"askback-key-1_20261320T110000Z_" + secret, "time of creation"},
		"secret instead of time": {"askback-key-1_" + secret + "_x", "time of creation"},
		"secret cut off":         {at[:len(at)-1], "42 characters, want 43"},
		"secret grown":           {at + "A", "44 characters, want 43"},
		"two keys glued":         {at + at, "want 43"},
		"padding":                {at + "=", "44 characters"},
		"unused bits":            {at[:len(at)-1] + "B", "was altered"},
		"foreign character":      {at[:len(at)-2] + "+A", "was altered"},
		"placeholder":            {"askback-key-1_20261120T110000Z_" + strings.Repeat("A", 43), "placeholder"},
		"twice": {at + "\n" + bt + "\n\n" + at, "line 4, entry 1: key " + a.ID() +
			" is already on line 1, entry 1"},
		"switched without time": {"switched= " + at, "line 1, entry 1: want switched="},
		"switched twice": {"switched=20261120T120000Z\nswitched=20261120T120000Z " + at,
			"line 2, entry 1: a second switched="},
		"revoked without time": {at + "\nrevoked=now", "line 2, entry 1: want revoked="},
		"revoked twice": {"revoked=20261120T120000Z,revoked=20261120T120000Z " + at,
			"line 1, entry 2: a second revoked="},
		"an unknown entry":     {at + " expires=20261120T120000Z", "line 1, entry 2: does not begin"},
		"other letters":        {strings.ToUpper(at), "does not begin"},
		"separator of Unicode": {at + "\u00a0" + bt, "want 43"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ParseRing(tt.text)
			if r != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, %v, want an error with %q", r, err, tt.want)
			}
			for kind, spelling := range spellings(testSecret[:]) {
				if strings.Contains(err.Error(), spelling) {
					t.Errorf("shows the secret, %s: %v", kind, err)
				}
			}
			if strings.Contains(err.Error(), secret[:6]) || strings.Contains(err.Error(), "AWS") {
				t.Errorf("shows a part of the text: %v", err)
			}
		})
	}
}

func TestEncodeSecretsExplainsEachKey(t *testing.T) {
	old := newKey([32]byte{1}, testNow.Add(-time.Hour))
	current := newKey([32]byte{2}, testNow)
	learned := newKey([32]byte{3}, testNow.Add(time.Hour))
	r := expect.Must(newRing(testNow, current, old, learned))(t)
	want := `# Askback keys. Secret: who reads this file can read and forge requestState.
# The first key seals, all of them open. Every instance needs the same file.
# The last line is "# end of keys".
switched=20261120T110000Z

# ` + current.ID() + `: seals and opens
` + current.EncodeSecret() + `

# ` + old.ID() + `: opens what it sealed before
` + old.EncodeSecret() + `

# ` + learned.ID() + `: opens; to seal after the switch
` + learned.EncodeSecret() + "\n\n# end of keys\n"
	expect.Diff(t, "the value", want, r.EncodeSecrets())
}

// What EncodeSecrets writes, ParseRing reads, whatever is in the ring.
func TestKeyFileProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secretList := rapid.SliceOfNDistinct(rapid.SliceOfN(rapid.Byte(), keySize, keySize), 1, 5, func(b []byte) string {
			return string(b)
		}).
			Filter(func(l [][]byte) bool {
				for _, b := range l {
					if [keySize]byte(b) == [keySize]byte{} {
						return false
					}
				}
				return true
			}).Draw(t, "secrets")
		moment := rapid.Map(rapid.Int64Range(-62135596800, 253402300799), func(s int64) time.Time { return time.Unix(s, 0) })
		var keys []Key
		for _, secret := range secretList {
			keys = append(keys, newKey([keySize]byte(secret), moment.Draw(t, "created")))
		}
		r, err := newRing(moment.Draw(t, "switched"), keys...)
		if err != nil {
			t.Fatal(err)
		}
		r = r.RevokeBefore(moment.Draw(t, "revoked"))
		again, err := ParseRing(r.EncodeSecrets())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.EncodeSecrets(), again.EncodeSecrets()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func FuzzParseRing(f *testing.F) {
	a, b := newKey([32]byte{1}, testNow), newKey([32]byte{2}, testNow)
	f.Add(mustRing(f, a, b).EncodeSecrets())
	f.Add("switched=20261120T120000Z," + a.EncodeSecret() + ", " + b.EncodeSecret())
	f.Add("revoked=20261120T120000Z\n" + a.EncodeSecret())
	f.Add(a.EncodeSecret()[:40])
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRing(text)
		if err != nil {
			return
		}
		again, err := ParseRing(r.EncodeSecrets())
		if err != nil || again.EncodeSecrets() != r.EncodeSecrets() {
			t.Errorf("%q is read, but not after it was written again: %v", text, err)
		}
	})
}
