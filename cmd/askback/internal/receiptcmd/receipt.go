// Package receiptcmd verifies receipts of decisions.
package receiptcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox/receipt"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Command returns 'askback receipt'.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "receipt",
		Short: "Verify the receipt of a decision",
		RunE:  cli.NeedsCommand,
	}
	cmd.AddCommand(verifyCommand())
	return cmd
}

type verifyFlags struct {
	keys, arguments string
	asJSON          bool
}

func verifyCommand() *cobra.Command {
	f := new(verifyFlags)
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check that a server has signed a receipt, and show what it states",
		Long: `Check that a server has signed a receipt, and show what it states. FILE is what
the page or 'askback inbox show --receipt' gave, or a JWS alone; - reads
standard input. --keys has the public keys, as a file or from an inbox's
receipts.jwks.

FILE also has the salt, the content and the reasons. They are compared with the
digests in the receipt. --arguments compares the arguments of the call as well.

--json prints an object with statement, kid, keys, file and compared. The key
with this kid, of these keys, has signed. Compared lists what was given beside
the receipt and fits: "content", "reasons", "arguments".

Exit codes: 0 all of it fits; 1 it does not, or the keys cannot be had; 2 wrong
usage.`,
		Example: `  askback receipt verify given.json --keys https://in.example.com/receipts.jwks
  askback receipt verify receipt.json --keys keys.jwks --arguments @given.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.keys == "" {
				return cli.Usagef("--keys is missing: the public keys of the server, as a file or a URL")
			}
			return f.verify(cmd, args[0])
		},
	}
	cmd.Flags().StringVar(&f.keys, "keys", "", "`KEYS` of the server: a file, or a URL")
	cmd.Flags().StringVar(&f.arguments, "arguments", "", "`JSON` arguments to compare, @FILE or -")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

// mostBytes bounds what is read.
const mostBytes = 1 << 20

func (f *verifyFlags) verify(cmd *cobra.Command, name string) error {
	data, err := cli.ReadInput(name, cmd.InOrStdin())
	if err != nil {
		return err
	}
	held, err := read(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var arguments []byte
	if f.arguments != "" {
		arguments = []byte(f.arguments)
		if file, isFile := strings.CutPrefix(f.arguments, "@"); isFile || file == "-" {
			if arguments, err = cli.ReadInput(file, cmd.InOrStdin()); err != nil {
				return cli.Usagef("--arguments: %w", err)
			}
		}
	}
	keys, err := readKeys(cmd.Context(), f.keys)
	if err != nil {
		return fmt.Errorf("--keys: %w", err)
	}
	s, err := receipt.Verify(held.JWS, keys)
	if err != nil {
		return err
	}
	if misfit := compare(s, held, arguments); misfit != "" {
		return fmt.Errorf("the server has signed the receipt, but %s", misfit)
	}
	v := verified{s, s.KeyID, shownKeys(f.keys), name, compared(held, arguments)}
	if f.asJSON {
		return cli.OutputJSON(cmd.OutOrStdout(), v)
	}
	return cli.Output(cmd.OutOrStdout(), text(&v, held))
}

// verified is what was found out about a receipt.
type verified struct {
	Statement *receipt.Statement `json:"statement"`
	KeyID     string             `json:"kid"`      // of the key that has signed
	Keys      string             `json:"keys"`     // the file or URL that has it
	File      string             `json:"file"`     // the receipt's
	Compared  []string           `json:"compared"` // what fits, of all that was given beside the receipt
}

// compared lists what was given beside a receipt.
func compared(held *desk.Receipt, arguments []byte) []string {
	list := []string{}
	if held.Salt != "" { // without a content nobody has accepted one
		list = append(list, "content")
	}
	if len(held.Reasons) > 0 {
		list = append(list, "reasons")
	}
	if arguments != nil {
		list = append(list, "arguments")
	}
	return list
}

// shownKeys is the name of a file, or a URL without a password.
func shownKeys(from string) string {
	if u, err := url.Parse(from); err == nil && u.User != nil {
		return u.Redacted()
	}
	return from
}

// read reads a receipt with what belongs to it, or a JWS alone.
func read(data []byte) (*desk.Receipt, error) {
	if len(data) > mostBytes {
		return nil, fmt.Errorf("it has more than %d bytes", mostBytes)
	}
	alone := strings.TrimSpace(string(data))
	if !strings.HasPrefix(alone, "{") {
		return &desk.Receipt{JWS: alone}, nil
	}
	held := new(desk.Receipt)
	if err := strictjson.Check(data, strictjson.MaxDepth); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, held); err != nil || held.JWS == "" {
		return nil, errors.New("it is no receipt: the member \"receipt\" is missing, or another has the wrong type")
	}
	return held, nil
}

// compare says what does not fit the statement, or nothing.
func compare(s *receipt.Statement, held *desk.Receipt, arguments []byte) string {
	if held.Salt == "" && held.Content != nil {
		return "the file has a content without the salt, so nothing shows that it was accepted"
	}
	if held.Salt != "" && !s.HasContent(held.Salt, held.Content) {
		return "another content was accepted than the file has"
	}
	for who, why := range held.Reasons {
		if !s.HasReason(held.Salt, who, why) {
			return fmt.Sprintf("%q gave another reason than the file has, or no vote", who)
		}
	}
	if arguments != nil && !s.HasArguments(arguments) {
		return "the call had other arguments"
	}
	return ""
}

// readKeys reads a file, or what a URL has.
func readKeys(ctx context.Context, from string) ([]byte, error) {
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		data, err := os.ReadFile(from)
		if err == nil && len(data) > mostBytes {
			err = fmt.Errorf("the file has more than %d bytes", mostBytes)
		}
		return data, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	direct := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := direct.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", u.Redacted(), res.Status)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, mostBytes+1))
	if err == nil && len(data) > mostBytes {
		err = fmt.Errorf("%s answers more than %d bytes", u.Redacted(), mostBytes)
	}
	return data, err
}

// text is what was found out, for people.
func text(found *verified, held *desk.Receipt) string {
	s := found.Statement
	line := func(text string) string { return cli.HarmlessLine(text, 300) }
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
	rows := []string{
		"server\t" + line(s.Server), "tool\t" + line(s.Tool), "caller\t" + line(cmp.Or(s.Caller, "(anonymous)")),
		"task\t" + line(s.Task), "question\t" + line(s.Key), "asked\t" + at(s.Asked),
		fmt.Sprintf("for\t%s, votes: %d", line(cli.Keys(s.For)), s.Votes),
	}
	if !s.Deadline.IsZero() {
		rows = append(rows, "deadline\t"+at(s.Deadline))
	}
	rows = append(rows, fmt.Sprintf("decided\t%s, %s", line(s.Action), at(s.Decided)))
	for _, v := range s.Voters {
		row := fmt.Sprintf("by\t%s, %s, via %s", line(v.Who), at(v.When), line(v.Channel))
		if len(v.Groups) > 0 {
			row += ", member of " + line(strings.Join(v.Groups, ", "))
		}
		if why := held.Reasons[v.Who]; why != "" {
			row += ": " + line(why)
		}
		rows = append(rows, row)
	}
	if held.Content != nil {
		rows = append(rows, "content\t"+line(string(held.Content)))
	}
	arguments := "arguments\tSHA-256 " + line(s.Arguments)
	if slices.Contains(found.Compared, "arguments") {
		arguments += ", as given"
	}
	rows = append(rows, "shown\tSHA-256 "+line(s.Shown), arguments,
		"compared\t"+cmp.Or(strings.Join(found.Compared, ", "), "nothing"),
		"signed by\t"+line(found.KeyID)+", of "+line(found.Keys))
	return "The server has signed this receipt.\n" + cli.Table(rows)
}
