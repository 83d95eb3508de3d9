package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/internal/test/expect"
)

var (
	testNow     = time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	testExpires = testNow.Add(10 * time.Minute)
	testBinding = Binding{
		Audience:  "tracker",
		Principal: "alice@example.com",
		Method:    "tools/call",
		Target:    "update_work_item",
		Arguments: [32]byte{1, 2, 3},
	}
)

func mustRing(t testing.TB, keys ...Key) *Ring {
	t.Helper()
	r := expect.Must(NewRing(keys...))(t)
	return r
}

func mustSeal(t testing.TB, r *Ring, payload string) string {
	t.Helper()
	token := expect.Must(r.Seal(testBinding, []byte(payload), testNow, testExpires))(t)
	return token
}

// reasonOf returns the reason of a refusal, and fails on anything that is not a proper refusal.
func reasonOf(t testing.TB, state *State, err error) Reason {
	t.Helper()
	var refused *OpenError
	if state != nil || !errors.As(err, &refused) || !errors.Is(err, ErrInvalid) {
		t.Fatalf("got state %v and error %v, want no state and an OpenError", state, err)
	}
	return refused.Reason
}

// body returns nonce, ciphertext and tag of a token, and its prefix.
func body(t testing.TB, token string) (prefix string, raw []byte) {
	t.Helper()
	i := strings.LastIndexByte(token, '.') + 1
	raw = expect.Must(base64.RawURLEncoding.DecodeString(token[i:]))(t)
	return token[:i], raw
}

func TestSealThenOpen(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	payload := []byte(`{"round":1}`)
	token, err := r.Seal(testBinding, payload, testNow.Add(1999*time.Microsecond), testExpires.Add(1999*time.Microsecond))
	expect.Check(t, err)
	got := expect.Must(r.Open(token, testBinding, testNow.Add(time.Minute)))(t)
	want := &State{
		ID:      token[13:45],
		KeyID:   r.Keys()[0].ID(),
		Issued:  testNow.Add(time.Millisecond),
		Expires: testExpires.Add(time.Millisecond),
		Binding: testBinding,
		Payload: payload,
	}
	expect.Diff(t, "opened", want, got)
}

func TestEveryTokenIsDifferent(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	seen := map[string]bool{}
	for range 1000 {
		state := expect.Must(r.Open(mustSeal(t, r, "same"), testBinding, testNow))(t)
		if seen[state.ID] {
			t.Fatalf("ID %s came twice", state.ID)
		}
		seen[state.ID] = true
	}
}

