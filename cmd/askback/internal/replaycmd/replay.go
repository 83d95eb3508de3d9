// Package replaycmd plays transcripts against running servers.
package replaycmd

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/rawclient/transcript"
)

// Command returns 'askback replay'.
func Command() *cobra.Command {
	var (
		part    string
		first   []string
		second  []string
		verbose bool
	)
	cmd := &cobra.Command{
		Use:   "replay FILE URL…",
		Short: "Play a transcript against running servers",
		Long: `Play the transcript in FILE against running servers: send its requests, and
compare the responses with the transcript. The command prints each step, and
stops at the first difference.

The header of a transcript names the servers that it is played against, with the
arguments of 'askback serve' that start them. Their URLs are given in the same
order, or by name: NAME=URL. Servers of one transcript share keys and data.
Without a URL the command says how to start each of them.

testdata/transcripts has some, and its README.md says how to write one.`,
		Example: `  askback replay testdata/transcripts/basic.txt http://127.0.0.1:8080/mcp
  askback replay two.txt A=http://127.0.0.1:8080/mcp B=http://127.0.0.1:8081/mcp`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := cli.ReadInput(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			t, err := transcript.Parse(filepath.Base(args[0]), text)
			if err != nil {
				return err
			}
			if part != "" && !slices.ContainsFunc(t.Parts, func(p *transcript.Part) bool { return p.Title == part }) {
				return cli.Usagef("--part %q: %s has %s", part, t.Name,
					cli.Join(t.Parts, func(p *transcript.Part) string { return strconv.Quote(p.Title) }))
			}
			urls, err := serverURLs(t, args[1:])
			if err != nil {
				return err
			}
			p := transcript.Player{URLs: urls, Part: part}
			if p.First, err = cli.ParseHeaders(first); err != nil {
				return err
			}
			if len(second) > 0 {
				if p.Second, err = cli.ParseHeaders(second); err != nil {
					return err
				}
			}
			return replay(cmd, t, p, verbose)
		},
	}
	cmd.Flags().StringArrayVar(&first, "header", nil, "`LINE` to send: 'Name: value' or @FILE")
	cmd.Flags().StringArrayVar(&second, "other-header", nil, "`LINE` of the second identity")
	cmd.Flags().StringVar(&part, "part", "", "play only the part with this `TITLE`")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print the messages")
	return cmd
}

// serverURLs returns the URL of each server of the transcript by the server's name.
func serverURLs(t *transcript.Transcript, args []string) (map[string]string, error) {
	urls := make(map[string]string)
	for _, arg := range args {
		name, address, named := strings.Cut(arg, "=")
		if i := strings.Index(arg, "://"); !named || i >= 0 && i < len(name) {
			name, address = "", arg // the = is part of the URL
			for _, s := range t.Servers {
				if name == "" && urls[s.Name] == "" {
					name = s.Name
				}
			}
			if name == "" {
				return nil, cli.Usagef("there are more URLs than servers: %s", startServers(t))
			}
		}
		if !slices.ContainsFunc(t.Servers, func(s transcript.Server) bool { return s.Name == name }) {
			return nil, cli.Usagef("%s has no server %q: %s", t.Name, name, startServers(t))
		}
		if urls[name] != "" {
			return nil, cli.Usagef("the server %s has two URLs", name)
		}
		to, err := cli.ParseTarget(address)
		if err == nil && to.Address == nil {
			err = cli.Usagef("%q is not a URL of HTTP, such as http://127.0.0.1:8080/mcp", address)
		}
		if err != nil {
			return nil, err
		}
		urls[name] = address
	}
	if len(urls) < len(t.Servers) {
		return nil, cli.Usagef("a URL is missing: %s", startServers(t))
	}
	return urls, nil
}

// startServers tells how to start the servers of a transcript.
func startServers(t *transcript.Transcript) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is played against", t.Name)
	width := 3
	for _, s := range t.Servers {
		width = max(width, len(s.Name))
	}
	for _, s := range t.Servers {
		line := "askback serve --addr 127.0.0.1:0"
		if len(t.Servers) > 1 {
			line += " --keys my.keys --data my.data"
		}
		for _, arg := range s.Args {
			line += " " + cli.ShellQuote(arg)
		}
		fmt.Fprintf(&b, "\n  %-*s %s", width, s.Name, line)
	}
	if len(t.Servers) > 1 {
		b.WriteString("\nwith keys made by 'askback keys new my.keys'")
	}
	return b.String()
}

func replay(cmd *cobra.Command, t *transcript.Transcript, p transcript.Player, verbose bool) error {
	heading := t.Title + "\n"
	if t.Document != "" {
		heading += strings.TrimSuffix(t.Document+", "+t.Section, ", ") + "\n"
	}
	var (
		begun  *transcript.Part
		failed error // the first error of the output
	)
	tell := func(text string) {
		if failed == nil {
			failed = cli.OutputForeign(cmd.OutOrStdout(), text)
		}
	}
	step := func(word string, s transcript.Step) {
		if begun != s.Part {
			begun = s.Part
			tell("\n" + s.Part.Title + "\n")
		}
		if len(t.Servers) > 1 && s.Server != "" {
			s.Title += " → " + s.Server
		}
		tell(fmt.Sprintf("  %-4s %2d  %s\n", word, s.Number, s.Title))
	}
	p.Report = func(s transcript.Step) {
		step("ok", s)
		for _, m := range s.Messages {
			if verbose {
				tell(strings.TrimRight(m.Head+"\n"+m.Text, "\n") + "\n")
			}
		}
	}
	tell(heading)
	err := t.Play(cmd.Context(), p)
	failure, ok := err.(*transcript.Failure)
	if !ok {
		return cmp.Or(err, failed)
	}
	step("FAIL", failure.Step)
	return fmt.Errorf("%w\n\n%s", failure, startServers(t))
}
