package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// NoSession explains [mcp.ErrSessionMissing].
const NoSession = "; the server has closed the session, or a proxy in front of several servers " +
	"does not keep a session with its server"

// FaultText reduces an error that contains a server's error to the server's code and message.
func FaultText(err error) error {
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Errorf("the server answered with error %d: %s", fault.Code, fault.Message)
	}
	return err
}

// Unreachable explains why connecting failed.
func Unreachable(at Target, err error) error {
	reason := rootCause(err)
	switch {
	case at.Address != nil:
		return fmt.Errorf("cannot speak to %s: %w%s", at.Address.Redacted(), reason, httpHint(reason))
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		hint := ""
		if strings.Contains(at.Program[0], ":") {
			hint = ": a URL begins with http:// or https://"
		}
		return fmt.Errorf("there is no program %s%s", at.Program[0], hint)
	}
	return fmt.Errorf("cannot speak to %s: %w", at.Program[0], reason)
}

var layers = regexp.MustCompile(`^connecting: (calling "[^"]*": |sending "[^"]*": )*`)

// rootCause removes what the layers below add to an error and a user has no use for.
func rootCause(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return failed
	}
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		return FaultText(err)
	}
	return errors.New(layers.ReplaceAllString(err.Error(), ""))
}

func httpHint(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "; is the server running?"
	case strings.Contains(text, mcp.ErrSessionMissing.Error()):
		return NoSession
	case strings.Contains(text, "Unauthorized"), strings.Contains(text, "Forbidden"):
		return "; does it want --header 'Authorization: …'?"
	case strings.Contains(text, "Not Found"), strings.Contains(text, "Method Not Allowed"),
		strings.Contains(text, "Not Implemented"):
		return "; is the path right? Many servers have their endpoint at /mcp"
	}
	return ""
}
