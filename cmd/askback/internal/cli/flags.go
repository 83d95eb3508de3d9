package cli

import (
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/pflag"
)

// MessageBytesFlag adds the flag for the bytes of a message.
func MessageBytesFlag(flags *pflag.FlagSet, most *int) {
	flags.IntVar(most, "max-bytes", 0, "`N` bytes of one message, at most (default 16 MiB)")
}

// CheckMessageBytes finds a bound that nothing fits in.
func CheckMessageBytes(most int) error {
	if most != 0 && most < 1024 {
		return Usagef("--max-bytes %d: want at least 1024", most)
	}
	return nil
}

// CheckRevision finds a revision that the SDK does not speak. Empty is none.
func CheckRevision(flag, version string) error {
	if known := mcp.SupportedProtocolVersions(); version != "" && !slices.Contains(known, version) {
		return Usagef("%s %s: want one of %s", flag, version, strings.Join(known, ", "))
	}
	return nil
}
