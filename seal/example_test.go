package seal_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/seal"
)

func Example() {
	ring, err := seal.NewRing(seal.NewKey(time.Now())) // a server of several instances reads one from a file: ParseRing
	if err != nil {
		panic(err)
	}
	binding := seal.Binding{
		Audience:  "tracker",
		Principal: "https://login.example|alice",
		Method:    "tools/call",
		Target:    "update_work_item",
		Arguments: sha256.Sum256([]byte(`{"workItemId":4522}`)),
	}

	// The first round ends with a question. What has to be remembered goes to the client.
	now := time.Now()
	token, err := ring.Seal(binding, []byte("asked for a resolution"), now, now.Add(10*time.Minute))
	if err != nil {
		panic(err)
	}

	// The second round, on any instance: the binding is that of the request that brings the token.
	state, err := ring.Open(token, binding, now.Add(time.Minute))
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", state.Payload)
	// Output: asked for a resolution
}

// The reason of a refusal is for the operator, the client gets the same answer for every reason.
func ExampleOpenError() {
	ring, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		panic(err)
	}
	now := time.Now()
	token, err := ring.Seal(seal.Binding{Principal: "alice"}, nil, now, now.Add(time.Minute))
	if err != nil {
		panic(err)
	}

	_, err = ring.Open(token, seal.Binding{Principal: "mallory"}, now)

	var refused *seal.OpenError
	if errors.As(err, &refused) {
		fmt.Println("metric:", refused.Reason)
		fmt.Println("log:", refused)
		fmt.Println("client:", seal.ErrInvalid)
	}
	// Output:
	// metric: principal
	// log: seal: refused (principal): the state was sealed for another principal than the one who presents it: it may be stolen, unless callers change identity between rounds
	// client: invalid or expired requestState
}

// A key file and an environment variable have the same form.
func ExampleParseRing() {
	ring, err := seal.ParseRing(`
		# the first key seals
		askback-key-1_20261121T110000Z_FjZ6rLZ6SgF8jairlWgsyzkIY3gPcRTdoKDgxVZEx8Q
		askback-key-1_20261120T110000Z_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8
	`)
	if err != nil {
		panic(err)
	}
	for _, key := range ring.Keys() {
		fmt.Println(key)
	}

	_, err = seal.ParseRing("askback-key-1_20261120T110000Z_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwd")
	fmt.Println(err)
	// Output:
	// seal.Key(rk773b6u, created 2026-11-21T11:00:00Z)
	// seal.Key(3v2aigtk, created 2026-11-20T11:00:00Z)
	// seal: parse keys: line 1, entry 1: the key's secret has 40 characters, want 43: it was cut off or has grown
}

// A rotation takes three rollouts; a token opens on every instance throughout.
func ExampleRing_Rotate() {
	const rollout, longestLife = time.Hour, 10 * time.Minute

	now := time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	ring, err := seal.NewRing(seal.NewKey(now))
	if err != nil {
		panic(err)
	}
	for range 5 {
		next, step, err := ring.Rotate(now, rollout+longestLife)
		if errors.Is(err, seal.ErrTooEarly) {
			fmt.Println(now.Format(time.TimeOnly), "not yet")
		} else if err != nil {
			panic(err)
		} else {
			fmt.Println(now.Format(time.TimeOnly), step, len(next.Keys()))
			ring = next // write ring.EncodeSecrets() to the key file and roll it out
		}
		now = now.Add(time.Hour)
	}
	// Output:
	// 11:00:00 learn 2
	// 12:00:00 not yet
	// 13:00:00 switch 2
	// 14:00:00 not yet
	// 15:00:00 forget 1
}

// wrapped is a key management service that holds the key file encrypted. It is a seal.Source.
type wrapped struct{ text string }

func (w *wrapped) decrypt(context.Context) (string, error) { return w.text, nil }

func (w *wrapped) Load(ctx context.Context) (*seal.Ring, error) {
	text, err := w.decrypt(ctx)
	if err != nil {
		return nil, err
	}
	return seal.ParseRing(text)
}

// A server whose key file is encrypted by a key management service uses other keys without a restart. The ring is the
// one in its askback.Options. Call Reload from a loop, or when a signal comes. A seal.File is a source, too.
func ExampleRing_Reload() {
	ctx := context.Background()
	kms := &wrapped{"askback-key-1_20261120T110000Z_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}
	ring, err := kms.Load(ctx)
	if err != nil {
		panic(err)
	}

	kms.text += "\naskback-key-1_20261121T110000Z_FjZ6rLZ6SgF8jairlWgsyzkIY3gPcRTdoKDgxVZEx8Q" // somebody rotates
	changed, err := ring.Reload(ctx, kms)
	fmt.Println(changed, err, ring)
	kms.text = "damaged"
	_, err = ring.Reload(ctx, kms)
	fmt.Println("still using the old keys:", err)
	// Output:
	// true <nil> seal.Ring(seal.Key(3v2aigtk, created 2026-11-20T11:00:00Z), seal.Key(rk773b6u, created 2026-11-21T11:00:00Z))
	// still using the old keys: seal: parse keys: line 1, entry 1: does not begin with "askback-key-1_": want a key as 'askback keys new' writes it
}

// What the client sees of its state.
func ExamplePeek() {
	ring, err := seal.ParseRing("askback-key-1_20261120T110000Z_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
	if err != nil {
		panic(err)
	}
	now := time.Now()
	token, err := ring.Seal(seal.Binding{Audience: "tracker"}, []byte("asked for a resolution"), now, now.Add(time.Minute))
	if err != nil {
		panic(err)
	}

	visible, err := seal.Peek(token)
	if err != nil {
		panic(err)
	}
	fmt.Println(visible.Version, visible.KeyID, visible.Size)
	// Output: ab1 3v2aigtk 81
}
