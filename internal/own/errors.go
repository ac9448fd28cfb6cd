package own

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/partition"
)

var (
	// ErrStale means that the list is not what a change expects: somebody else
	// has changed it. Nothing was changed now: look again.
	ErrStale = errors.New("own: the group's list has changed")
	// ErrWrongGroup means that the group does not serve a position, or not any
	// more: look at a newer map and ask the group that does. See [WrongGroupError].
	ErrWrongGroup = errors.New("own: another group serves this position")
	// ErrFrozen means that a range takes no writes for the moment, because it is
	// about to be given away: wait, and look at the map again.
	ErrFrozen = errors.New("own: the range is being given away")
	// ErrList means that ranges are not a list.
	ErrList = errors.New("own: bad list")
	// ErrRecord means that stored bytes are not a range that this version can
	// read: they are damaged, or a newer version wrote them.
	ErrRecord = errors.New("own: bad record: it is damaged, or of another version")
)

// WrongGroupError says what the group knows. It matches [ErrWrongGroup].
type WrongGroupError struct {
	Group partition.GroupID
	// Version is that of the newest map that the group had a part in: one that is
	// older is no good.
	Version partition.Version
}

// Error names the group.
func (e *WrongGroupError) Error() string {
	return fmt.Sprintf("%v: %v does not, as of version %d", ErrWrongGroup, e.Group, e.Version)
}

// Is matches ErrWrongGroup.
func (e *WrongGroupError) Is(target error) bool { return target == ErrWrongGroup }
