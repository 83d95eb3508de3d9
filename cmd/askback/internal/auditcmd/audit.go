// Package auditcmd verifies an audit that package audit has written.
package auditcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/audit"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// Command returns 'askback audit'.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Verify the audit of a server",
		RunE:  cli.NeedsCommand,
	}
	cmd.AddCommand(verifyCommand())
	return cmd
}

func verifyCommand() *cobra.Command {
	var o audit.VerifyOptions
	var key string
	cmd := &cobra.Command{
		Use:   "verify FILE [FILE …]",
		Short: "Check that nothing was changed in an audit",
		Long: `Check that each line of an audit follows the one before it. Give all its files,
in the order of time. What is wrong is printed with its file and line.

Without --heads, this finds each changed, removed, repeated or moved line that
others follow. It does not find that the end was cut off, that the last line was
changed, or that all was written anew from some line on. With the heads that the
server has signed, it finds those as well, up to the line of the last head.

Exit codes: 0 nothing is wrong; 1 something is; 2 wrong usage.`,
		Example: `  askback audit verify audit.jsonl.2* audit.jsonl
  askback audit verify --heads heads --key audit.pub.pem audit.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.Heads == "") != (key == "") {
				return cli.Usagef("--heads and --key need each other: heads are signed")
			}
			if key != "" {
				var err error
				if o.Key, err = audit.ReadPublicKey(key); err != nil {
					return err
				}
			}
			report, err := audit.Verify(args, &o)
			if err != nil {
				return err
			}
			return show(cmd, report, o.Heads)
		},
	}
	cmd.Flags().StringVar(&o.Heads, "heads", "", "`FILE` of the signed heads")
	cmd.Flags().StringVar(&key, "key", "", "PEM `FILE` of the public key of the heads")
	cmd.Flags().StringVar(&o.After, "after", "", "`DIGEST` of the last line that was deleted on purpose")
	return cmd
}

// show prints what was found.
func show(cmd *cobra.Command, r *audit.Report, heads string) error {
	if n := len(r.Faults) + r.More; n > 0 {
		if err := cli.OutputForeign(cmd.OutOrStdout(), strings.Join(r.Faults, "\n")+"\n"); err != nil {
			return err
		}
		return fmt.Errorf("faults: %d, in %d lines", n, r.Lines)
	}
	said := fmt.Sprintf("Nothing is wrong. Lines: %d, chains: %d, digest of the last line:\n%s\n",
		r.Lines, r.Chains, r.Last)
	if heads == "" {
		said += "Without --heads, a cut or changed end and a file that was written anew go unseen.\n"
	} else {
		said += fmt.Sprintf("Heads that fit: %d. Lines after the last head: %d.\n", r.Heads, r.Unsigned)
	}
	return cli.Output(cmd.OutOrStdout(), said)
}
