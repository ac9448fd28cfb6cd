package drive

import (
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// ErrAway means that a group is not open here: try again later.
var ErrAway = errors.New("drive: the group is not open")

// Place is an open group, and the store that it lives on.
type Place struct {
	Group *group.Group
	Store *store.Store
}

// Find returns the place of a group, or ErrAway.
type Find func(partition.GroupID) (Place, error)

// over returns the ranges of a list that overlap with a span.
func over(l *own.List, s partition.Span) []own.Range { return slices.Collect(l.Over(s)) }
