package terminal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
)

// Where nothing can be drawn, as here, the question is asked line by line.
func ExampleTerminal_Form() {
	in, keyboard, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	defer in.Close()
	go func() {
		defer keyboard.Close()
		io.WriteString(keyboard, "3\n2\n")
	}()

	t := &terminal.Terminal{In: in, Out: os.Stdout}
	answer, err := t.Form(context.Background(), "tracker", "How was this bug resolved?", json.RawMessage(`{
		"type": "object",
		"properties": {"resolution": {"type": "string", "title": "Resolution", "enum": ["fixed", "duplicate"]}},
		"required": ["resolution"]
	}`))
	fmt.Println(answer.Action, answer.Content, err)
	// Output:
	// tracker asks:
	//   | How was this bug resolved?
	//
	// Type /decline to tell the server no, or /cancel to leave without a decision.
	//
	// Resolution (required)
	//   1. fixed
	//   2. duplicate
	//   Type the number of your choice.
	// > 3
	//   ! type a number from 1 to 2
	// > 2
	//   Resolution: duplicate
	// Sent.
	// accept map[resolution:duplicate] <nil>
}
