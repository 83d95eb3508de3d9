// Package inspectcmd shows what a requestState holds.
package inspectcmd

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/seal"
)

// Command returns 'askback inspect'.
func Command() *cobra.Command {
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
` + keyfile.Variable + `. For - the state is read from standard input.`,
		Example: `  askback inspect --keys askback.keys ab1.…
  jq -r .result.requestState response.json | askback inspect --json -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.OneStdin(map[string]string{"STATE": args[0], "--keys": file}); err != nil {
				return err
			}
			token := args[0]
			if token == "-" {
				text, err := cli.ReadInput("-", cmd.InOrStdin())
				if err != nil {
					return fmt.Errorf("reading standard input: %w", err)
				}
				token = string(text)
			}
			ring, source, err := keyfile.Configured(cmd.Context(), file, cmd.InOrStdin())
			if err != nil {
				return err
			}
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
			return cli.OutputJSON(w, r)
		}
		return cli.Output(w, r.text(time.Now()))
	}
	if ring == nil {
		r := newReport(visible, nil)
		r.hint = "Everything else is sealed. To see it, give the keys of the server that sealed it:\n" +
			"--keys FILE, or the environment variable " + keyfile.Variable + ".\n"
		return show(r)
	}
	if !slices.ContainsFunc(ring.Keys(), func(k seal.Key) bool { return k.ID() == visible.KeyID }) {
		if err := show(newReport(visible, nil)); err != nil {
			return err
		}
		return fmt.Errorf("the state was sealed with key %s, but %s has only %s: use the keys of the server that sealed it",
			visible.KeyID, source, keyfile.IDs(ring.Keys()))
	}
	state, err := ring.Inspect(token)
	if err != nil {
		return err
	}
	r := newReport(visible, state)
	r.Revoked = state.Issued.Before(ring.Revoked())
	return show(r)
}

// report is the output of inspect. Much of a state comes from clients, so values are quoted, or are JSON in which
// nothing acts on a terminal.
type report struct {
	Format  string         `json:"format"`
	Key     string         `json:"key"`
	ID      string         `json:"id"`
	Size    int            `json:"size"`
	Issued  time.Time      `json:"issued,omitzero"` // zero without keys, as all that follows
	Expires time.Time      `json:"expires,omitzero"`
	Revoked bool           `json:"revoked,omitempty"` // by the keys that opened it
	Binding *reportBinding `json:"binding,omitempty"`
	Call    *reportCall    `json:"call,omitempty"`    // nil if the payload is not a journal
	Payload []byte         `json:"payload,omitempty"` // base64, if it is not a journal

	hint string // shown in the text form only
}

type reportBinding struct {
	Audience  string `json:"audience"`
	Method    string `json:"method"`
	Target    string `json:"target"`
	Arguments string `json:"arguments"`
	Principal string `json:"principal"`
}

type reportCall struct {
	ID      string             `json:"id"`
	Started time.Time          `json:"started"`
	Rounds  int                `json:"rounds"`
	Pending []journal.Question `json:"pending"`
	Journal []reportEntry      `json:"journal"`
	Manual  string             `json:"manual,omitempty"`
	Trace   string             `json:"trace,omitempty"`
}

type reportEntry struct {
	Kind   string          `json:"kind"`
	Key    string          `json:"key"`
	Digest journal.Digest  `json:"digest,omitzero"`
	Value  json.RawMessage `json:"value,omitempty"`
	Base64 []byte          `json:"base64,omitempty"` // a value that is not JSON

	By []input.Provenance `json:"by,omitempty"` // who gave the answer
}

var kinds = map[journal.Kind]string{
	journal.Answer:     "answer",
	journal.Unread:     "unread answer",
	journal.Step:       "step",
	journal.Begun:      "step begun",
	journal.Failed:     "step failed",
	journal.Unanswered: "deadline passed",
	journal.Checkpoint: "checkpoint",
	journal.HandedBack: "handed back",
	journal.Delivered:  "used key",
	journal.Refused:    "refused answer",
	journal.NotShown:   "not shown",
	journal.Put:        "put to people",
	journal.Timed:      "put with a deadline",
	journal.Slept:      "slept",
}

