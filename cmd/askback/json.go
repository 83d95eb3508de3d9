package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/askback-mcp/askback/internal/foreign"
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

// inert escapes the characters in JSON that act on a terminal.
func inert(text []byte) string { return foreign.JSON(text) }
