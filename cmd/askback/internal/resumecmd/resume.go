// Package resumecmd continues a parked call.
package resumecmd

import (
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/conversation"
)

// Command returns 'askback resume'.
func Command() *cobra.Command {
	return conversation.Command(&cobra.Command{
		Use:   "resume FILE [TARGET]",
		Short: "Continue a parked call",
		Long: `Continue a call that --park or "Later" left in FILE, at the URL where it began
or at TARGET, another instance of the same server. Name TARGET if the server is
a program, or if you send headers: a file from somebody else must not start a
program on your machine, or get your headers. 'askback call --help' explains
answers and exit codes.

FILE stays unchanged, unless --park names it again or you choose Later again:
then it holds the call with the new answers. A file that Later has made is
removed when there is a result. Remove any other FILE then: to resume it again
repeats the last round, and the tool may act a second time. FILE contains
arguments and answers: keep it as secret as they are. - stands for standard
input.`,
		Example: `  askback call http://127.0.0.1:8080/mcp update_work_item workItemId=4522 \
    fields='{"System.State":"Resolved"}' --park bug.json
  askback resume bug.json --answer resolution='{"resolution":"Fixed"}'`,
	}, conversation.WithAnswers, func(c *conversation.Conversation, args []string) error {
		if err := c.OneStdin("FILE", args[0]); err != nil {
			return err
		}
		at := ""
		if len(args) > 1 {
			at = args[1]
		}
		return c.Resume(args[0], at)
	})
}
