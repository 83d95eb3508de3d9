package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Help is read in terminals of 80 columns, and no command's is longer than a screen of 40 lines.
func TestHelpFitsTerminals(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		_, help, _ := command(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		lines := strings.Split(help, "\n")
		if len(lines) > 40 {
			t.Errorf("%s --help has %d lines", cmd.CommandPath(), len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand())
}
