package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
)

// maxInput is the size limit of a file, in bytes. Arguments, answers and parked calls are far smaller.
const maxInput = 64 << 20

// ReadInput reads a file, or stdin for "-". Stdin is nil where it cannot be used.
func ReadInput(file string, stdin io.Reader) ([]byte, error) {
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

// OneStdin refuses a command line that reads standard input twice. Inputs are the files by flag or argument.
func OneStdin(inputs map[string]string) error {
	var from []string
	for name, file := range inputs {
		if file == "-" || name == "--json" && file == "@-" {
			from = append(from, name)
		}
	}
	if len(from) > 1 {
		slices.Sort(from)
		return Usagef("standard input can be %s, not both", strings.Join(from, " or "))
	}
	return nil
}

// What a header may consist of (RFC 9110, section 5.6.2 and 5.5).
var (
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	headerValue = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

// ParseHeaders reads headers of the form 'NAME: VALUE', and files of them, @FILE.
func ParseHeaders(flags []string) (http.Header, error) {
	header := make(http.Header)
	for _, flag := range flags {
		lines := []string{flag}
		if file, ok := strings.CutPrefix(flag, "@"); ok {
			text, err := ReadInput(file, nil)
			if err != nil {
				return nil, Usagef("--header: %w", err)
			}
			lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		}
		for _, line := range lines {
			name, value, ok := strings.Cut(line, ":")
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			if !ok {
				name = ""
			}
			if err := checkHeader(name, value); err != nil {
				return nil, Usagef("--header: %w", err)
			}
			header.Add(name, value)
		}
	}
	return header, nil
}

// checkHeader checks a header that a user sends. Its error does not show the value, which may be secret.
func checkHeader(name, value string) error {
	if !headerName.MatchString(name) || !headerValue.MatchString(value) {
		return errors.New("want 'NAME: VALUE', such as 'Authorization: Bearer …'")
	}
	switch canonical := http.CanonicalHeaderKey(name); canonical {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection":
		return fmt.Errorf("%s is the connection's own", canonical)
	}
	return nil
}
