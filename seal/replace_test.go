package seal

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// openReason opens a token and returns the reason of its refusal, or "" if it opens.
func openReason(t testing.TB, r *Ring, token string, now time.Time) Reason {
	t.Helper()
	state, err := r.Open(token, testBinding, now)
	if err == nil {
		return ""
	}
	return reasonOf(t, state, err)
}

// Every token of a rotation opens on the ring that a server goes on using, until its key is forgotten.
func TestReplaceRotates(t *testing.T) {
	r := mustRing(t, NewKey(testNow.Add(-time.Hour)))
	copied := *r
	var tokens []string
	for _, tt := range []struct {
		step  Step
		opens []bool // of the tokens sealed so far
	}{
		{StepLearn, []bool{true}},
		{StepSwitch, []bool{true, true}},
		{StepForget, []bool{false, false, true}},
	} {
		tokens = append(tokens, mustSeal(t, r, "payload"))
		next, step, err := r.Rotate(testNow, 0)
		if err != nil || step != tt.step {
			t.Fatalf("step %s, error %v, want %s", step, err, tt.step)
		}
		before := next.String()
		expect.Check(t, r.Replace(next))
		if r.String() != before || next.String() != before || copied.String() != before {
			t.Errorf("%s: the ring is %s, its copy %s, want %s", step, r, copied, before)
		}
		for n, token := range tokens {
			want := ReasonUnknownKey
			if tt.opens[n] {
				want = ""
			}
			if got := openReason(t, r, token, testNow); got != want {
				t.Errorf("%s: token %d: %q, want %q", step, n, got, want)
			}
		}
	}
}

// A ring of which the keys are replaced is independent of the one that they came from.
func TestReplaceCopies(t *testing.T) {
	a, b, c := mustRing(t, NewKey(testNow)), mustRing(t, NewKey(testNow)), mustRing(t, NewKey(testNow))
	want := c.String()
	for _, replace := range [][2]*Ring{{a, b}, {b, c}, {a, a}, {a, c}, {c, b}} {
		expect.Check(t, replace[0].Replace(replace[1]))
	}
	if got := []string{a.String(), b.String(), c.String()}; !cmp.Equal(got, []string{want, want, want}) {
		t.Errorf("%q", got)
	}
}

func TestReplaceRefusesEmptyRings(t *testing.T) {
	r := mustRing(t, NewKey(testNow))
	want := r.String()
	for name, err := range map[string]error{
		"by nil":      r.Replace(nil),
		"by the zero": r.Replace(new(Ring)),
		"of the zero": new(Ring).Replace(r),
	} {
		expect.Fails(t, name, err, "NewRing")
	}
	if r.String() != want {
		t.Errorf("the ring became %s", r)
	}
}

// Tokens are sealed and opened while keys are replaced: with -race, and without a refusal.
func TestReplaceWhileInUse(t *testing.T) {
	a, b := NewKey(testNow), NewKey(testNow.Add(time.Second))
	rings := []*Ring{mustRing(t, a, b), mustRing(t, b, a)}
	r := mustRing(t, a, b)
	stop := make(chan struct{})
	var replacing, using sync.WaitGroup
	replacing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := r.Replace(rings[n%2]); err != nil {
				t.Error(err)
			}
		}
	})
	for range 4 {
		using.Go(func() {
			for range 500 {
				token, err := r.Seal(testBinding, []byte("payload"), testNow, testExpires)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := r.Open(token, testBinding, testNow); err != nil {
					t.Error(err)
				}
				expect.Equal(t, "keys", len(r.Keys()), 2)
				_, _ = r.EncodeSecrets(), r.String()
			}
		})
	}
	using.Wait()
	close(stop)
	replacing.Wait()
}

func TestRevoke(t *testing.T) {
	r := mustRing(t, NewKey(testNow.Add(-time.Hour)))
	token := mustSeal(t, r, "payload") // issued at testNow
	for name, tt := range map[string]struct {
		before time.Time
		now    time.Time
		want   Reason
	}{
		"issued at that very time":     {before: testNow, want: ""},
		"issued before":                {before: testNow.Add(time.Second), want: ReasonRevoked},
		"issued in the second before":  {before: testNow.Add(time.Millisecond), want: ReasonRevoked},
		"issued after":                 {before: testNow.Add(-time.Second), want: ""},
		"no time":                      {before: time.Time{}, want: ""},
		"expired, too":                 {before: testNow.Add(time.Hour), now: testExpires, want: ReasonExpired},
		"revoked for the whole future": {before: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), want: ReasonRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			now := tt.now
			if now.IsZero() {
				now = testNow
			}
			revoking := r.RevokeBefore(tt.before)
			expect.Equal(t, "openReason(t, revoking, token, now)", openReason(t, revoking, token, now), tt.want)
			if _, err := revoking.Inspect(token); err != nil {
				t.Errorf("an operator cannot inspect it: %v", err)
			}
			again, err := ParseRing(revoking.EncodeSecrets())
			if err != nil || !again.Revoked().Equal(revoking.Revoked()) {
				t.Errorf("written and read: %v, %v, want %v", again.Revoked(), err, revoking.Revoked())
			}
			if !r.Revoked().IsZero() || openReason(t, r, token, testNow) != "" {
				t.Error("the receiver has changed")
			}
		})
	}
}

// Neither an earlier time nor a rotation accepts again what was revoked.
func TestRevocationStays(t *testing.T) {
	r := mustRing(t, NewKey(testNow.Add(-time.Hour))).RevokeBefore(testNow.Add(time.Second))
	token := mustSeal(t, r, "payload")
	check := func(when string) {
		t.Helper()
		expect.Equal(t, when, openReason(t, r, token, testNow), ReasonRevoked)
	}
	check("at first")
	r = r.RevokeBefore(testNow)
	check("after an earlier time")
	for range 2 {
		next, step, err := r.Rotate(testNow, 0)
		expect.Check(t, err)
		r = next
		check(fmt.Sprint("after ", step))
	}
	next, _, err := r.Rotate(testNow, 0)
	if err != nil || !next.Revoked().Equal(r.Revoked()) {
		t.Errorf("after forget: %v, %v", next.Revoked(), err)
	}
	if _, err := mustRing(t, NewKey(testNow)).RevokeBefore(testNow).Seal(testBinding, nil, testNow,
		testExpires); err != nil {
		t.Error(err)
	}
}

// A revocation is exact to the millisecond: it refuses the last token that was issued before it, and not the first
// after.
func TestRevocationIsExact(t *testing.T) {
	at := testNow.Add(time.Minute)
	r := mustRing(t, NewKey(testNow.Add(-time.Hour)))
	revoking := r.RevokeBefore(at)
	for off, want := range map[time.Duration]Reason{
		-time.Second:            ReasonRevoked,
		-999 * time.Millisecond: ReasonRevoked,
		-time.Millisecond:       ReasonRevoked,
		0:                       "",
		time.Millisecond:        "",
		time.Second:             "",
	} {
		token := expect.Must(r.Seal(testBinding, nil, at.Add(off), testExpires))(t)
		if got := openReason(t, revoking, token, at.Add(off)); got != want {
			t.Errorf("issued %v after the revocation: %q, want %q", off, got, want)
		}
	}
}
