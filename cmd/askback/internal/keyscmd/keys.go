// Package keyscmd makes, rotates, revokes and lists the keys that seal requestState.
package keyscmd

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
	"github.com/askback-mcp/askback/internal/durable"
	"github.com/askback-mcp/askback/seal"
)

// defaultWait is the sum of the default --ttl of serve and one hour for the rollout.
const defaultWait = 2 * time.Hour

// Command returns 'askback keys'.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, rotate, revoke and list the keys that seal requestState",
		Long: `A key file holds the keys of all servers behind one endpoint. The first key
seals requestState, all of them open it. Servers use the keys of a file that has
changed within a second, or at once after SIGHUP.

With --receipts a file has the keys that sign receipts of decisions. A rotation
of them is one step, and list prints the public ones, for those who verify.`,
		RunE: cli.NeedsCommand,
	}
	cmd.AddCommand(forReceipts(newCommand(), newReceipts), forReceipts(rotateCommand(), rotateReceipts), revokeCommand(),
		forReceipts(listCommand(), listReceipts))
	return cmd
}

func newCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "new [FILE]",
		Short: "Make a key file with one random key",
		Long: `Make a key file with one random key, and print it or write it to FILE. FILE must
not exist yet; only its owner can read it.`,
		Example: `  askback keys new askback.keys
  askback serve --keys askback.keys

  askback keys new | vault kv put secret/askback keys=-`,
		RunE: func(cmd *cobra.Command, args []string) error {
			key := seal.NewKey(time.Now())
			ring, err := seal.NewRing(key)
			if err != nil {
				return err
			}
			if len(args) == 0 || args[0] == "-" {
				return outputSecrets(cmd, ring)
			}
			if err := keyfile.Create(args[0], ring.EncodeSecrets()); err != nil {
				return err
			}
			return cli.Output(cmd.OutOrStdout(), fmt.Sprintf(
				"%s has the new key %s. Keep it secret, and give it to every server.\n", args[0], key.ID()))
		},
	}
}

func outputSecrets(cmd *cobra.Command, ring *seal.Ring) error {
	if f, ok := cmd.OutOrStdout().(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode()&0o007 != 0 &&
			runtime.GOOS != "windows" {
			cli.Warn(cmd, "the keys go to a file that is open to every user of this machine: chmod 600 it")
		}
	}
	return cli.Output(cmd.OutOrStdout(), ring.EncodeSecrets())
}

func rotateCommand() *cobra.Command {
	var (
		force bool
		wait  time.Duration
	)
	cmd := &cobra.Command{
		Use:   "rotate FILE",
		Short: "Take the next of the three steps that replace the key",
		Long: `Take the next step of a rotation. The state of FILE tells which one it is:

  learn   add a new key: every server can open what it will seal
  switch  let the new key seal; the old one still opens
  forget  remove the old key

Give the file to every server after each step. Servers notice that, except
those that have the keys in ` + keyfile.Variable + `: restart them. A step is refused until
the one before has settled for --wait, which has to cover both the time that a
rollout takes and the time to answer (--ttl of serve).

FILE is replaced in one go and keeps its mode and owner, but not its comments.
For - the keys are read from standard input, and the new ones are printed.`,
		Example: `  askback keys rotate askback.keys
  vault kv get -field=keys secret/askback | askback keys rotate - > new.keys`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case force && cmd.Flags().Changed("wait"):
				return cli.Usagef("--force does not wait: leave --wait out")
			case force:
				wait = 0
			case wait <= 0:
				return cli.Usagef("--wait %v: want a time above zero, or --force", wait)
			}
			return rotate(cmd, args[0], wait)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "do not wait: states that are still alive may be refused")
	cmd.Flags().DurationVar(&wait, "wait", defaultWait, "`TIME` that the step before must have settled")
	return cmd
}

// rotate takes one step.
func rotate(cmd *cobra.Command, file string, wait time.Duration) error {
	return changeKeys(cmd, file, func(ring *seal.Ring, place string) (*seal.Ring, string, error) {
		now := time.Now()
		next, step, err := ring.Rotate(now, wait)
		if errors.Is(err, seal.ErrTooEarly) {
			err = fmt.Errorf("%s: %w; --wait changes how long that is, --force does not wait", file, err)
		}
		if err != nil {
			return nil, "", err
		}
		return next, explainStep(step, ring, next, place, now, wait), nil
	})
}

// changeKeys replaces the keys of a file, or prints those that take the place of the keys on standard input. Change
// returns the new keys and what to tell about them. That goes to standard output or, if the keys go there, to standard
// error. Place names the keys in it.
func changeKeys(cmd *cobra.Command, file string,
	change func(ring *seal.Ring, place string) (next *seal.Ring, told string, err error)) error {
	place, out := "the keys", cmd.ErrOrStderr()
	if file != "-" {
		place, out = file, cmd.OutOrStdout()
		if err := checkReplaceable(file); err != nil {
			return err
		}
	}
	ring, err := keyfile.Read(cmd.Context(), file, cmd.InOrStdin())
	if err != nil {
		return err
	}
	next, told, err := change(ring, place)
	if err != nil {
		return err
	}
	if file == "-" {
		err = outputSecrets(cmd, next)
	} else {
		err = durable.Replace(file, next.EncodeSecrets())
	}
	if err != nil {
		return fmt.Errorf("replacing the keys: %w", err)
	}
	return cli.Output(out, told)
}

