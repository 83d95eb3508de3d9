package seal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// Source loads the keys of a ring: a [File], or a service of your own that unwraps them.
type Source interface {
	// Load returns a ring with the keys that are to be used now.
	Load(ctx context.Context) (*Ring, error)
}

// File is the name of a file with the text of [Ring.EncodeSecrets], as 'askback keys' writes it. It is a [Source].
type File string

// maxFile bounds the bytes of a key file, which has about a hundred for each key.
const maxFile = 1 << 20

// Load reads the file. No error has any of its secrets.
//
// A file that every user of the machine can read or write is refused, except on Windows: who reads it can forge the
// states of all servers. The group may have access, and the name may be a symbolic link, because that is how a secret
// reaches a container: in Kubernetes with defaultMode 0440 and an fsGroup.
func (f File) Load(context.Context) (*Ring, error) {
	file, err := os.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("seal: load keys: %w: make it with 'askback keys new %s'", err, string(f))
	}
	if err != nil {
		return nil, fmt.Errorf("seal: load keys: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("seal: load keys: %w", err)
	}
	if info.Mode().IsRegular() && info.Mode()&0o007 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("seal: load keys: %s is open to every user of this machine (mode %04o), who could forge "+
			"requestState: run chmod 600 on it, or give a mounted secret the mode 0440 and a group", string(f),
			info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("seal: load keys: %s: %w", string(f), err)
	}
	ring, err := ParseRing(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", string(f), err)
	}
	return ring, nil
}

// Reload gives the ring the keys of a source with [Ring.Replace], and reports whether they are others than before. With
// an error the ring keeps its keys. Call it from time to time, or when you know that the keys have changed.
func (r *Ring) Reload(ctx context.Context, from Source) (changed bool, err error) {
	next, err := from.Load(ctx)
	if err != nil {
		return false, err
	}
	if next == nil || next.current == nil || r.current == nil {
		return false, r.Replace(next)
	}
	if next.EncodeSecrets() == r.EncodeSecrets() {
		return false, nil
	}
	return true, r.Replace(next)
}
