package affinity

import (
	"errors"
	"fmt"
	"reflect"
)

// ErrSpace means a space is declared wrongly: the text lists every fault.
var ErrSpace = errors.New("affinity: bad space")

// ErrUndeclared means a tag is not among those that its space declares, or a
// Home is the zero one: declare the tag, and get the Home from HomeOf.
var ErrUndeclared = errors.New("affinity: undeclared tag")

// ErrElsewhere means a key lives on another shard than the one asked: ask
// that one, or enter through a Switch. An [ElsewhereError] says which.
var ErrElsewhere = errors.New("affinity: key lives elsewhere")

// ErrRoute means a space's Route answered with a shard that does not exist:
// it must answer for exactly the declared shards.
var ErrRoute = errors.New("affinity: route out of range")

// ErrKey means a key is the zero Key or was located in another space: get it
// from the Home of this one.
var ErrKey = errors.New("affinity: key not located in this space")

// ErrSwitch means a switch does not have exactly one case for each shard: the
// text lists those that are missing or too many.
var ErrSwitch = errors.New("affinity: bad switch")

// ErrBridge means a bridge is declared wrongly: the text lists every fault.
var ErrBridge = errors.New("affinity: bad bridge")

// ErrAbsent means a shard holds nothing under a key.
var ErrAbsent = errors.New("affinity: no such row")

// ErrDone means a Tx was used after the function that it was given to: start
// another with [Shard.Do].
var ErrDone = errors.New("affinity: transaction is over")

// ElsewhereError tells where a key lives. It matches [ErrElsewhere].
type ElsewhereError struct {
	Asked string // the tag of the shard that was asked
	Owner string // the tag of the shard that has the key
}

// Error names both shards.
func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%v: asked %s, lives on %s", ErrElsewhere, e.Asked, e.Owner)
}

// Is reports whether target is [ErrElsewhere].
func (e *ElsewhereError) Is(target error) bool { return target == ErrElsewhere }

// zeroHome is the error of a Home that HomeOf did not make.
func zeroHome[S any]() error {
	return fmt.Errorf("%w: the zero Home of %v: get it from HomeOf", ErrUndeclared, reflect.TypeFor[S]())
}
