package seal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/seal"
)

type source func() (*seal.Ring, error)

func (s source) Load(context.Context) (*seal.Ring, error) { return s() }

// Who can write the keys can forge states, as who can read them. The target of a link counts.
func TestFilesOpenToEveryUserAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its files have no such modes")
	}
	ring := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	file := filepath.Join(t.TempDir(), "..data")
	link := filepath.Join(t.TempDir(), "askback.keys")
	expect.Check(t, os.WriteFile(file, []byte(ring.EncodeSecrets()), 0o600))
	expect.Check(t, os.Symlink(file, link))
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o440: false, 0o640: false, 0o660: false,
		0o604: true, 0o602: true, 0o601: true, 0o622: true, 0o644: true} {
		expect.Check(t, os.Chmod(file, mode))
		for _, name := range []string{file, link} {
			keys, err := seal.File(name).Load(t.Context())
			switch {
			case !refused && (err != nil || keys.Keys()[0].ID() != ring.Keys()[0].ID()):
				t.Errorf("mode %04o: %v", mode, err)
			case refused && (err == nil || !strings.Contains(err.Error(), "chmod 600") ||
				strings.Contains(err.Error(), ring.Keys()[0].EncodeSecret())):
				t.Errorf("mode %04o: %v", mode, err)
			}
		}
	}
}

func TestReload(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	ring := expect.Must(seal.NewRing(seal.NewKey(now)))(t)
	b := seal.Binding{Audience: "tracker"}
	token := expect.Must(ring.Seal(b, []byte("payload"), now, now.Add(time.Hour)))(t)
	other := expect.Must(seal.NewRing(seal.NewKey(now)))(t)
	file := filepath.Join(t.TempDir(), "keys")
	write := func(text string) seal.Source {
		expect.Check(t, os.WriteFile(file, []byte(text), 0o600))
		return seal.File(file)
	}
	secret := ring.Keys()[0].EncodeSecret()
	for _, tc := range []struct {
		name    string
		from    seal.Source
		changed bool
		failure string // in the error
		opens   bool   // what was sealed before
	}{
		{"the same keys", write(ring.EncodeSecrets()), false, "", true},
		{"no file", seal.File(file + "x"), false, "make it with 'askback keys new " + file + "x'", true},
		{"a service that fails", source(func() (*seal.Ring, error) { return nil, errors.New("no answer") }), false,
			"no answer", true},
		{"no ring", source(func() (*seal.Ring, error) { return nil, nil }), false, "empty ring", true},
		{"an empty ring", source(func() (*seal.Ring, error) { return new(seal.Ring), nil }), false, "empty ring", true},
		{"the same keys, revoked", source(func() (*seal.Ring, error) { return ring.RevokeBefore(now.Add(time.Second)), nil }),
			true, "", false},
		{"other keys", source(func() (*seal.Ring, error) { return other, nil }), true, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed, err := ring.Reload(t.Context(), tc.from)
			if changed != tc.changed || (err == nil) != (tc.failure == "") || err != nil &&
				!strings.Contains(err.Error(), tc.failure) {
				t.Errorf("changed: %v, error: %v", changed, err)
			}
			if _, err := ring.Open(token, b, now); (err == nil) != tc.opens {
				t.Errorf("what was sealed before: %v", err)
			}
		})
	}
	for name, text := range map[string]string{"a damaged file": secret + "x",
		"a file that is too large": strings.Repeat("#\n", 1<<20)} {
		_, err := ring.Reload(t.Context(), write(text))
		if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), secret[20:]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// contextSource is a source that needs the context of its caller, such as a secret manager.
type contextSource struct {
	ring *seal.Ring
	seen context.Context
}

func (s *contextSource) Load(ctx context.Context) (*seal.Ring, error) {
	s.seen = ctx
	return s.ring, ctx.Err()
}

// The context of Reload is the source's, and a source that fails changes nothing, whatever it returns beside its error.
func TestReloadWithAContext(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	ring, err1 := seal.NewRing(seal.NewKey(now))
	other, err2 := seal.NewRing(seal.NewKey(now))
	expect.Check(t, errors.Join(err1, err2))
	before := ring.EncodeSecrets()
	from := &contextSource{ring: other}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	changed, err := ring.Reload(ctx, from)
	if changed || !errors.Is(err, context.Canceled) || from.seen != ctx || ring.EncodeSecrets() != before {
		t.Errorf("changed: %v, %v", changed, err)
	}
	changed, err = ring.Reload(t.Context(), from)
	if !changed || err != nil || ring.EncodeSecrets() != other.EncodeSecrets() {
		t.Errorf("then changed: %v, %v", changed, err)
	}
}
