package checkcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askback-mcp/askback/check/findings"
	checkreport "github.com/askback-mcp/askback/check/report"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// reportFlags are the flags for what a check writes.
type reportFlags struct {
	asJSON                              bool
	sarif, junit, transcripts, baseline string
	failOn                              string

	accepted *checkreport.Baseline
}

func (f *reportFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.failOn, "fail-on", "fail", "`LEVEL` that makes the exit code 6")
	flags.StringVar(&f.baseline, "baseline", "", "`FILE` of findings that are accepted")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	flags.StringVar(&f.sarif, "sarif", "", "`FILE` to write the findings as SARIF 2.1.0")
	flags.StringVar(&f.junit, "junit", "", "`FILE` to write as XML of JUnit")
	flags.StringVar(&f.transcripts, "transcripts", "", "`FOLDER` for a transcript of each finding")
}

// check finds mistakes before anything is sent.
func (f *reportFlags) check() error {
	if !slices.Contains(findings.Levels[:3], findings.Level(f.failOn)) {
		return cli.Usagef("--fail-on %s: want fail, warn or note", f.failOn)
	}
	if f.baseline == "" {
		return nil
	}
	text, err := cli.ReadInput(f.baseline, nil)
	if err == nil {
		if f.accepted, err = checkreport.ParseBaseline(text); err != nil {
			return cli.Usagef("--baseline %s: %w", f.baseline, err)
		}
	}
	return err
}

// write writes a report wherever it is wanted, and returns the error that makes the exit code.
func (f *reportFlags) write(cmd *cobra.Command, r *findings.Report) error {
	if f.accepted != nil {
		f.accepted.Apply(r, time.Now())
	}
	for _, file := range []struct {
		name string
		make func() (string, error)
	}{
		{f.sarif, func() (string, error) { return checkreport.SARIF(r) }},
		{f.junit, func() (string, error) { return checkreport.JUnit(r, findings.Level(f.failOn)) }},
	} {
		if file.name == "" {
			continue
		}
		text, err := file.make()
		if err == nil {
			err = os.WriteFile(file.name, []byte(text), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if f.transcripts != "" {
		if err := writeTranscripts(f.transcripts, r); err != nil {
			return err
		}
	}
	stdout := cmd.OutOrStdout()
	text, err := checkreport.Text(r, f.textOptions(stdout)), error(nil)
	if f.asJSON {
		text, err = checkreport.JSON(r)
	}
	if err == nil {
		err = cli.Output(stdout, text)
	}
	if err != nil {
		return err
	}
	return checkExit(r, findings.Level(f.failOn))
}

// widest is the longest line of a report that is easy to read, in columns.
const widest = 100

// textOptions fit a report to where it is written.
func (f *reportFlags) textOptions(to io.Writer) checkreport.TextOptions {
	o := checkreport.TextOptions{Directory: f.transcripts}
	if !cli.IsTerminal(to) {
		return o
	}
	o.Width = min(cli.TerminalColumns(to), widest)
	o.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return o
}

// writePrivate writes a file that only its owner can read, also if it was there before.
func writePrivate(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = f.Chmod(0o600); err == nil {
		_, err = f.WriteString(text)
	}
	return errors.Join(err, f.Close())
}

// writeTranscripts writes the transcripts of findings, which only their owner can read.
func writeTranscripts(folder string, r *findings.Report) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("--transcripts: %w", err)
	}
	for i, name := range checkreport.TranscriptNames(r) {
		if name == "" {
			continue
		}
		if err := writePrivate(filepath.Join(folder, name), r.Verdicts[i].Transcript); err != nil {
			return fmt.Errorf("--transcripts: %w", err)
		}
	}
	return nil
}

// checkExit is the error that makes the exit code of a report.
func checkExit(r *findings.Report, failOn findings.Level) error {
	for _, v := range r.Verdicts {
		if v.Accepted == "" && v.Level.AtLeast(failOn) {
			return cli.WithCode(cli.ExitFindings, errors.New(""))
		}
	}
	if !r.Judged() {
		return cli.WithCode(cli.ExitNotJudged, errors.New(""))
	}
	return nil
}
