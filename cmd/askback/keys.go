package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/seal"
)

// defaultWait is the sum of the default --ttl of serve and one hour for the rollout.
const defaultWait = 2 * time.Hour

func keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, rotate and list the keys that seal requestState",
		Long: `A key file holds the keys of all servers behind one endpoint. The first key
seals requestState, all of them open it. Servers read the file when they start.`,
		RunE: needsCommand,
	}
	cmd.AddCommand(keysNewCommand(), keysRotateCommand(), keysListCommand())
	return cmd
}

func keysNewCommand() *cobra.Command {
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
			if err := createKeyFile(args[0], ring.EncodeSecrets()); err != nil {
				return err
			}
			return output(cmd.OutOrStdout(), fmt.Sprintf("%s has the new key %s. Keep it secret, and give it to every server.\n", args[0], key.ID()))
		},
	}
}

func outputSecrets(cmd *cobra.Command, ring *seal.Ring) error {
	if f, ok := cmd.OutOrStdout().(*os.File); ok && isExposed(f.Stat()) {
		warn(cmd, "the keys go to a file that is open to every user of this machine: chmod 600 it")
	}
	return output(cmd.OutOrStdout(), ring.EncodeSecrets())
}

func keysRotateCommand() *cobra.Command {
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

Roll the file out to every server and restart them after each step. A step is
refused until the one before has settled for --wait, which has to cover both the
time that a rollout takes and the time to answer (--ttl of serve).

FILE is replaced in one go and keeps its mode and owner, but not its comments.
For - the keys are read from standard input, and the new ones are printed.`,
		Example: `  askback keys rotate askback.keys
  vault kv get -field=keys secret/askback | askback keys rotate - > new.keys`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case force && cmd.Flags().Changed("wait"):
				return usagef("--force does not wait: leave --wait out")
			case force:
				wait = 0
			case wait <= 0:
				return usagef("--wait %v: want a time above zero, or --force", wait)
			}
			return rotate(cmd, args[0], wait)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "do not wait: states that are still alive may be refused")
	cmd.Flags().DurationVar(&wait, "wait", defaultWait, "`TIME` that the step before must have settled")
	return cmd
}

// rotate takes one step. The explanation goes to standard output or, if the keys go there, to standard error.
func rotate(cmd *cobra.Command, file string, wait time.Duration) error {
	if file != "-" {
		if err := checkReplaceable(file); err != nil {
			return err
		}
	}
	ring, warning, err := readKeys(file, cmd.InOrStdin())
	if err != nil {
		return err
	}
	warn(cmd, warning)

	now := time.Now()
	next, step, err := ring.Rotate(now, wait)
	if errors.Is(err, seal.ErrTooEarly) {
		return fmt.Errorf("%s: %w; --wait changes how long that is, --force does not wait", file, err)
	}
	if err != nil {
		return err
	}

	out, place := cmd.OutOrStdout(), file
	if file == "-" {
		out, place = cmd.ErrOrStderr(), "the keys"
		err = outputSecrets(cmd, next)
	} else {
		err = replaceKeyFile(file, next.EncodeSecrets())
	}
	if err != nil {
		return fmt.Errorf("replacing the keys: %w", err)
	}
	return output(out, explainStep(step, ring, next, place, now, wait))
}

// explainStep tells what a step did, and which step is next.
func explainStep(step seal.Step, old, next *seal.Ring, place string, now time.Time, wait time.Duration) string {
	keys := next.Keys()
	sealing, others := keys[0].ID(), ids(keys[1:])
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
			"Next: give %s to every server and restart them. That completes the rotation.\n", ids(old.Keys()[1:]), sealing, place)
	}
	if wait == 0 {
		wait = defaultWait // --force may have been for this step alone
	}
	return fmt.Sprintf("%s\nNext: give %s to every server and restart them. Then, not before %s,\nrotate again: %s.\n",
		did, place, taken.Add(wait).UTC().Format(time.RFC3339), then)
}

func ids(keys []seal.Key) string {
	var names []string
	for _, k := range keys {
		names = append(names, k.ID())
	}
	return strings.Join(names, ", ")
}

func keysListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list FILE",
		Short:   "List the keys of a file, without their secrets",
		Long:    "List the keys of FILE, without their secrets. For - they are read from standard\ninput.",
		Example: "  askback keys list askback.keys",
		RunE: func(cmd *cobra.Command, args []string) error {
			ring, warning, err := readKeys(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			warn(cmd, warning)
			return output(cmd.OutOrStdout(), keyTable(ring))
		},
	}
}

func keyTable(ring *seal.Ring) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tCREATED\tROLE")
	keys := ring.Keys()
	for i, k := range keys {
		role := "seals"
		switch {
		case i > 0 && k.Created().After(keys[0].Created()):
			role = "opens only (to seal after the switch)"
		case i > 0:
			role = "opens only (sealed before the switch)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", k.ID(), k.Created().Format(time.RFC3339), role)
	}
	w.Flush()
	return b.String()
}