func TestOpenRefusesAttacks(t *testing.T) {
	key, otherKey := NewKey(testNow), NewKey(testNow)
	ring, bothKeys := mustRing(t, key), mustRing(t, key, otherKey)
	token := mustSeal(t, ring, "payload")
	prefix, raw := body(t, token)
	encode := base64.RawURLEncoding.EncodeToString

	type attack struct {
		token   string // the genuine one if empty and not said to be
		empty   bool
		ring    *Ring
		binding func(*Binding)
		now     time.Time
		want    Reason
	}
	for name, a := range map[string]attack{
		"empty":                          {empty: true, want: ReasonMalformed},
		"10 MB":                          {token: strings.Repeat("A", 10<<20), want: ReasonTooLarge},
		"10 MB with a genuine beginning": {token: token + strings.Repeat("A", 10<<20), want: ReasonTooLarge},
		"largest size, genuine beginning": {token: token + strings.Repeat("A", MaxTokenSize-len(token)),
			want: ReasonAuthentication},
		"wrong version":        {token: "ab2" + token[3:], want: ReasonVersion},
		"no version":           {token: token[4:], want: ReasonMalformed},
		"other key":            {token: mustSeal(t, mustRing(t, otherKey), "payload"), want: ReasonUnknownKey},
		"ring without the key": {ring: mustRing(t, otherKey), want: ReasonUnknownKey},
		"other key under the name of this": {token: prefix + mustSeal(t, mustRing(t, otherKey), "payload")[len(prefix):],
			want: ReasonAuthentication},
		"relabelled with a known key id": {token: "ab1." + otherKey.ID() + token[12:], ring: bothKeys,
			want: ReasonAuthentication},
		"relabelled with an unknown key id": {token: "ab1.aaaaaaaa" + token[12:], want: ReasonUnknownKey},
		"key id in capitals":                {token: "ab1." + strings.ToUpper(key.ID()) + token[12:], want: ReasonMalformed},
		"all zero body":                     {token: prefix + encode(make([]byte, len(raw))), want: ReasonAuthentication},
		"trailing zero bits in the text":    {token: token + "A", want: ReasonAuthentication},
		"trailing dot":                      {token: token + ".", want: ReasonMalformed},
		"trailing token":                    {token: token + token, want: ReasonMalformed},
		"trailing zero byte decoded": {token: prefix + encode(append(bytes.Clone(raw), 0)),
			want: ReasonAuthentication},
		"trailing NUL":  {token: token + "\x00", want: ReasonMalformed},
		"leading space": {token: " " + token, want: ReasonMalformed},
		"other nonce": {token: prefix + encode(append(make([]byte, nonceSize), raw[nonceSize:]...)),
			want: ReasonAuthentication},
		"other principal": {binding: func(b *Binding) { b.Principal = "mallory@example.com" },
			want: ReasonPrincipal},
		"principal of the same length": {binding: func(b *Binding) { b.Principal = "alicf@example.com" },
			want: ReasonPrincipal},
		"principal in another case": {binding: func(b *Binding) { b.Principal = "Alice@example.com" },
			want: ReasonPrincipal},
		"no principal":         {binding: func(b *Binding) { b.Principal = "" }, want: ReasonPrincipal},
		"principal with a NUL": {binding: func(b *Binding) { b.Principal += "\x00" }, want: ReasonPrincipal},
		"other method":         {binding: func(b *Binding) { b.Method = "prompts/get" }, want: ReasonMethod},
		"other target": {binding: func(b *Binding) { b.Target = "delete_work_item" },
			want: ReasonTarget},
		"other arguments": {binding: func(b *Binding) { b.Arguments[31] = 1 }, want: ReasonArguments},
		"other server":    {binding: func(b *Binding) { b.Audience = "billing" }, want: ReasonAudience},
		"text moved between method, target": {binding: func(b *Binding) {
			b.Method, b.Target = "tools/callu", "pdate_work_item"
		}, want: ReasonMethod},
		"expired at the very millisecond": {now: testExpires, want: ReasonExpired},
		"expired long ago":                {now: testExpires.AddDate(1000, 0, 0), want: ReasonExpired},
		"from the future":                 {now: testNow.Add(-MaxClockSkew - time.Millisecond), want: ReasonFuture},
		"from the far future":             {now: time.Time{}, want: ReasonFuture},
		"stolen and expired counts as theft": {binding: func(b *Binding) { b.Principal = "mallory" }, now: testExpires,
			want: ReasonPrincipal},
	} {
		t.Run(name, func(t *testing.T) {
			b, now, r := testBinding, testNow, ring
			if a.token == "" && !a.empty {
				a.token = token
			}
			if a.binding != nil {
				a.binding(&b)
			}
			if !a.now.IsZero() || a.want == ReasonFuture {
				now = a.now
			}
			if a.ring != nil {
				r = a.ring
			}
			state, err := r.Open(a.token, b, now)
			expect.Equal(t, "refused because", reasonOf(t, state, err), a.want)
		})
	}

	t.Run("the genuine token opens", func(t *testing.T) {
		for _, now := range []time.Time{testNow, testNow.Add(-MaxClockSkew), testExpires.Add(-time.Millisecond)} {
			if _, err := ring.Open(token, testBinding, now); err != nil {
				t.Errorf("at %v: %v", now, err)
			}
		}
	})
}

func TestOpenRefusesEveryFlippedBitOfTheText(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	token := mustSeal(t, r, "payload")
	for i := range len(token) * 8 {
		text := []byte(token)
		text[i/8] ^= 1 << (i % 8)
		state, err := r.Open(string(text), testBinding, testNow)
		switch got := reasonOf(t, state, err); got {
		case ReasonVersion, ReasonMalformed, ReasonUnknownKey, ReasonAuthentication:
		default:
			t.Errorf("bit %d: refused because of %q", i, got)
		}
	}
}

