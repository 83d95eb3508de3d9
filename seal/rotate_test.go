package seal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func ids(r *Ring) (ids []string) {
	for _, k := range r.Keys() {
		ids = append(ids, k.ID())
	}
	return ids
}

func TestRotateTakesThreeSteps(t *testing.T) {
	const wait = 24 * time.Hour
	now := testNow
	old := newKey([32]byte{1}, now.AddDate(-1, 0, 0))
	r := mustRing(t, old)

	take := func(want Step, order func(newest string) []string) {
		t.Helper()
		next, step, err := r.Rotate(now, wait)
		expect.Check(t, err)
		newest := next.Keys()[0].ID()
		if step == StepLearn {
			newest = next.Keys()[1].ID()
		}
		if diff := cmp.Diff(order(newest), ids(next)); step != want || diff != "" {
			t.Errorf("step %q, want %q; keys (-want +got):\n%s", step, want, diff)
		}
		// Through the file, as the command does it.
		if r, err = ParseRing(next.EncodeSecrets()); err != nil {
			t.Fatal(err)
		}
	}
	tooEarly := func() {
		t.Helper()
		now = now.Add(wait - time.Second)
		if next, step, err := r.Rotate(now, wait); next != nil || step != "" || !errors.Is(err, ErrTooEarly) {
			t.Errorf("got %v, %q, %v, want ErrTooEarly", next, step, err)
		} else if due := now.Add(time.Second).Format(time.RFC3339); !strings.Contains(err.Error(), due) {
			t.Errorf("%q does not say that the step is due at %s", err, due)
		}
		now = now.Add(time.Second)
	}

	take(StepLearn, func(newest string) []string { return []string{old.ID(), newest} })
	tooEarly()
	take(StepSwitch, func(newest string) []string { return []string{newest, old.ID()} })
	tooEarly()
	take(StepForget, func(newest string) []string { return []string{newest} })
	take(StepLearn, func(newest string) []string { return []string{ids(r)[0], newest} })
}

func TestRotateLeavesTheReceiverAlone(t *testing.T) {
	r := mustRing(t, newKey([32]byte{1}, testNow), newKey([32]byte{2}, testNow.Add(time.Hour)),
		newKey([32]byte{3}, testNow.Add(time.Minute)))
	before := r.EncodeSecrets()
	for range 3 {
		if _, _, err := r.Rotate(testNow, 0); err != nil {
			t.Fatal(err)
		}
	}
	expect.Diff(t, "the receiver after rotations", before, r.EncodeSecrets())
}

func TestRotate(t *testing.T) {
	a := newKey([32]byte{1}, testNow)
	b := newKey([32]byte{2}, testNow.Add(time.Hour))
	c := newKey([32]byte{3}, testNow.Add(2*time.Hour))
	late := testNow.AddDate(1, 0, 0)
	for name, tt := range map[string]struct {
		keys     []Key
		switched time.Time
		wait     time.Duration
		now      time.Time
		step     Step
		want     []Key // nil after learn
		err      string
	}{
		"newest in the middle": {keys: []Key{a, c, b}, now: late, wait: time.Hour, step: StepSwitch,
			want: []Key{c, a, b}},
		"added by hand after a switch": {keys: []Key{b, a, c}, switched: testNow, now: late, wait: time.Hour,
			step: StepSwitch, want: []Key{c, b, a}},
		"forgets all but the first": {keys: []Key{c, b, a}, switched: testNow, now: late, wait: time.Hour,
			step: StepForget, want: []Key{c}},
		"switched by hand": {keys: []Key{b, a}, now: late, wait: time.Hour, err: "cannot tell when key " +
			b.ID() + " began to seal"},
		"switched by hand, forced": {keys: []Key{b, a}, now: testNow, step: StepForget, want: []Key{b}},
		"too early, forced":        {keys: []Key{a, b}, now: testNow, step: StepSwitch, want: []Key{b, a}},
		"clock set back before switch": {keys: []Key{a, b}, now: testNow.AddDate(-1, 0, 0), wait: time.Hour,
			err: ErrTooEarly.Error()},
		"clock set back before forget": {keys: []Key{b, a}, switched: late, now: testNow, wait: time.Hour,
			err: ErrTooEarly.Error()},
		"clock set back before learn":   {keys: []Key{b}, now: testNow.AddDate(-1, 0, 0), wait: time.Hour, step: StepLearn},
		"learn in the second of making": {keys: []Key{b}, now: b.Created(), step: StepLearn},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newRing(tt.switched, tt.keys...)
			expect.Check(t, err)
			next, step, err := r.Rotate(tt.now, tt.wait)
			if tt.err != "" {
				if next != nil || err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, %v, want an error with %q", next, err, tt.err)
				}
				return
			}
			expect.Check(t, err)
			expect.Equal(t, "step", step, tt.step)
			if step == StepLearn {
				if k := next.Keys(); len(k) != 2 || k[0].ID() != tt.keys[0].ID() || !k[1].Created().After(k[0].Created()) {
					t.Errorf("learned %v, want a key that is newer than the first", next)
				}
				return
			}
			expect.Diff(t, "the value", secrets(tt.want), secrets(next.Keys()))
		})
	}
	if _, _, err := (&Ring{}).Rotate(testNow, 0); err == nil {
		t.Error("the empty ring rotates")
	}
}

