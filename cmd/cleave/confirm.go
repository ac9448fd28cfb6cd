package main

import (
	"errors"

	"github.com/cleavekv/cleave/internal/terminal"
)

// confirm asks, and is nil if the answer is yes. Without a terminal the command needs
// --yes, and says so.
func confirm(t *terminal.Terminal, question string) error {
	yes, err := t.Confirm(question)
	switch {
	case errors.Is(err, terminal.ErrNobody):
		return coded{exitUsage, errors.New(question + " There is no terminal to ask at: say --yes")}
	case err != nil:
		return err
	case !yes:
		return coded{exitFailed, errors.New("nothing was changed")}
	}
	return nil
}
