package conversation

import (
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// explain adds the way out to the error of a conversation, and the exit code.
func explain(err error) error {
	if _, explained := cli.ExitCode(err); explained {
		return err
	}
	if errors.Is(err, mcp.ErrSessionMissing) {
		return fmt.Errorf("%w%s", err, cli.NoSession)
	}
	wants := ""
	if undeclared, ok := errors.AsType[*client.UndeclaredError](err); ok {
		wants = undeclared.Kind
	} else if fault, ok := errors.AsType[*jsonrpc.Error](err); ok &&
		fault.Code == mcp.CodeMissingRequiredClientCapabilities {
		wants = string(fault.Data)
	}
	err = cli.FaultText(err)
	switch {
	case strings.Contains(wants, "roots"):
		return fmt.Errorf("%w; name roots with --root", err)
	case strings.Contains(wants, "tools"):
		return fmt.Errorf("%w; name a model that can use tools with --sampler", err)
	}
	return err
}
