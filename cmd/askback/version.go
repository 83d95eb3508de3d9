package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return output(cmd.OutOrStdout(), fmt.Sprintf("askback %s (%s %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
		},
	}
}

// version returns the module's version that the go command recorded, or "devel".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
