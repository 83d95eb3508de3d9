package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

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
	exitInterrupted = 130
)

// exitError ends the command with an exit code. An empty text is not printed. With [exitUsage] the command refers to the
// help.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// usagef returns the error of a mistake in the command line, or in a file that it names.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// unreachable explains why connecting failed.
func unreachable(at target, err error, p *program) error {
	if ended := p.failure(); ended != nil {
		return ended
	}
	reason := rootCause(err)
	switch {
	case p == nil:
		return fmt.Errorf("cannot speak to %s: %w%s", at.address.Redacted(), reason, httpHint(reason))
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		hint := ""
		if strings.Contains(at.program[0], ":") {
			hint = ": a URL begins with http:// or https://"
		}
		return fmt.Errorf("there is no program %s%s", at.program[0], hint)
	}
	return fmt.Errorf("cannot speak to %s: %w", at.program[0], reason)
}

var layers = regexp.MustCompile(`^connecting: (calling "[^"]*": |sending "[^"]*": )*`)

// rootCause removes what the layers below add to an error and a user has no use for.
func rootCause(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		return faultText(err)
	}
	return errors.New(layers.ReplaceAllString(err.Error(), ""))
}

func httpHint(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "; does the server run?"
	case strings.Contains(text, "Unauthorized"), strings.Contains(text, "Forbidden"):
		return "; does it want --header 'Authorization: …'?"
	case strings.Contains(text, "Not Found"), strings.Contains(text, "Method Not Allowed"), strings.Contains(text, "Not Implemented"):
		return "; is the path right? Many servers have their endpoint at /mcp"
	}
	return ""
}

// explain adds the way out to the error of a conversation, and the exit code.
func explain(err error) error {
	if _, explained := errors.AsType[*exitError](err); explained {
		return err
	}
	wants := ""
	if undeclared, ok := errors.AsType[*client.UndeclaredError](err); ok {
		wants = undeclared.Kind
	} else if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == mcp.CodeMissingRequiredClientCapabilities {
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
