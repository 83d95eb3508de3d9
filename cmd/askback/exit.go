package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitToolError   = 3 // the tool answered with an error
	exitWaits       = 4 // the call waits for answers
	exitAtOnce      = 5 // --detach, but the server answered at once with the result
	exitFindings    = 6 // a check found something as grave as --fail-on
	exitNotJudged   = 7 // a check could judge nothing
	exitInterrupted = 130
)

// exitError ends the command with an exit code. An empty text is not printed. With [exitUsage] the command refers to
// the help.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// usagef returns the error of a mistake in the command line, or in a file that it names.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// noSession explains [mcp.ErrSessionMissing].
const noSession = "; the server has closed the session, or a proxy in front of several servers " +
	"does not keep a session with its server"

// explain adds the way out to the error of a conversation, and the exit code.
func explain(err error) error {
	if _, explained := errors.AsType[*exitError](err); explained {
		return err
	}
	if errors.Is(err, mcp.ErrSessionMissing) {
		return fmt.Errorf("%w%s", err, noSession)
	}
	wants := ""
	if undeclared, ok := errors.AsType[*client.UndeclaredError](err); ok {
		wants = undeclared.Kind
	} else if fault, ok := errors.AsType[*jsonrpc.Error](err); ok &&
		fault.Code == mcp.CodeMissingRequiredClientCapabilities {
		wants = string(fault.Data)
	}
	err = faultText(err)
	switch {
	case strings.Contains(wants, "roots"):
		return fmt.Errorf("%w; name roots with --root", err)
	case strings.Contains(wants, "tools"):
		return fmt.Errorf("%w; name a model that can use tools with --sampler", err)
	}
	return err
}

// faultText reduces an error that contains a server's error to the server's code and message.
func faultText(err error) error {
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Errorf("the server answered with error %d: %s", fault.Code, fault.Message)
	}
	return err
}
