package cleave

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/node"
)

// OptionError is one of [Options] that cannot be as it is. It matches ErrOptions. Programs
// that have other names for options, such as flags, say with it what is wrong in their own
// words. When several are wrong the error has one for each.
type OptionError struct {
	// Option is the name of the field, and Value what it was, such as Groups and 3.
	Option, Value string
	// Use is what it may be, such as "1 to 64, or 0 for the default".
	Use string
	// Found is what the directory has that it does not go with, such as "there are 4
	// groups, not 3". It is empty if the value is out of its range in any directory.
	Found string
}

// Error says what is wrong and what to use.
func (e *OptionError) Error() string {
	if e.Found != "" {
		return fmt.Sprintf("%v: %s: open it with %s %s", ErrOptions, e.Found, e.Option, e.Use)
	}
	return fmt.Sprintf("%v: %s is %s: use %s", ErrOptions, e.Option, e.Value, e.Use)
}

// Is makes it match ErrOptions.
func (e *OptionError) Is(target error) bool { return target == ErrOptions }

// As finds an option that does not go with the directory, which the packages below see.
func (e *publicError) As(target any) bool {
	to, ok := target.(**OptionError)
	var found *node.OptionError
	if !ok || !errors.As(e.cause, &found) {
		return false
	}
	*to = &OptionError{Option: found.Option, Value: fmt.Sprint(found.Value), Use: fmt.Sprintf("0 or %d", found.Have), Found: found.Found}
	return true
}
