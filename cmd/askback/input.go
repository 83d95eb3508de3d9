package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// maxInput is the size limit of a file, in bytes. Arguments, answers and parked calls are far smaller.
const maxInput = 64 << 20

// readInput reads a file, or stdin for "-". Stdin is nil where it cannot be used.
func readInput(file string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the file %s does not exist", file)
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	} else if stdin == nil {
		return nil, errors.New("standard input cannot be used here")
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(text) > maxInput {
		err = fmt.Errorf("%s is larger than %d bytes", file, maxInput)
	}
	return text, err
}

// oneStdin refuses a command line that reads standard input twice. Inputs are the files by flag or argument.
func oneStdin(inputs map[string]string) error {
	var from []string
	for name, file := range inputs {
		if file == "-" || name == "--json" && file == "@-" {
			from = append(from, name)
		}
	}
	if len(from) > 1 {
		slices.Sort(from)
		return usagef("standard input can be %s, not both", strings.Join(from, " or "))
	}
	return nil
}