func TestOpenRefusesEveryFlippedBitOfTheBytes(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	prefix, raw := body(t, mustSeal(t, r, "payload"))
	for i := range len(raw) * 8 {
		flipped := bytes.Clone(raw)
		flipped[i/8] ^= 1 << (i % 8)
		state, err := r.Open(prefix+base64.RawURLEncoding.EncodeToString(flipped), testBinding, testNow)
		if got := reasonOf(t, state, err); got != ReasonAuthentication {
			t.Errorf("bit %d: refused because of %q", i, got)
		}
	}
}

func TestOpenRefusesEveryTruncation(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	token := mustSeal(t, r, "payload")
	prefix, raw := body(t, token)
	for n := range token {
		state, err := r.Open(token[:n], testBinding, testNow)
		if got := reasonOf(t, state, err); got != ReasonMalformed && got != ReasonAuthentication {
			t.Errorf("cut to %d characters: refused because of %q", n, got)
		}
		state, err = r.Open(token[n+1:], testBinding, testNow)
		reasonOf(t, state, err)
	}
	for n := range raw {
		state, err := r.Open(prefix+base64.RawURLEncoding.EncodeToString(raw[:n]), testBinding, testNow)
		if got := reasonOf(t, state, err); got != ReasonMalformed && got != ReasonAuthentication {
			t.Errorf("cut to %d bytes: refused because of %q", n, got)
		}
	}
}

func TestOpenRefusesForeignCharactersEverywhere(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	for _, payload := range []string{"", "a", "ab", "abc"} { // every remainder of the base64 text
		token := mustSeal(t, r, payload)
		for _, foreign := range []string{"\n", "\r", "\r\n", "\n\n\n\n", " ", "=", "==", "+", "/", "\x00", "é"} {
			for i := range len(token) + 1 {
				state, err := r.Open(token[:i]+foreign+token[i:], testBinding, testNow)
				if got := reasonOf(t, state, err); got != ReasonMalformed {
					t.Errorf("%q at %d: refused because of %q", foreign, i, got)
				}
			}
		}
	}
}

func TestATokenHasOneSpelling(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, payload := range []string{"", "a", "ab"} {
		token := mustSeal(t, r, payload)
		for _, last := range alphabet {
			respelled := token[:len(token)-1] + string(last)
			if _, err := r.Open(respelled, testBinding, testNow); err == nil && respelled != token {
				t.Errorf("payload %q: %q opens as well as %q", payload, last, token[len(token)-1])
			}
		}
	}
}

func TestKeyUnderAForgedNameAuthenticatesNothing(t *testing.T) {
	key := NewKey(testNow)
	token := mustSeal(t, mustRing(t, key), "payload")

	// No exported function makes such a ring: names are derived.
	forged := mustRing(t, NewKey(testNow))
	forged.load().sealers[0].key.id = key.ID()
	forged.load().sealers[0].prefix = "ab1." + key.ID() + "."
	forged.load().sealers[0].associated = []byte(aadLabel + forged.load().sealers[0].prefix)

	state, err := forged.Open(token, testBinding, testNow)
	expect.Equal(t, "refused because", reasonOf(t, state, err), ReasonAuthentication)
}

func TestHugeTokensCostNothing(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	token := mustSeal(t, r, "payload") + strings.Repeat("A", 10<<20)
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			_, _ = r.Open(token, testBinding, testNow)
		}
	})
	if result.AllocedBytesPerOp() > 1024 || result.NsPerOp() > 100_000 {
		t.Errorf("refusing 10 MB took %d ns and %d bytes", result.NsPerOp(), result.AllocedBytesPerOp())
	}
}

func TestSealRefuses(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	year10000 := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		ring            *Ring
		payload         int
		issued, expires time.Time
		want            string
	}{
		"no keys":                       {&Ring{}, 0, testNow, testExpires, "NewRing"},
		"expiry before issue":           {r, 0, testExpires, testNow, "later"},
		"expiry in the same ms":         {r, 0, testNow, testNow.Add(999 * time.Microsecond), "later"},
		"issued before 1970":            {r, 0, time.Time{}, testNow, "1970"},
		"expires after 9999":            {r, 0, testNow, year10000, "9999"},
		"expires after time's overflow": {r, 0, testNow, time.Unix(math.MaxInt64/2, 0), "9999"},
		"payload of the largest token":  {r, MaxTokenSize, testNow, testExpires, "MaxTokenSize"},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := tt.ring.Seal(testBinding, make([]byte, tt.payload), tt.issued, tt.expires)
			if token != "" || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got a token of %d bytes and error %v, want an error about %s", len(token), err, tt.want)
			}
		})
	}
}

