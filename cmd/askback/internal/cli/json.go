package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// MaxDepth bounds the nesting of JSON on the command line.
const MaxDepth = 64

// CheckObject checks that a text is one JSON object.
func CheckObject(text []byte) error {
	err := strictjson.Check(text, MaxDepth)
	if err == nil && strictjson.TypeOf(text) != strictjson.TypeObject {
		err = errors.New("it is not an object")
	}
	return err
}

// Compact encodes a value as JSON on one line, with every character as itself.
func Compact(v any) string {
	text, err := EncodeJSON(v, "")
	if err != nil {
		return "…"
	}
	return string(bytes.TrimSpace(text))
}

// EncodeJSON encodes a value with every character as itself.
func EncodeJSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(v)
	return b.Bytes(), err
}

// IndentedJSON encodes a value as JSON on several lines in which nothing acts on a terminal.
func IndentedJSON(v any) (string, error) {
	text, err := EncodeJSON(v, "  ")
	if err != nil {
		return "", fmt.Errorf("the output as JSON: %w", err)
	}
	return foreign.JSON(text), nil
}

// IndentedRaw shows JSON on lines that are indented by four spaces, except the first. It quotes a text that is not
// JSON.
func IndentedRaw(raw []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "    ", "  "); err != nil {
		return strconv.Quote(string(raw))
	}
	return foreign.JSON(b.Bytes())
}
