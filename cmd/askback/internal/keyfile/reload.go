package keyfile

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/seal"
)

// reloadInterval is how often a server looks for other keys in its file.
const reloadInterval = time.Second

// keyFile gives a running server the keys of its file whenever the file has other ones.
type keyFile struct {
	name string
	ring *seal.Ring // of the server
	log  *slog.Logger

	failure string // of the last look, which was logged
}

// follow looks at the file from time to time, and when a signal asks for it, until ctx is done.
func (f *keyFile) follow(ctx context.Context, asked <-chan os.Signal) {
	look := time.NewTicker(reloadInterval)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-asked:
			f.failure = "" // the one who asks wants to know
		case <-ctx.Done():
			return
		}
		f.reload(ctx)
	}
}

// reload uses the keys of the file. If it has none that can be read, those in use stay.
func (f *keyFile) reload(ctx context.Context) {
	before := f.ring.Keys()
	changed, err := f.ring.Reload(ctx, seal.File(f.name))
	if err != nil {
		if f.failure != err.Error() {
			f.log.ErrorContext(ctx, "cannot use the key file: the keys that are in use stay", "error", err)
			f.failure = err.Error()
		}
		return
	}
	if f.failure = ""; !changed {
		return
	}
	keys := f.ring.Keys()
	forgotten := slices.DeleteFunc(before, func(old seal.Key) bool {
		return slices.ContainsFunc(keys, func(k seal.Key) bool { return k.ID() == old.ID() })
	})
	attributes := []any{"keys", f.name, "key", keys[0].ID(), "opens", IDs(keys)}
	if len(forgotten) > 0 {
		attributes = append(attributes, "forgotten", IDs(forgotten))
	}
	if t := f.ring.Revoked(); !t.IsZero() {
		attributes = append(attributes, "revoked", t)
	}
	f.log.InfoContext(ctx, "the key file has changed: sealing requestState with its keys", attributes...)
}

// Follow follows the key file of a server until stop is called. Standard input, a pipe and the environment can be
// read only once. If hangups is set, SIGHUP reloads the file; otherwise the signal ends the process, as usual.
func Follow(ctx context.Context, name string, ring *seal.Ring, hangups bool, log *slog.Logger) (stop func()) {
	info, err := os.Stat(name)
	if name == "-" || err != nil || info.Mode()&fs.ModeType != 0 {
		return func() {}
	}
	var asked chan os.Signal
	if hangups {
		asked = make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGHUP)
	}
	// The server also seals while it finishes what runs when ctx is done.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&keyFile{name: name, ring: ring, log: log}).follow(ctx, asked)
	}()
	return func() {
		if asked != nil {
			signal.Stop(asked)
		}
		cancel()
		<-done
	}
}
