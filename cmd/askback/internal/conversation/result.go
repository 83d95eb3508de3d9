package conversation

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// Show prints a value as JSON, or its text for people.
func (c *Conversation) Show(value any, text string) error {
	if c.AsJSON() {
		return cli.OutputJSON(c.Cmd.OutOrStdout(), value)
	}
	return cli.Output(c.Cmd.OutOrStdout(), text)
}

// AsJSON reports whether the outcome is printed as JSON.
func (c *Conversation) AsJSON() bool { return c.connect.asJSON }

// Printer returns a function that prints a result.
func (c *Conversation) Printer(res mcp.Result) func() error {
	return func() error { return c.printResult(res) }
}

// printResult prints a result. A tool's error goes to standard error, and the command exits with ExitToolError.
func (c *Conversation) printResult(res mcp.Result) error {
	tool, _ := res.(*mcp.CallToolResult)
	failed := tool != nil && tool.IsError
	if c.AsJSON() {
		var v any = res
		if c.asker.result != nil {
			v = c.asker.result // the SDK's types drop digits and members
		}
		if err := cli.OutputJSON(c.Cmd.OutOrStdout(), v); err != nil || !failed {
			return err
		}
		return cli.WithCode(cli.ExitToolError, errors.New(""))
	}
	text, err := resultText(res)
	if err != nil {
		return err
	}
	if failed {
		text = cmp.Or(strings.TrimSpace(text), "without a message")
		return cli.WithCode(cli.ExitToolError, fmt.Errorf("%s answered with an error: %s", c.asker.called, text))
	}
	return cli.OutputForeign(c.Cmd.OutOrStdout(), text)
}

// resultText shows a result to people: texts unchanged, and a line about any other content.
func resultText(res mcp.Result) (string, error) {
	var b strings.Builder
	switch res := res.(type) {
	case *mcp.CallToolResult:
		saysText := false
		for _, content := range res.Content {
			_, isText := content.(*mcp.TextContent)
			saysText = saysText || isText
			b.WriteString(contentText(content))
		}
		if res.StructuredContent != nil && !saysText {
			text, err := cli.IndentedJSON(res.StructuredContent)
			if err != nil {
				return "", fmt.Errorf("the structured content: %w", err)
			}
			b.WriteString(text)
		}
	case *mcp.GetPromptResult:
		for i, message := range res.Messages {
			if message == nil {
				continue
			}
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s:\n%s", cli.HarmlessLine(string(message.Role), 40), contentText(message.Content))
		}
	case *mcp.ReadResourceResult:
		for _, c := range res.Contents {
			switch {
			case c == nil:
			case c.Blob != nil:
				b.WriteString(note("resource", c.URI, c.MIMEType, len(c.Blob)))
			default:
				b.WriteString(cli.EndLine(c.Text))
			}
		}
	default:
		return "", errors.New("the server sent a result that this command does not know")
	}
	return b.String(), nil
}

func contentText(content mcp.Content) string {
	switch c := content.(type) {
	case *mcp.TextContent:
		return cli.EndLine(c.Text)
	case *mcp.ImageContent:
		return note("image", "", c.MIMEType, len(c.Data))
	case *mcp.AudioContent:
		return note("audio", "", c.MIMEType, len(c.Data))
	case *mcp.ResourceLink:
		size := -1
		if c.Size != nil {
			size = int(*c.Size)
		}
		return note("link to resource", c.URI, c.MIMEType, size)
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return note("resource", "", "", -1)
		}
		return note("resource", c.Resource.URI, c.Resource.MIMEType, len(c.Resource.Text)+len(c.Resource.Blob))
	case nil:
		return ""
	}
	return note("content", fmt.Sprintf("%T", content), "", -1)
}

// note is a line about content that is not text.
func note(kind, name, mimeType string, size int) string {
	words := kind
	if name != "" {
		words += " " + cli.HarmlessLine(name, 500)
	}
	if mimeType != "" {
		words += ", " + cli.HarmlessLine(mimeType, 100)
	}
	if size >= 0 {
		words += fmt.Sprintf(", %d bytes", size)
	}
	return "[" + words + "]\n"
}
