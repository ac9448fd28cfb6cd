package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes that scripts rely on.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // or it needs --yes
	exitUnhealthy   = 3 // something is found that wants to be put right
	exitUnreachable = 4
	exitTimeout     = 5
)

// silent ends a command whose output says all.
type silent struct{ code int }

func (e silent) Error() string { return fmt.Sprintf("exit %d", e.code) }

// coded is an error with an exit code of its own.
type coded struct {
	code int
	err  error
}

func (e coded) Error() string { return e.err.Error() }
func (e coded) Unwrap() error { return e.err }

// report tells an error and returns the exit code.
func report(root, cmd *cobra.Command, err error) int {
	var quiet silent
	if errors.As(err, &quiet) {
		return quiet.code
	}
	// Errors of the packages begin with their names, too.
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "cleave: "), "api: ")
	fmt.Fprintf(root.ErrOrStderr(), "cleave: %s\n", text)
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(root.ErrOrStderr(), "See '%s --help'.\n", cmd.CommandPath())
		return exitUsage
	}
	var code coded
	if errors.As(err, &code) {
		return code.code
	}
	return exitFailed
}
