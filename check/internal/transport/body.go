package transport

import (
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Body are the bytes of a body, which may be too large to be held: each piece stands so many times.
type Body []piece

type piece struct {
	text  string
	times int
}

var placeholder = regexp.MustCompile(`\{\{([a-z]+)(?::([0-9a-f]+))?\}\}`)

// maxPiece bounds how often the text of a piece stands.
const maxPiece = 16 << 20

func expand(word, argument, method, meta string, id int) (Body, error) {
	switch word {
	case "id":
		return Body{{strconv.Itoa(id), 1}}, nil
	case "method":
		return Body{{strconv.Quote(method), 1}}, nil
	case "meta":
		return Body{{meta[1 : len(meta)-1], 1}}, nil // the members of the object
	case "bytes":
		b, err := hex.DecodeString(argument)
		return Body{{string(b), 1}}, err
	case "nested", "filler":
		n, err := strconv.Atoi(argument)
		if err != nil || n > maxPiece {
			return nil, fmt.Errorf("want a number up to %d", maxPiece)
		}
		if word == "filler" {
			return Body{{"a", n}}, nil
		}
		return Body{{"[", n}, {"]", n}}, nil
	}
	return nil, fmt.Errorf("it is not known")
}

func (all Body) size() (n int64) {
	for _, p := range all {
		n += int64(len(p.text)) * int64(p.times)
	}
	return n
}

// reader reads the bytes, and holds few of them at a time.
func (all Body) reader() io.Reader {
	var readers []io.Reader
	for _, p := range all {
		const most = 32 << 10
		chunk := max(1, min(p.times, most/max(1, len(p.text))))
		text := strings.Repeat(p.text, chunk)
		for left := p.times; left > 0; left -= chunk {
			readers = append(readers, strings.NewReader(text[:min(left, chunk)*len(p.text)]))
		}
	}
	return io.MultiReader(readers...)
}

// Template is the body as a transcript has it: a placeholder stands for what is long.
func (all Body) Template() (text string, placeholders bool) {
	var b strings.Builder
	for _, p := range all {
		if p.text == "a" && p.times > 1 {
			fmt.Fprintf(&b, "{{filler:%d}}", p.times)
			placeholders = true
			continue
		}
		b.WriteString(strings.Repeat(p.text, p.times))
	}
	return b.String(), placeholders
}