func TestLargestTokenOpens(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	size := 1
	for low, high := 1, MaxTokenSize; low <= high; {
		middle := (low + high) / 2
		if _, err := r.Seal(testBinding, make([]byte, middle), testNow, testExpires); err == nil {
			size, low = middle, middle+1
		} else {
			high = middle - 1
		}
	}
	token, err := r.Seal(testBinding, make([]byte, size), testNow, testExpires)
	if err != nil || len(token) < MaxTokenSize-4 || len(token) > MaxTokenSize {
		t.Fatalf("largest payload %d makes a token of %d bytes, error %v", size, len(token), err)
	}
	if state, err := r.Open(token, testBinding, testNow); err != nil || len(state.Payload) != size {
		t.Errorf("got %v, %v", state, err)
	}
}

func TestInspectIgnoresBindingAndTimesButNotAuthenticity(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	token, err := r.Seal(testBinding, []byte("payload"), time.UnixMilli(0), time.UnixMilli(1))
	expect.Check(t, err)
	state := expect.Must(r.Inspect(token))(t)
	expect.Diff(t, "binding", testBinding, state.Binding)
	state, err = mustRing(t, NewKey(testNow)).Inspect(token)
	expect.Equal(t, "refused because", reasonOf(t, state, err), ReasonUnknownKey)
}

