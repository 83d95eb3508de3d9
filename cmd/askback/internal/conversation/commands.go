package conversation

import (
	"cmp"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/input"
)

// Note prints a line about the conversation on standard error.
func (c *Conversation) Note(format string, args ...any) {
	c.asker.console.line("askback: "+format, args...)
}

// OneStdin refuses a command line in which both the named input and --answers are standard input.
func (c *Conversation) OneStdin(name, file string) error {
	return cli.OneStdin(map[string]string{name: file, "--answers": c.answer.file})
}

// HasAsked reports whether the server has asked something.
func (c *Conversation) HasAsked() bool { return c.asker.asked.Load() }

// Dialect is the dialect of tasks that the command line asks for.
func (c *Conversation) Dialect() client.TaskDialect { return dialects[c.Tasks.dialect] }

// FollowTask makes a task that the server began the one to wait for.
func (c *Conversation) FollowTask(id string) { c.asker.watch.follow(id) }

// TaskCommand is the command line that waits for the task.
func (c *Conversation) TaskCommand() string { return c.asker.watch.command() }

// AnswersTo returns the answers that the flags have for the questions of a task, by key.
func (c *Conversation) AnswersTo(asked []*client.Question) (map[string]any, error) {
	roots, err := parseRoots(c.answer.roots)
	if err != nil {
		return nil, err
	}
	given := make(map[string]any)
	for _, q := range asked {
		answer, ok := c.asker.given.take(q.Key)
		switch {
		case q.Method == input.MethodListRoots && roots != nil:
			given[q.Key] = &mcp.ListRootsResult{Roots: roots}
		case !ok:
		case q.Method == input.MethodCreateMessage:
			if given[q.Key], err = answer.sample(q); err != nil {
				return nil, err
			}
		default:
			if given[q.Key], err = answer.elicit(q); err != nil {
				return nil, err
			}
		}
	}
	if unknown := c.asker.given.neverAsked(); len(unknown) > 0 || len(given) == 0 {
		about := ""
		if len(unknown) > 0 {
			about = cli.DidYouMean(unknown[0], c.asker.given.wasAsked())
		}
		return nil, cli.Usagef("the task does not ask %s; it asks %s%s", cmp.Or(cli.Keys(unknown), "any of these"),
			Questions(asked), about)
	}
	return given, nil
}
