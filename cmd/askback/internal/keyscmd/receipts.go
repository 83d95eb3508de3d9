package keyscmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/inbox/receipt"
)

// forReceipts adds the flag --receipts to a command, which then acts upon a key file of receipts.
func forReceipts(cmd *cobra.Command, act func(f receipt.File) (told string, err error)) *cobra.Command {
	is, seals := false, cmd.RunE
	cmd.Flags().BoolVar(&is, "receipts", false, "FILE has the keys that sign receipts")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !is {
			return seals(cmd, args)
		}
		if len(args) == 0 || args[0] == "-" {
			return cli.Usagef("--receipts needs a FILE: its public keys are never forgotten")
		}
		told, err := act(receipt.File(args[0]))
		if err != nil {
			return err
		}
		return cli.Output(cmd.OutOrStdout(), told)
	}
	return cmd
}

func newReceipts(f receipt.File) (string, error) {
	told := fmt.Sprintf("%s has a new key that signs receipts. Keep it secret, and give it to every server.\n", f)
	return told, f.Create()
}

func rotateReceipts(f receipt.File) (string, error) {
	told := fmt.Sprintf("%s has a new key, which signs from now on. The keys before it verify as they did.\n", f)
	return told, f.Rotate()
}

func listReceipts(f receipt.File) (string, error) {
	keys, err := f.Public()
	return string(keys) + "\n", err
}
