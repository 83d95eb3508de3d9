package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// effect is a line of effects.log: a step of a call that has been done.
type effect struct {
	at   time.Time
	step string
	call string
	pid  int
}

// steps are the steps of provision_vm that are recorded.
var steps = map[string]bool{
	"create-directories": true, "write-disk": true, "write-config": true, "verify-files": true,
	"configure-network": true, "boot": true, "write-manifest": true,
}

// readEffects reads a log. No line is ever changed, so a process that was killed cannot have
// spoilt the lines that it wrote before.
func readEffects(file string) ([]effect, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no step has been done yet
	}
	var all []effect
	for line := range strings.Lines(string(data)) {
		var e effect
		var at string
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		if _, err := fmt.Sscan(line, &at, &e.step, &e.call, &e.pid); err != nil {
			return nil, fmt.Errorf("%s: the line %q does not begin with \"time step call process\"",
				filepath.Base(file), line)
		}
		if e.at, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		all = append(all, e)
	}
	return all, err
}