// newReport makes a report. The state is nil without the keys to open it.
func newReport(visible seal.Visible, state *seal.State) *report {
	r := &report{Format: visible.Version, Key: visible.KeyID, ID: visible.ID, Size: visible.Size}
	if state == nil {
		return r
	}
	b := state.Binding
	r.Issued, r.Expires = state.Issued, state.Expires
	r.Binding = &reportBinding{b.Audience, b.Method, b.Target, hex.EncodeToString(b.Arguments[:]), b.Principal}
	j, err := journal.Decode(state.Payload)
	if err != nil {
		r.Payload = state.Payload // of a server that uses package seal alone
		return r
	}
	r.Call = &reportCall{ID: j.ID, Started: j.Started.UTC(), Rounds: j.Round,
		Pending: append([]journal.Question{}, j.Pending...), Journal: []reportEntry{}, Manual: j.Manual, Trace: j.Trace}
	for _, e := range j.Entries {
		entry := reportEntry{Kind: kinds[e.Kind], Key: e.Key, Digest: e.Digest, By: e.By}
		if json.Valid(e.Value) {
			entry.Value = e.Value
		} else {
			entry.Base64 = e.Value
		}
		r.Call.Journal = append(r.Call.Journal, entry)
	}
	return r
}

func (r *report) text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "format     %s\nkey        %s\nid         %s\nsize       %d bytes\n", r.Format, r.Key, r.ID, r.Size)
	if to := r.Binding; to != nil {
		principal := "anonymous"
		if to.Principal != "" {
			principal = strconv.Quote(to.Principal)
		}
		fmt.Fprintf(&b, "issued     %s\nexpires    %s\n", cli.Moment(r.Issued, now, ""),
			cli.Moment(r.Expires, now, "expired "))
		if r.Revoked {
			b.WriteString("revoked    the keys refuse what was sealed then\n")
		}
		fmt.Fprintf(&b, "\nbound to\n  audience   %q\n  method     %q\n  target     %q\n  arguments  digest %s\n  "+
			"principal  %s\n",
			to.Audience, to.Method, to.Target, to.Arguments, principal)
		if r.Call != nil {
			r.Call.print(&b, now)
		} else if sum, ok := journal.DecodeReference(r.Payload); ok {
			fmt.Fprintf(&b, "\nthe journal is in the server's store (States.Overflow)\n  %x\n", sum)
		} else {
			fmt.Fprintf(&b, "\npayload, not a journal that this release knows\n  %q\n", r.Payload)
		}
	}
	if r.hint != "" {
		fmt.Fprintf(&b, "\n%s", r.hint)
	}
	return b.String()
}

func (c *reportCall) print(b *strings.Builder, now time.Time) {
	fmt.Fprintf(b, "\ncall\n  id       %q\n  started  %s\n  rounds   %d so far\n", c.ID, cli.Moment(c.Started, now, ""),
		c.Rounds)
	if c.Trace != "" {
		fmt.Fprintf(b, "  trace    %q\n", c.Trace)
	}
	b.WriteString("\npending questions\n")
	for _, q := range c.Pending {
		fmt.Fprintf(b, "  %q", q.Key)
		printDigest(b, q.Digest)
		if q.Wire != q.Key {
			fmt.Fprintf(b, "  sent as %q", q.Wire)
		}
		b.WriteByte('\n')
	}
	if len(c.Pending) == 0 {
		b.WriteString("  none\n")
	}
	b.WriteString("\njournal\n")
	for _, e := range c.Journal {
		fmt.Fprintf(b, "  %s %q", e.Kind, e.Key)
		printDigest(b, e.Digest)
		b.WriteByte('\n')
		for _, by := range e.By {
			fmt.Fprintf(b, "    by %q through %q, %s", by.Who, by.Channel, cli.Moment(by.When, now, ""))
			if by.Why != "" {
				fmt.Fprintf(b, ", because %q", by.Why)
			}
			b.WriteByte('\n')
		}
		if value := slices.Concat(e.Value, e.Base64); len(value) > 0 {
			fmt.Fprintf(b, "    %s\n", cli.IndentedRaw(value))
		}
	}
	if c.Manual != "" {
		fmt.Fprintf(b, "  the handler's own state\n    %s\n", cli.IndentedRaw([]byte(c.Manual)))
	}
	if len(c.Journal) == 0 && c.Manual == "" {
		b.WriteString("  empty\n")
	}
}

func printDigest(b *strings.Builder, d journal.Digest) {
	if text := d.String(); text != "" {
		b.WriteString("  digest " + text)
	}
}