func TestRotateWaitsFromFractionsOfASecond(t *testing.T) {
	now := testNow.Add(600 * time.Millisecond)
	r := mustRing(t, newKey([32]byte{1}, testNow.AddDate(-1, 0, 0)))
	for range 2 { // after learn, and after switch
		next, _, err := r.Rotate(now, time.Minute)
		expect.Check(t, err)
		if _, step, err := next.Rotate(now.Add(time.Minute-time.Millisecond), time.Minute); !errors.Is(err, ErrTooEarly) {
			t.Errorf("%s a millisecond early: %v", step, err)
		}
		r, now = next, now.Add(time.Hour)
	}
}

// However often the command is called and however slowly its results are rolled out, every instance opens every live
// token, as long as a wait covers a rollout and a token's life.
func TestRotationRefusesNoLiveTokenProperty(t *testing.T) {
	const rollout, ttl = 10 * time.Minute, 5 * time.Minute
	type issued struct {
		token   string
		expires time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		now := testNow.Add(time.Duration(rapid.IntRange(0, 999_999_999).Draw(t, "ns")))
		first, err := NewRing(NewKey(now))
		if err != nil {
			t.Fatal(err)
		}
		current, previous := first, first // an instance has either until the rollout is over
		changed := now
		var live []issued
		steps := map[Step]int{}
		for range 60 {
			now = now.Add(rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.Int64Range(0, int64(4*time.Minute)).Draw(t, "pause"))
			}).Draw(t, "pause"))
			if now.Sub(changed) >= rollout {
				previous = current
			}
			if next, step, err := current.Rotate(now, rollout+ttl); err == nil {
				if previous != current && step != StepLearn {
					t.Fatalf("%s before the rollout of the step before was over", step)
				}
				if previous == current { // learn may follow forget at once: an operator finishes a rollout first
					steps[step]++
					if current, err = ParseRing(next.EncodeSecrets()); err != nil {
						t.Fatal(err)
					}
					changed = now
				}
			} else if !errors.Is(err, ErrTooEarly) {
				t.Fatal(err)
			}

			sealing := rapid.SampledFrom([]*Ring{previous, current}).Draw(t, "sealing instance")
			token, err := sealing.Seal(testBinding, nil, now, now.Add(ttl))
			if err != nil {
				t.Fatal(err)
			}
			live = append(live, issued{token, now.Add(ttl)})
			for _, i := range live {
				if now.Before(i.expires.Truncate(time.Millisecond)) {
					for _, instance := range []*Ring{previous, current} {
						if _, err := instance.Open(i.token, testBinding, now); err != nil {
							t.Fatalf("after %v: %v", steps, err)
						}
					}
				}
			}
		}
	})
}

// A key file that was cut off anywhere, such as by a full disk, is refused or has all keys. So has one of before, whose
// comments said nothing of its end, and one in which somebody has removed or added a key.
func TestAKeyFileThatWasCutOff(t *testing.T) {
	one, two, three := NewKey(testNow), NewKey(testNow.Add(time.Hour)), NewKey(testNow.Add(2*time.Hour))
	ring := mustRing(t, one, two, three).RevokeBefore(testNow)
	text := ring.EncodeSecrets()
	for _, newline := range []string{"\n", "\r\n"} {
		whole := strings.ReplaceAll(text, "\n", newline)
		for n := range whole {
			parsed, err := ParseRing(whole[:n])
			if err == nil && parsed.EncodeSecrets() != text {
				t.Errorf("the first %d of %d bytes have %d keys:\n%s", n, len(whole), len(parsed.Keys()), whole[:n])
			}
		}
		expect.Equal(t, "the whole file", expect.Must(ParseRing(whole))(t).EncodeSecrets(), text)
	}
	_, err := ParseRing(text[:strings.Index(text, three.EncodeSecret())])
	expect.Fails(t, "without the last key", err, "cut off after line")
	before := strings.NewReplacer(promiseOfEnd+"\n", "", "\n"+endOfKeys+"\n", "").Replace(text)
	removed := strings.Replace(text, three.EncodeSecret(), "", 1)
	added := text + NewKey(testNow).EncodeSecret() + "\n"
	for name, c := range map[string]struct {
		text string
		keys int
	}{
		"without the two":    {before, 3},
		"with a key removed": {removed, 2},
		"with a key added":   {added, 4},
		"with another file":  {text + mustRing(t, NewKey(testNow)).EncodeSecrets(), 4},
	} {
		expect.Equal(t, name, len(expect.Must(ParseRing(c.text))(t).Keys()), c.keys)
	}
}
