package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/internal/strictjson"
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

// maxDepth is how deep JSON of the command line may be nested.
const maxDepth = 64

// checkObject checks that a text is one JSON object.
func checkObject(text []byte) error {
	err := strictjson.Check(text, maxDepth)
	if err == nil && strictjson.TypeOf(text) != strictjson.TypeObject {
		err = errors.New("it is not an object")
	}
	return err
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
