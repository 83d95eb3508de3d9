package keyfile

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
)

// What a server makes of its key file, look by look.
func TestKeyFileIsFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := seal.NewKey(time.Now()), seal.NewKey(time.Now())
		name := filepath.Join(t.TempDir(), "my.keys")
		write := func(text string) {
			t.Helper()
			expect.Check(t, os.WriteFile(name, []byte(text), 0o600))
		}
		write(a.EncodeSecret())
		ring, err := seal.NewRing(a)
		expect.Check(t, err)
		logger, logged := harness.Logs()
		stop := Follow(t.Context(), name, ring, false, logger)
		defer stop()
		time.Sleep(time.Second / 2) // so that none of the times below is that of a look
		for _, look := range []struct {
			name, text, keys, log string
			lines                 int
		}{
			{"unchanged", a.EncodeSecret(), a.ID(), "", 0},
			{"another comment", "# new\n" + a.EncodeSecret(), a.ID(), "", 0},
			{"another key", b.EncodeSecret() + "\n" + a.EncodeSecret(), b.ID() + ", " + a.ID(), "opens=", 1},
			{"one key less", b.EncodeSecret(), b.ID(), "forgotten=" + a.ID(), 1},
			{"cut off", b.EncodeSecret()[:60], b.ID(), "the keys that are in use stay", 1},
			{"empty", "", b.ID(), "the keys that are in use stay", 1},
			{"good again", b.EncodeSecret(), b.ID(), "", 0},
			{"a revocation", "revoked=20000101T000000Z\n" + b.EncodeSecret(), b.ID(), "revoked=2000-01-01", 1},
		} {
			write(look.text)
			logged.Reset()
			time.Sleep(3*reloadInterval + time.Second)
			expect.Equal(t, look.name+": keys", IDs(ring.Keys()), look.keys)
			log := logged.String()
			if n := strings.Count(log, "\n"); n != look.lines || !strings.Contains(log, look.log) {
				t.Errorf("%s: %d lines, want %d with %q:\n%s", look.name, n, look.lines, look.log, log)
			}
			for _, key := range []seal.Key{a, b} {
				if secret := key.EncodeSecret(); strings.Contains(log, secret[len(secret)-43:][:10]) {
					t.Errorf("%s: a secret in the log", look.name)
				}
			}
		}
		if ring.Revoked().IsZero() {
			t.Error("nothing is revoked")
		}

		expect.Check(t, os.Remove(name))
		logged.Reset()
		time.Sleep(2 * reloadInterval)
		if IDs(ring.Keys()) != b.ID() || !strings.Contains(logged.String(), "no such file") {
			t.Errorf("without the file: %s\n%s", ring, logged)
		}

		stop()
		write(a.EncodeSecret())
		time.Sleep(2 * reloadInterval)
		expect.Equal(t, "it is still followed after the end of the server", IDs(ring.Keys()), b.ID())
	})
}

// The server seals with the keys of the file for as long as it finishes what runs.
func TestKeyFileIsFollowedWhileTheServerStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := seal.NewKey(time.Now()), seal.NewKey(time.Now())
		name := filepath.Join(t.TempDir(), "my.keys")
		expect.Check(t, os.WriteFile(name, []byte(a.EncodeSecret()), 0o600))
		ring, err := seal.NewRing(a)
		expect.Check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		logger, _ := harness.Logs()
		stop := Follow(ctx, name, ring, false, logger)
		defer stop()
		cancel()
		expect.Check(t, os.WriteFile(name, []byte(b.EncodeSecret()), 0o600))
		time.Sleep(2 * reloadInterval)
		if IDs(ring.Keys()) != b.ID() {
			t.Errorf("the server has %s", ring)
		}
	})
}
