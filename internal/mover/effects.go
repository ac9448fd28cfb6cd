package mover

import (
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// Effect is something that a job wants done. It may be done late, several times
// and by several drivers.
type Effect interface{ effect() }

// The effects. Round is to be given back with the answer.
type (
	// Look wants the ranges of two groups that overlap with a span.
	Look struct {
		Round    uint64
		From, To partition.GroupID
		Span     partition.Span
	}
	// Evaluate wants commands evaluated by groups: one, or those of one store
	// together, all or nothing. If Carry, versions and time of the first group,
	// read while it does nothing else, are floors for the Settle of the other.
	Evaluate struct {
		Round uint64
		Parts []Part
		Carry bool
		// NotBeforeMS is when the job may go on.
		NotBeforeMS int64
	}
	// Locate wants the place up to which everything in the log of a group's
	// store is visible.
	Locate struct {
		Round uint64
		From  partition.GroupID
	}
	// Copy wants rows of the source as they are now, from a store key on (see
	// [ReadChunk]), ingested by the destination at the place Base of the source's
	// log.
	Copy struct {
		Round       uint64
		Job         own.Job
		From, To    partition.GroupID
		Span        partition.Span
		Attempt     uint64
		Base        uint64
		Cursor      []byte
		LimitBytes  int
		NotBeforeMS int64
	}
	// CatchUp wants the log of the source's store read from where the
	// destination is, which is Upto or behind it, and what is in the span (see
	// [Pick]) ingested. It goes at least up to Until.
	CatchUp struct {
		Round       uint64
		Job         own.Job
		From, To    partition.GroupID
		Span        partition.Span
		Attempt     uint64
		Upto, Until uint64
		LimitBytes  int
		NotBeforeMS int64
	}
	// Verify wants the destination brought to exactly the place of a snapshot of
	// the source, and all rows compared there (see [Sum]). If Since is not 0 the
	// source is frozen: then up to Until or behind it, and those rows are compared
	// that the log names since then, or a sample if they are many (see [SumKeys]).
	Verify struct {
		Round              uint64
		Job                own.Job
		From, To           partition.GroupID
		Span               partition.Span
		Attempt            uint64
		Upto, Since, Until uint64
	}
	// Choose wants [Decide] called with the stored record and the newest map, and
	// what it returns stored as one.
	Choose struct{ Round uint64 }
	// Publish wants a map of at least this version brought to the routers.
	Publish struct {
		Round   uint64
		Version partition.Version
	}
	// Host wants groups opened.
	Host struct {
		Round  uint64
		Groups []partition.GroupID
	}
	// Survey wants a look at everything. When a child has ended, a Timeout makes
	// the job ask again at once.
	Survey struct{ Round uint64 }
	// Spawn wants a job admitted. There is no answer: if it is refused, the next
	// survey shows why, or asks again.
	Spawn struct{ Request Request }
	// Stop wants a job cancelled. There is no answer.
	Stop struct{ Job own.Job }
	// Retire wants to know that groups keep no decisions of transactions.
	Retire struct {
		Round  uint64
		Groups []partition.GroupID
	}
)

// Part is a command for a group.
type Part struct {
	Group   partition.GroupID
	Command Bound
}

// Bound is a command about the list of the group that evaluates it.
type Bound interface {
	command.Command
	Bind(*own.Site)
}

func (Look) effect()     {}
func (Evaluate) effect() {}
func (Locate) effect()   {}
func (Copy) effect()     {}
func (CatchUp) effect()  {}
func (Verify) effect()   {}
func (Choose) effect()   {}
func (Publish) effect()  {}
func (Host) effect()     {}
func (Survey) effect()   {}
func (Spawn) effect()    {}
func (Stop) effect()     {}
func (Retire) effect()   {}
