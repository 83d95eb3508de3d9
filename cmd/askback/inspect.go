package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/seal"
)

func inspectCommand() *cobra.Command {
	var (
		file   string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "inspect STATE",
		Short: "Show what a requestState holds",
		Long: `Show what a requestState holds. Without keys that is its format, the id of its
key and its size; with the keys of the server that sealed it, also when it
expires, which request it is bound to, what was asked, and what was answered.
Expired states are shown as well.

Keys are taken from --keys or, without it, from the environment variable
` + keysVariable + `. For - the state is read from standard input.`,
		Example: `  askback inspect --keys askback.keys ab1.…
  jq -r .result.requestState response.json | askback inspect --json -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" && file == "-" {
				return usagef("standard input can be the state or the keys, not both")
			}
			token := args[0]
			if token == "-" {
				text, err := readInput("-", cmd.InOrStdin())
				if err != nil {
					return fmt.Errorf("reading standard input: %w", err)
				}
				token = string(text)
			}
			ring, source, warning, err := configuredKeys(file, cmd.InOrStdin())
			if err != nil {
				return err
			}
			warn(cmd, warning)
			return inspect(cmd.OutOrStdout(), strings.TrimSpace(token), ring, source, asJSON)
		},
	}
	cmd.Flags().StringVar(&file, "keys", "", "key `FILE`, - for standard input")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, for programs")
	return cmd
}

// inspect prints what the keys of the ring reveal of the token. The ring is nil if there are no keys.
func inspect(w io.Writer, token string, ring *seal.Ring, source string, asJSON bool) error {
	visible, err := seal.Peek(token)
	if err != nil {
		return err
	}
	show := func(r *report) error {
		if asJSON {
			return outputJSON(w, r)
		}
		return output(w, r.text(time.Now()))
	}
	if ring == nil {
		r := newReport(visible, nil)
		r.hint = "Everything else is sealed. To see it, give the keys of the server that sealed it:\n" +
			"--keys FILE, or the environment variable " + keysVariable + ".\n"
		return show(r)
	}
	if !slices.ContainsFunc(ring.Keys(), func(k seal.Key) bool { return k.ID() == visible.KeyID }) {
		if err := show(newReport(visible, nil)); err != nil {
			return err
		}
		return fmt.Errorf("the state was sealed with key %s, but %s has only %s: use the keys of the server that sealed it",
			visible.KeyID, source, ids(ring.Keys()))
	}
	state, err := ring.Inspect(token)
	if err != nil {
		return err
	}
	return show(newReport(visible, state))
}
