package main

import "fmt"

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

// exitError ends the command with an exit code. Without an error nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is a mistake in the command line. The command ends with [exitUsage] and refers to the help.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}