func revokeCommand() *cobra.Command {
	var before string
	cmd := &cobra.Command{
		Use:   "revoke FILE",
		Short: "Refuse every requestState that was sealed until now",
		Long: `Refuse every requestState that was sealed until now, or before the time of
--before, if states may have been stolen. The calls that wait for an answer have
to be made again. Tasks are not affected. Give the file to every server.

This does not help if a key has leaked, because its holder can seal states of
any time: make a new key file instead.

FILE is replaced in one go and keeps its mode and owner, but not its comments.
For - the keys are read from standard input, and the new ones are printed.`,
		Example: `  askback keys revoke askback.keys
  askback keys revoke --before 2026-11-20T11:00:00Z askback.keys`,
		RunE: func(cmd *cobra.Command, args []string) error {
			at := time.Now()
			if before != "" {
				var err error
				if at, err = time.Parse(time.RFC3339, before); err != nil {
					return cli.Usagef("--before %q: want a time such as 2026-11-20T11:00:00Z", before)
				}
				if at.After(time.Now()) {
					return cli.Usagef("--before %s: that is in the future, and nobody could finish a call until then", before)
				}
			}
			return revoke(cmd, args[0], at)
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "refuse what was sealed before this `TIME` (default now)")
	return cmd
}

func revoke(cmd *cobra.Command, file string, before time.Time) error {
	return changeKeys(cmd, file, func(ring *seal.Ring, place string) (*seal.Ring, string, error) {
		next := ring.RevokeBefore(before)
		return next, fmt.Sprintf("revoke: a requestState that was sealed before %s no longer opens.\nNext: %s.\n",
			next.Revoked().Format(time.RFC3339), giveOut(place)), nil
	})
}

// giveOut says how servers get keys that have changed.
func giveOut(place string) string {
	return fmt.Sprintf("give %s to every server, and restart those that have the keys in %s", place, keyfile.Variable)
}

// explainStep describes a step, and the one that follows.
func explainStep(step seal.Step, old, next *seal.Ring, place string, now time.Time, wait time.Duration) string {
	keys := next.Keys()
	sealing, others := keys[0].ID(), keyfile.IDs(keys[1:])
	taken := now.Add(time.Second - time.Nanosecond).Truncate(time.Second) // Rotate rounds up to seconds
	var did, then string
	switch step {
	case seal.StepLearn:
		newest := keys[len(keys)-1]
		taken = newest.Created()
		did = fmt.Sprintf("learn: the new key %s opens requestState from now on; %s still seals.", newest.ID(), sealing)
		then = "the new key will seal"
	case seal.StepSwitch:
		did = fmt.Sprintf("switch: the new key %s seals from now on; %s still opens what it sealed.", sealing, others)
		then = "the old key will be forgotten"
	case seal.StepForget:
		return fmt.Sprintf("forget: %s no longer opens anything; %s is the only key.\n"+
			"Next: %s.\nThat completes the rotation.\n", keyfile.IDs(old.Keys()[1:]), sealing, giveOut(place))
	}
	if wait == 0 {
		wait = defaultWait // --force may have been for this step alone
	}
	return fmt.Sprintf("%s\nNext: %s.\nThen, not before %s, rotate again: %s.\n",
		did, giveOut(place), taken.Add(wait).UTC().Format(time.RFC3339), then)
}

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list FILE",
		Short:   "List the keys of a file, without their secrets",
		Long:    "List the keys of FILE, without their secrets. For - they are read from standard\ninput.",
		Example: "  askback keys list askback.keys",
		RunE: func(cmd *cobra.Command, args []string) error {
			ring, err := keyfile.Read(cmd.Context(), args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			return cli.Output(cmd.OutOrStdout(), keyTable(ring))
		},
	}
}

func keyTable(ring *seal.Ring) string {
	keys := ring.Keys()
	rows := []string{"ID\tCREATED\tROLE"}
	for i, k := range keys {
		role := "seals"
		switch {
		case i > 0 && k.Created().After(keys[0].Created()):
			role = "opens only (to seal after the switch)"
		case i > 0:
			role = "opens only (sealed before the switch)"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s", k.ID(), k.Created().Format(time.RFC3339), role))
	}
	if t := ring.Revoked(); !t.IsZero() {
		return cli.Table(rows) + fmt.Sprintf("\nWhat was sealed before %s is refused.\n", t.Format(time.RFC3339))
	}
	return cli.Table(rows)
}
