package check

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// pieces are the bytes of a body, which may be too large to be held: each piece stands so many times.
type pieces []piece

type piece struct {
	text  string
	times int
}

var placeholder = regexp.MustCompile(`\{\{([a-z]+)(?::([0-9a-f]+))?\}\}`)

// maxPiece bounds how often the text of a piece stands.
const maxPiece = 16 << 20

// fill makes the body that a probe has in place of a request, with the parts of the request that it names.
func fill(body string, q request, id int) (pieces, error) {
	meta, err := json.Marshal(message(q, id)["params"].(map[string]any)["_meta"])
	if err != nil {
		return nil, err
	}
	var all pieces
	from := 0
	for _, at := range placeholder.FindAllStringSubmatchIndex(body, -1) {
		all = append(all, piece{body[from:at[0]], 1})
		from = at[1]
		word, argument := body[at[2]:at[3]], ""
		if at[4] >= 0 {
			argument = body[at[4]:at[5]]
		}
		more, err := expand(word, argument, q.method, string(meta), id)
		if err != nil {
			return nil, fmt.Errorf("the body of a probe: {{%s}}: %w", word, err)
		}
		all = append(all, more...)
	}
	return append(all, piece{body[from:], 1}), nil
}

func expand(word, argument, method, meta string, id int) (pieces, error) {
	switch word {
	case "id":
		return pieces{{strconv.Itoa(id), 1}}, nil
	case "method":
		return pieces{{strconv.Quote(method), 1}}, nil
	case "meta":
		return pieces{{meta[1 : len(meta)-1], 1}}, nil // the members of the object
	case "bytes":
		b, err := hex.DecodeString(argument)
		return pieces{{string(b), 1}}, err
	case "nested", "filler":
		n, err := strconv.Atoi(argument)
		if err != nil || n > maxPiece {
			return nil, fmt.Errorf("want a number up to %d", maxPiece)
		}
		if word == "filler" {
			return pieces{{"a", n}}, nil
		}
		return pieces{{"[", n}, {"]", n}}, nil
	}
	return nil, fmt.Errorf("it is not known")
}

func (all pieces) size() (n int64) {
	for _, p := range all {
		n += int64(len(p.text)) * int64(p.times)
	}
	return n
}

// reader reads the bytes, and holds few of them at a time.
func (all pieces) reader() io.Reader {
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

// template is the body as a transcript has it: a placeholder stands for what is long.
func (all pieces) template() (text string, placeholders bool) {
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
