package storage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// The files of the stores that servers and bridges have without --store, in the directory of [cli.StateDir].
const (
	ServerFile   = "tasks.db"
	bridgePrefix = "bridge-"
	bridgeSuffix = ".db"
)

// BridgeFile is the name of the file in which a bridge keeps its calls. People recognise the server by the label. The
// digest of where tells servers with the same label apart.
func BridgeFile(label, where string) string {
	label = strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c) || c == '.') {
			return c
		}
		return '-'
	}, label)
	sum := sha256.Sum256([]byte(where))
	return fmt.Sprintf("%s%.40s-%x%s", bridgePrefix, label, sum[:6], bridgeSuffix)
}

// Defaults returns the stores that 'askback serve' and 'askback bridge' have without --store.
func Defaults() (stores []string, err error) {
	dir, err := cli.StateDir()
	if err != nil {
		return nil, fmt.Errorf("the stores of your servers: %w; name a store with STORE", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the stores of your servers: %w; name a store with STORE", err)
	}
	for _, e := range entries {
		ofBridge := strings.HasPrefix(e.Name(), bridgePrefix) && strings.HasSuffix(e.Name(), bridgeSuffix)
		if ofBridge || e.Name() == ServerFile {
			stores = append(stores, "sqlite:"+filepath.Join(dir, e.Name()))
		}
	}
	if stores == nil {
		return nil, fmt.Errorf("there is no store in %s: start 'askback serve' or 'askback bridge' first, or name the "+
			"store of your server with STORE", dir)
	}
	return stores, nil
}
