// Package keyfile finds the keys that seal requestState, in a file or in the environment, and follows a file that
// changes.
package keyfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/durable"
	"github.com/askback-mcp/askback/seal"
)

// Variable is the name of the environment variable that may have the keys.
const Variable = "ASKBACK_KEYS"

// environmentKeys is the value of [Variable] at the start of the process.
var environmentKeys struct {
	text string
	set  bool
}

// Withhold removes the keys from the environment, so that no program that the command starts inherits them: no
// server, sampler or browser.
func Withhold() error {
	environmentKeys.text, environmentKeys.set = os.LookupEnv(Variable)
	if err := os.Unsetenv(Variable); err != nil {
		return fmt.Errorf("keeping %s from other programs: %w", Variable, err)
	}
	return nil
}

// Configured returns the keys of the file or, if file is empty, of the environment. Source names the place in
// messages. The ring is nil if there are no keys.
func Configured(ctx context.Context, file string, stdin io.Reader) (ring *seal.Ring, source string, err error) {
	switch {
	case file != "":
		ring, err = Read(ctx, file, stdin)
		return ring, file, err
	case !environmentKeys.set:
		return nil, "", nil
	case environmentKeys.text == "":
		// The secret did not arrive. A random key in its place would fail later and on another server.
		return nil, "", fmt.Errorf("the environment variable %s is empty: set it to the text of a key file, or unset it",
			Variable)
	}
	if ring, err = seal.ParseRing(environmentKeys.text); err != nil {
		return nil, "", fmt.Errorf("the environment variable %s: %w", Variable, err)
	}
	return ring, Variable, nil
}

// Read reads a key file, or stdin for "-".
func Read(ctx context.Context, file string, stdin io.Reader) (*seal.Ring, error) {
	if file != "-" {
		ring, err := seal.File(file).Load(ctx)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("key file %s does not exist: make it with 'askback keys new %[1]s'", file)
		}
		return ring, err
	}
	text, err := cli.ReadInput(file, stdin)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	ring, err := seal.ParseRing(string(text))
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return ring, nil
}

// Create writes a new file that only its owner can open.
func Create(file, text string) error {
	err := durable.Create(file, text)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already: replace its keys with 'askback keys rotate %[1]s', or choose another name",
			file)
	}
	return err
}

// IDs names keys without their secrets.
func IDs(keys []seal.Key) string { return cli.Join(keys, seal.Key.ID) }