func TestPeek(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	token := mustSeal(t, r, "payload")
	got := expect.Must(Peek(token))(t)
	want := Visible{Version: "ab1", KeyID: r.Keys()[0].ID(), ID: token[13:45],
		Size: plaintextSize(&testBinding, []byte("payload"))}
	expect.Diff(t, "the value", want, got)
	for name, token := range map[string]string{"empty": "", "newline": token + "\n", "version": "ab9.x",
		"no body": token[:13], "huge": strings.Repeat("A", 10<<20)} {
		if got, err := Peek(token); got != (Visible{}) || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestRingIsSafeForConcurrentUse(t *testing.T) {
	r := mustRing(t, NewKey(testNow), NewKey(testNow))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			payload := fmt.Sprint("payload ", i)
			for range 200 {
				token, err := r.Seal(testBinding, []byte(payload), testNow, testExpires)
				if err != nil {
					t.Error(err)
					return
				}
				state, err := r.Open(token, testBinding, testNow)
				if err != nil || string(state.Payload) != payload {
					t.Errorf("got %v, %v", state, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func genBinding() *rapid.Generator[Binding] {
	return rapid.Custom(func(t *rapid.T) Binding {
		// Few letters, so that bindings collide and differ by little.
		text := rapid.OneOf(rapid.StringMatching(`[ab]{0,3}`), rapid.String(), rapid.StringN(126, 130, -1))
		return Binding{
			Audience:  text.Draw(t, "audience"),
			Principal: text.Draw(t, "principal"),
			Method:    text.Draw(t, "method"),
			Target:    text.Draw(t, "target"),
			Arguments: [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "arguments")),
		}
	})
}

// What was sealed opens to the same under the same binding, and under no other one.
func TestRoundTripProperty(t *testing.T) {
	ring := mustRing(t, NewKey(testNow), NewKey(testNow))
	rapid.Check(t, func(t *rapid.T) {
		sealed, presented := genBinding().Draw(t, "sealed"), genBinding().Draw(t, "presented")
		for _, same := range []func(){
			func() { presented.Audience = sealed.Audience },
			func() { presented.Principal = sealed.Principal },
			func() { presented.Method = sealed.Method },
			func() { presented.Target = sealed.Target },
			func() { presented.Arguments = sealed.Arguments },
		} {
			if rapid.IntRange(0, 4).Draw(t, "differs") > 0 {
				same()
			}
		}
		payload := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "payload")
		issued := rapid.Int64Range(0, maxMillis-1).Draw(t, "issued")
		expires := rapid.Int64Range(issued+1, maxMillis).Draw(t, "expires")
		now := rapid.OneOf(
			rapid.Int64Range(issued-70_000, issued+1),
			rapid.Int64Range(expires-1, expires+1),
			rapid.Int64Range(issued, expires),
		).Draw(t, "now")

		var want Reason
		switch {
		case sealed.Audience != presented.Audience:
			want = ReasonAudience
		case sealed.Principal != presented.Principal:
			want = ReasonPrincipal
		case sealed.Method != presented.Method:
			want = ReasonMethod
		case sealed.Target != presented.Target:
			want = ReasonTarget
		case sealed.Arguments != presented.Arguments:
			want = ReasonArguments
		case now < issued-60_000:
			want = ReasonFuture
		case now >= expires:
			want = ReasonExpired
		}

		token, err := ring.Seal(sealed, payload, time.UnixMilli(issued), time.UnixMilli(expires))
		if err != nil {
			t.Fatal(err)
		}
		state, err := ring.Open(token, presented, time.UnixMilli(now))
		if want != "" {
			var refused *OpenError
			if state != nil || !errors.As(err, &refused) || refused.Reason != want {
				t.Fatalf("got %v, %v, want a refusal because of %q", state, err, want)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(state.Payload, payload) || state.Binding != sealed || state.Issued.UnixMilli() != issued ||
			state.Expires.UnixMilli() != expires {
			t.Fatalf("opened to something else: %v", state)
		}
	})
}

func FuzzOpen(f *testing.F) {
	// The ring's key never seals here, so nothing may open. The seeds get as far as a forgery can: past the key id.
	r := mustRing(f, newKey([32]byte{1}, testNow))
	prefix := r.load().sealers[0].prefix
	forger := mustRing(f, newKey([32]byte{2}, testNow))
	for _, payload := range []string{"", "a", "payload", strings.Repeat("long ", 100)} {
		token := mustSeal(f, forger, payload)
		f.Add(token)
		f.Add(prefix + token[len(prefix):])
		f.Add(prefix + token[len(prefix):] + "\n")
		f.Add(token[:len(token)/2])
	}
	for _, s := range []string{"", "ab1", "ab1.", "ab2.x.y", prefix, prefix + "====", "ab1..", "a.b.c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		state, err := r.Open(token, testBinding, testNow)
		reasonOf(t, state, err)
		state, err = r.Inspect(token)
		reasonOf(t, state, err)
		if v, err := Peek(token); err == nil &&
			(!isKeyID(v.KeyID) || v.Size < minPlaintext || !strings.HasPrefix(token, "ab1."+v.KeyID+"."+v.ID)) {
			t.Errorf("peeked %+v", v)
		}
	})
}

// The layout accepts nothing that it would not write itself.
func FuzzPlaintext(f *testing.F) {
	f.Add(appendPlaintext(nil, &testBinding, []byte("payload"), testNow, testExpires))
	f.Add(appendPlaintext(nil, &Binding{Target: strings.Repeat("x", 300)}, nil, testNow, testExpires))
	f.Add(make([]byte, minPlaintext))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, ok := parsePlaintext(text)
		if !ok {
			return
		}
		b := Binding{string(p.audience), string(p.principal), string(p.method), string(p.target), [32]byte(p.arguments)}
		again := appendPlaintext(nil, &b, p.payload, time.UnixMilli(p.issued), time.UnixMilli(p.expires))
		if !bytes.Equal(text, again) || plaintextSize(&b, p.payload) != len(text) {
			t.Errorf("%x was read, but is written as %x", text, again)
		}
	})
}

func benchmarkSizes(b *testing.B, run func(b *testing.B, r *Ring, payload []byte)) {
	r := mustRing(b, NewKey(testNow), NewKey(testNow))
	for _, size := range []int{300, 3_000, 30_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			run(b, r, bytes.Repeat([]byte{'x'}, size))
		})
	}
}

func BenchmarkSeal(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, r *Ring, payload []byte) {
		for b.Loop() {
			if _, err := r.Seal(testBinding, payload, testNow, testExpires); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, r *Ring, payload []byte) {
		token := mustSeal(b, r, string(payload))
		for b.Loop() {
			if _, err := r.Open(token, testBinding, testNow); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestALogCutsNoCharacter(t *testing.T) {
	state := State{Binding: Binding{Audience: "x" + strings.Repeat("ø", 40)}}
	if got := state.String(); !strings.Contains(got, strings.Repeat("ø", 31)+`"…`) || strings.Contains(got, `\x`) {
		t.Errorf("got %s", got)
	}
}
