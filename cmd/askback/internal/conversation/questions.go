package conversation

import (
	"fmt"
	"strings"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/arguments"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/input"
)

// Questions shows the keys and kinds of questions on one line.
func Questions(list []*client.Question) string {
	return cli.Join(list, func(q *client.Question) string {
		kind := map[string]string{
			input.MethodCreateMessage: "sampling", input.MethodListRoots: "roots", input.MethodElicit: "form",
		}[q.Method]
		if q.URL != "" {
			kind = "page"
		}
		return fmt.Sprintf("%s (%s)", cli.HarmlessLine(q.Key, 60), kind)
	})
}

// Describe shows a question and how to answer it.
func Describe(q *client.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s\n", cli.HarmlessLine(q.Key, 200))
	example := "'the text'"
	switch {
	case q.URL != "":
		b.WriteString(cli.Wrap(cli.Harmless(q.Message), "    "))
		fmt.Fprintf(&b, "    The page: %s\n", cli.HarmlessLine(q.URL, 2000))
		example = "accept"
	case q.Schema != nil:
		b.WriteString(cli.Wrap(cli.Harmless(q.Message), "    "))
		b.WriteString("\n" + arguments.FormRows(q.Schema))
		example = cli.ShellQuote(arguments.SampleContent(q.Schema))
	default:
		fmt.Fprintf(&b, "    The server asks for a model's completion of:\n\n    %s\n", cli.IndentedRaw(q.Params))
	}
	fmt.Fprintf(&b, "\n    --answer %s=%s\n", cli.Harmless(cli.ForeignQuote(q.Key)), cli.Harmless(example))
	return b.String()
}
