package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// docs/reference.md has every command, with flags that the command has, and every exit code.
func TestReferenceOfTheCommand(t *testing.T) {
	data := expect.Must(os.ReadFile("../../docs/reference.md"))(t)
	_, page, _ := strings.Cut(string(data), "\n## The command\n")
	var rows []string // of the table of commands
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| `askback ") {
			rows = append(rows, line)
		}
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.HasSubCommands() {
			for _, c := range cmd.Commands() {
				walk(c)
			}
			return
		}
		if !slices.ContainsFunc(rows, func(row string) bool { return names(row, cmd) }) {
			t.Errorf("docs/reference.md has no row for '%s'", cmd.CommandPath())
		}
	}
	walk(rootCommand())
	for _, row := range rows {
		checkFlags(t, row)
	}

	var codes []int
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(page, -1) {
		code, _ := strconv.Atoi(row[1])
		codes = append(codes, code)
	}
	want := []int{cli.ExitOK, cli.ExitFailure, cli.ExitUsage, cli.ExitToolError, cli.ExitWaits,
		cli.ExitAtOnce, cli.ExitInterrupted}
	expect.Same(t, "docs/reference.md has the exit codes", codes, want)
}

// commandsIn returns the commands that the first column of a row names. A name alone belongs to the command before it.
func commandsIn(row string) (all []*cobra.Command) {
	cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
	var parent []string
	for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		path := strings.Fields(span[1])
		if path[0] == "askback" {
			parent = path[:len(path)-1]
			path = path[1:]
		} else {
			path = append(slices.Clone(parent[1:]), path...)
		}
		if cmd, _, err := rootCommand().Find(path); err == nil {
			all = append(all, cmd)
		}
	}
	return all
}

func names(row string, cmd *cobra.Command) bool {
	return slices.ContainsFunc(commandsIn(row), func(c *cobra.Command) bool {
		return c.CommandPath() == cmd.CommandPath()
	})
}

// checkFlags checks that a command of a row has each flag of the last column.
func checkFlags(t *testing.T, row string) {
	t.Helper()
	cells := strings.Split(row, " | ")
	for _, flag := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(cells[len(cells)-1], -1) {
		if !slices.ContainsFunc(commandsIn(row), func(c *cobra.Command) bool { return c.Flags().Lookup(flag[1]) != nil }) {
			t.Errorf("no command of this row has the flag --%s: %s", flag[1], row)
		}
	}
}
