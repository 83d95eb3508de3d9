package cli

import (
	"errors"
	"fmt"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitToolError   = 3 // the tool answered with an error
	ExitWaits       = 4 // the call waits for answers
	ExitAtOnce      = 5 // --detach, but the server answered at once with the result
	ExitFindings    = 6 // a check found something as grave as --fail-on
	ExitNotJudged   = 7 // a check could judge nothing
	ExitInterrupted = 130
)

// exitError is an error with an exit code. The command does not print an empty text. With [ExitUsage] it refers to the
// help.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// WithCode returns an error that ends the command with an exit code.
func WithCode(code int, err error) error { return &exitError{code, err} }

// ExitCode returns the exit code that an error was given, and whether it has one.
func ExitCode(err error) (code int, given bool) {
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code, true
	}
	return ExitFailure, false
}

// Usagef returns the error of a mistake in the command line, or in a file that it names.
func Usagef(format string, args ...any) error {
	return WithCode(ExitUsage, fmt.Errorf(format, args...))
}
