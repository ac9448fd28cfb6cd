package engine

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// What the engine refuses. Errors of the packages below are returned as they are: package cleave
// gives all of them their public names.
var (
	// ErrOptions means that an argument is out of its range: the text says which, and what to use.
	ErrOptions = errors.New("engine: bad options")
	// ErrClosed means that the DB was closed.
	ErrClosed = errors.New("engine: closed")
	// ErrConflict means that a transaction met conflicts until its context ended.
	ErrConflict = errors.New("engine: conflict")
	// ErrReadOnly means that a transaction of View tried to write.
	ErrReadOnly = errors.New("engine: a View cannot write")
	// ErrTxnOver means that a transaction was used after its function had returned.
	ErrTxnOver = errors.New("engine: the transaction is over")
	// ErrIndexBuilding means that an index does not have the entries of all rows yet.
	ErrIndexBuilding = errors.New("engine: the index is being built")
	// ErrUndeclared means that the function of an index was not declared.
	ErrUndeclared = errors.New("engine: the function of the index is not declared")
	// ErrUnique means that another row has the entry already: see [UniqueError].
	ErrUnique = errors.New("engine: another row has the same entry in a unique index")
)

// errRetry is a conflict of the transaction itself, as opposed to one that its function has met.
var errRetry = errors.New("engine: retry")

// errStop ends a loop whose consumer has stopped.
var errStop = errors.New("engine: the reader has stopped")

func optionErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...))
}

// UniqueError reports which row has the entry of a unique index that another one was to get. It
// matches [ErrUnique].
type UniqueError struct {
	Keyspace, Index string
	// Entry is what both have.
	Entry key.Tuple
	// Key is the row that has it, and Row the one that was refused.
	Key, Row []byte
}

// Error names the index and both rows.
func (e *UniqueError) Error() string {
	return fmt.Sprintf("%v: index %q of keyspace %q: %v of key %q is that of key %q", ErrUnique, e.Index, e.Keyspace, e.Entry,
		e.Row[:min(len(e.Row), maxShownKeyBytes)], e.Key[:min(len(e.Key), maxShownKeyBytes)])
}

// Is matches [ErrUnique].
func (e *UniqueError) Is(target error) bool { return target == ErrUnique }

// BuildingError reports why an index cannot be read. It matches [ErrIndexBuilding].
type BuildingError struct {
	Keyspace, Index string
	// Stalled is why it stands still, nil if it does not.
	Stalled error
}

// Error names the index.
func (e *BuildingError) Error() string {
	text := fmt.Sprintf("%v: %q of keyspace %q", ErrIndexBuilding, e.Index, e.Keyspace)
	if e.Stalled != nil {
		text += fmt.Sprintf(", but it stands still: %v", e.Stalled)
	}
	return text
}

// Is matches [ErrIndexBuilding].
func (e *BuildingError) Is(target error) bool { return target == ErrIndexBuilding }

// StalledError is the error of a wait for an index that stands still. It matches both of its parts.
type StalledError struct {
	Ended   error // that of the context
	Stalled error // why the index stands still
}

// Error has both parts.
func (e *StalledError) Error() string { return fmt.Sprintf("%v: %v", e.Ended, e.Stalled) }

// Unwrap returns both parts.
func (e *StalledError) Unwrap() []error { return []error{e.Ended, e.Stalled} }

// BatchWriteError reports which write of a batch cannot be done.
type BatchWriteError struct {
	Index int    // of the write, from 0
	Key   string // that it is about, see [FormatKey]
	Err   error
}

// Error names the write.
func (e *BatchWriteError) Error() string {
	return fmt.Sprintf("write %d, %s: %v", e.Index+1, e.Key, e.Err)
}

// Unwrap is why it cannot be done.
func (e *BatchWriteError) Unwrap() error { return e.Err }

// keyRef is where a key is.
type keyRef struct {
	k *node.Keyspace
	p partition.Position
}

// String names the key in an error.
func (a keyRef) String() string {
	key, _, err := a.k.Split(nil, a.p)
	if err != nil {
		return fmt.Sprintf("position %x of keyspace %s", []byte(a.p), a.k.Name)
	}
	return FormatKey(a.k, key)
}

// withKeyName adds to an error of a command which key it is about.
func withKeyName(at keyRef, err error) error {
	switch {
	case errors.Is(err, command.ErrConflict):
		return fmt.Errorf("%w: %v has changed: read it again", command.ErrConflict, at)
	case errors.Is(err, command.ErrWrongType), errors.Is(err, command.ErrNotInteger), errors.Is(err, command.ErrOverflow):
		return fmt.Errorf("%w: %v", err, at)
	}
	return err
}

// maxShownKeyBytes is how much of a key an error shows.
const maxShownKeyBytes = 40

// FormatKey names a key in an error.
func FormatKey(k *node.Keyspace, key []byte) string {
	if len(key) > maxShownKeyBytes {
		return fmt.Sprintf("key %q… of keyspace %s", key[:maxShownKeyBytes], k.Name)
	}
	return fmt.Sprintf("key %q of keyspace %s", key, k.Name)
}
