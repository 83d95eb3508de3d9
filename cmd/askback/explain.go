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
		return fmt.Errorf("there is no program %s%s", at.program[0], at.hint())
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
	if _, missing := errors.AsType[*missingError](err); missing {
		return &exitError{exitWaits, err}
	}
	if _, unfit := errors.AsType[*unfitError](err); unfit {
		return usageError{err}
	}
	if _, wrong := errors.AsType[*argumentsError](err); wrong {
		return usageError{err}
	}
	undeclared, isUndeclared := errors.AsType[*client.UndeclaredError](err)
	fault, isFault := errors.AsType[*jsonrpc.Error](err)
	wants := ""
	if isUndeclared {
		wants = undeclared.Kind
	}
	if isFault && fault.Code == mcp.CodeMissingRequiredClientCapabilities {
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
