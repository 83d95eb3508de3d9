package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/askback-mcp/askback/internal/strictjson"
)

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

// compact encodes a value as JSON on one line, with every character as itself.
func compact(v any) string {
	text, err := encodeJSON(v, "")
	if err != nil {
		return "…"
	}
	return string(bytes.TrimSpace(text))
}

func encodeJSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(v)
	return b.Bytes(), err
}

// indentedJSON encodes a value as JSON on several lines in which nothing acts on a terminal.
func indentedJSON(v any) (string, error) {
	text, err := encodeJSON(v, "  ")
	if err != nil {
		return "", fmt.Errorf("the output as JSON: %w", err)
	}
	return inert(text), nil
}

// indentedRaw shows JSON on lines that are indented by four spaces, except the first. It quotes a text that is not
// JSON.
func indentedRaw(raw []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "    ", "  "); err != nil {
		return strconv.Quote(string(raw))
	}
	return inert(b.Bytes())
}

// inert escapes the characters in JSON that act on a terminal. They occur in strings only, where the escape has the
// same meaning.
func inert(text []byte) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		switch {
		case r == '\n', strconv.IsPrint(r) && (r != utf8.RuneError || n > 1):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
