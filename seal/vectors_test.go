package seal

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// vectors.json is written by vectors.py, which shares no code with this package.
type vectors struct {
	Keys map[string]struct {
		Text    string
		Secret  hexBytes
		Created int64
		ID      string
	}
	Tokens []struct {
		Name, Key       string
		Nonce           hexBytes
		Binding         vectorBinding
		Payload         hexBytes
		Issued, Expires int64
		Associated      hexBytes
		Plaintext       hexBytes
		Token           string
		ValidAt         []int64 `json:"valid_at"`
	}
	Refused []struct {
		Name, Token string
		Repeat      int
		Keys        []string
		Binding     vectorBinding
		Now         int64
		Reason      Reason
	}
}

type vectorBinding struct {
	Audience, Principal, Method, Target string
	Arguments                           hexBytes
}

func (b vectorBinding) binding() Binding {
	return Binding{b.Audience, b.Principal, b.Method, b.Target, [32]byte(b.Arguments)}
}

type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

func readVectors(t testing.TB) (v vectors, ring func(names ...string) *Ring) {
	t.Helper()
	text := expect.Must(os.ReadFile("testdata/vectors.json"))(t)
	expect.Check(t, json.Unmarshal(text, &v))
	if len(v.Keys) < 2 || len(v.Tokens) < 3 || len(v.Refused) < 40 {
		t.Fatalf("vectors.json has only %d keys, %d tokens and %d refused tokens", len(v.Keys), len(v.Tokens), len(v.Refused))
	}
	return v, func(names ...string) *Ring {
		t.Helper()
		var texts []string
		for _, name := range names {
			texts = append(texts, v.Keys[name].Text)
		}
		r := expect.Must(ParseRing(strings.Join(texts, " ")))(t)
		return r
	}
}

func TestVectorKeys(t *testing.T) {
	v, ring := readVectors(t)
	for name, want := range v.Keys {
		key := ring(name).Keys()[0]
		if key.ID() != want.ID || key.Created().Unix() != want.Created || key.secret() != [32]byte(want.Secret) {
			t.Errorf("%s: parsed as %v, want id %s, created %d", name, key, want.ID, want.Created)
		}
		if got := newKey([32]byte(want.Secret), time.Unix(want.Created, 0)).EncodeSecret(); got != want.Text {
			t.Errorf("%s: encoded differently from the vector", name)
		}
	}
}

func TestVectorTokens(t *testing.T) {
	v, ring := readVectors(t)
	for _, tt := range v.Tokens {
		t.Run(tt.Name, func(t *testing.T) {
			r, b := ring(tt.Key), tt.Binding.binding()
			s := r.load().sealers[0]
			issued, expires := time.UnixMilli(tt.Issued), time.UnixMilli(tt.Expires)

			if got := string(s.associated); got != string(tt.Associated) {
				t.Errorf("additional data %q, want %q", got, tt.Associated)
			}
			expect.Diff(t, "plaintext", []byte(tt.Plaintext), appendPlaintext(nil, &b, tt.Payload, issued, expires))
			token := expect.Must(s.seal([nonceSize]byte(tt.Nonce), &b, tt.Payload, issued, expires))(t)
			expect.Equal(t, "sealed as", token, tt.Token)

			want := &State{ID: tt.Token[13:45], KeyID: v.Keys[tt.Key].ID, Issued: issued.UTC(), Expires: expires.UTC(),
				Binding: b, Payload: tt.Payload}
			for _, now := range tt.ValidAt {
				got, err := r.Open(tt.Token, b, time.UnixMilli(now))
				if err != nil {
					t.Errorf("at %d: %v", now, err)
				} else if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("at %d (-want +got):\n%s", now, diff)
				}
			}
			inspected := expect.Must(r.Inspect(tt.Token))(t)
			expect.Diff(t, "inspected", want, inspected)
		})
	}
}

func TestVectorRefused(t *testing.T) {
	v, ring := readVectors(t)
	for _, tt := range v.Refused {
		t.Run(tt.Name, func(t *testing.T) {
			token := strings.Repeat(tt.Token, max(tt.Repeat, 1))
			state, err := ring(tt.Keys...).Open(token, tt.Binding.binding(), time.UnixMilli(tt.Now))
			var refused *OpenError
			if state != nil || !errors.As(err, &refused) || !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, %v, want an OpenError", state, err)
			}
			expect.Equal(t, "refused because", refused.Reason, tt.Reason)
		})
	}
}
