// Package rulescmd tries a bridge's rules on calls, without running one.
package rulescmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/rules"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// Command returns 'askback rules'.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Try the rules of a bridge",
		RunE:  cli.NeedsCommand,
	}
	cmd.AddCommand(testCommand())
	return cmd
}

func testCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test FILE [CALLS]",
		Short: "Check a file of rules, and say what it decides about calls",
		Long: `Check a file of rules. With CALLS, say which rule decides about each call, and
how. Nothing is called.

CALLS is a file with a JSON object on each line, or - for standard input. It has
"server", "tool", "annotations", "definition", "arguments" and "caller", each of
which may be missing. With "want" it says which action is right: ask, allow or
deny.

Exit codes: 0 all is as it should be; 1 a rule could not be evaluated, or
decided otherwise than wanted; 2 wrong usage.`,
		Example: `  askback rules test rules.yaml
  askback rules test rules.yaml calls.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := rules.Read(args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if asJSON {
					return cli.OutputJSON(cmd.OutOrStdout(), map[string]string{"digest": r.Digest()})
				}
				return cli.Output(cmd.OutOrStdout(), fmt.Sprintf("No mistake was found. The SHA-256 of the rules is\n%s\n",
					r.Digest()))
			}
			text, err := cli.ReadInput(args[1], cmd.InOrStdin())
			if err != nil {
				return err
			}
			return try(cmd.Context(), cmd.OutOrStdout(), r, args[1], text, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each call")
	return cmd
}

// wanted is a call of a file, with the action that is right for it, or none.
type wanted struct {
	askback.ToolCall
	Want string `json:"want"`
}

// readCall reads a line of a file of calls.
func readCall(line []byte) (*wanted, error) {
	w := new(wanted)
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(w); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON object stands in this line")
	}
	switch w.Want {
	case "", askback.RuleAsk, askback.RuleAllow, askback.RuleDeny:
		return w, nil
	}
	return nil, fmt.Errorf("want %.100q: want one of ask, allow, deny", w.Want)
}

// verdict is the outcome for a call, as --json has it.
type verdict struct {
	Line   int      `json:"line"`
	Server string   `json:"server"`
	Tool   string   `json:"tool"`
	Caller string   `json:"caller"`
	Action string   `json:"action"`
	Rule   string   `json:"rule,omitempty"` // empty is the default
	Reason string   `json:"reason,omitempty"`
	For    []string `json:"for,omitempty"` // who is asked
	Votes  int      `json:"votes,omitempty"`
	Within string   `json:"within,omitempty"`
	Edit   bool     `json:"edit,omitempty"`
	// Remember is how long an approval lets equal calls pass, and Uses how many.
	Remember string   `json:"remember,omitempty"`
	Uses     int      `json:"uses,omitempty"`
	Failed   []string `json:"failed,omitempty"`
	Want     string   `json:"want,omitempty"`
}

func (v *verdict) wrong() bool { return v.Want != "" && v.Want != v.Action }

// String is a line about the call, and one about each fault.
func (v *verdict) String() string {
	by := "the default"
	if v.Rule != "" {
		by = fmt.Sprintf("the rule %q", v.Rule)
	}
	text := fmt.Sprintf("%d: %s of %s by %s: %s, says %s", v.Line, cmp.Or(v.Tool, "a tool without a name"),
		cmp.Or(v.Server, "a server without a name"), cmp.Or(v.Caller, "nobody"), v.Action, by)
	switch v.Action {
	case askback.RuleDeny:
		text += ": " + v.Reason
	case askback.RuleAsk:
		text += fmt.Sprintf(": %d of %s", v.Votes, strings.Join(v.For, ", "))
		if v.Within != "" {
			text += " within " + v.Within
		}
		if v.Edit {
			text += ", with edits"
		}
		if v.Remember != "" {
			text += fmt.Sprintf(", remembered for %s and %d calls", v.Remember, v.Uses)
		}
	}
	for _, failed := range v.Failed {
		text += "\n   cannot be evaluated: " + failed
	}
	if v.wrong() {
		text += "\n   wanted: " + v.Want
	}
	return text + "\n"
}

// try says what the rules decide about each call of a file.
func try(ctx context.Context, out io.Writer, r *rules.Rules, name string, text []byte, asJSON bool) error {
	calls, failed, wrong, n := 0, 0, 0, 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		w, err := readCall(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		calls++
		decided := r.Decide(ctx, &w.ToolCall)
		v := &verdict{Line: n, Server: w.Server, Tool: w.Tool, Caller: w.Caller, Action: decided.Action, Rule: decided.Rule,
			Reason: decided.Reason, For: decided.For, Votes: decided.Votes, Edit: decided.Edit, Failed: decided.Failed,
			Uses: decided.Uses, Want: w.Want}
		if v.Action == askback.RuleAsk && len(v.For) == 0 {
			v.For = []string{"user:" + w.Caller}
		}
		if decided.Within > 0 {
			v.Within = short(decided.Within)
		}
		if decided.Remember > 0 {
			v.Remember = short(decided.Remember)
		}
		if len(v.Failed) > 0 {
			failed++
		}
		if v.wrong() {
			wrong++
		}
		if asJSON {
			err = cli.OutputJSON(out, v)
		} else {
			err = cli.OutputForeign(out, v.String())
		}
		if err != nil {
			return err
		}
	}
	switch {
	case calls == 0:
		return fmt.Errorf("%s has no calls", name)
	case failed+wrong > 0:
		return fmt.Errorf("calls: %d, with rules that could not be evaluated: %d, decided otherwise than wanted: %d", calls,
			failed, wrong)
	}
	return nil
}

// short is a time without the zeros behind it, such as 4h.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
