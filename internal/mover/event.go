package mover

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// Event is what happened: the answer to an [Effect], with its round, or a
// [Timeout]. An answer may come late, twice or never. It says that something
// would survive a crash of everybody.
type Event interface{ round() uint64 }

// The events.
type (
	// Looked answers a Look: the ranges of both groups that overlap with the
	// span.
	Looked struct {
		Round        uint64
		Source, Dest []own.Range
	}
	// Evaluated answers an Evaluate, all of whose commands were evaluated
	// without an error. Rows and More are of a Clear. The rest is of the first
	// group, when that was durable: the place in the log of its store, the first
	// version that it has not given out, and its time.
	Evaluated struct {
		Round       uint64
		Rows        uint64
		More        bool
		Position    uint64
		NextVersion uint64
		ClockMS     int64
	}
	// Located answers a Locate.
	Located struct{ Round, Position uint64 }
	// Copied answers a Copy. Next is where it goes on; nothing, if that was all.
	Copied struct {
		Round       uint64
		Next        []byte
		Rows, Bytes uint64
	}
	// CaughtUp answers a CatchUp: how far the destination has come, whether the log
	// went on behind that, and how long it took.
	CaughtUp struct {
		Round, Upto uint64
		More        bool
		Rows, Bytes uint64
		TookMS      int64
	}
	// Verified answers a Verify: up to where the destination has come, and
	// whether it has the same rows as the source there. So many rows were Compared,
	// and Rows and Bytes carried to be there.
	Verified struct {
		Round, Upto uint64
		Equal       bool
		Compared    uint64
		Rows, Bytes uint64
	}
	// Published answers a Publish, and Hosted a Host, and Retired a Retire.
	Published struct{ Round uint64 }
	// Surveyed answers a Survey: the newest map, all jobs that have not ended,
	// and what is known about shards.
	Surveyed struct {
		Round uint64
		View  View
	}
	// Failed answers any effect that had no effect.
	Failed struct {
		Round uint64
		Err   error
	}
	// Timeout says that nothing has come for a while.
	Timeout struct{}
)

func (e Looked) round() uint64    { return e.Round }
func (e Evaluated) round() uint64 { return e.Round }
func (e Located) round() uint64   { return e.Round }
func (e Copied) round() uint64    { return e.Round }
func (e CaughtUp) round() uint64  { return e.Round }
func (e Verified) round() uint64  { return e.Round }
func (e Published) round() uint64 { return e.Round }
func (e Surveyed) round() uint64  { return e.Round }
func (e Failed) round() uint64    { return e.Round }
func (Timeout) round() uint64     { return 0 }

// View is what is known when a job is admitted or surveyed.
type View struct {
	Map *partition.Map
	// Jobs are those that have not ended; others do no harm.
	Jobs []Job
	// Home names the store of a group, for ever; for a [Plan] also those of groups that
	// are yet to be added.
	Home func(partition.GroupID) uint64
	// Sizes tells what is known about a shard; nil for nothing.
	Sizes func(partition.ShardID) Size
	// Middle tells where to split a shard, or a part of one, so that about half of its
	// bytes are on each side, and in which keyspace; false, if nowhere. It is asked for
	// shards that are too large to fill groups evenly; nil if they are not to be split.
	Middle func(partition.Shard) (partition.Position, *partition.Keyspace, bool)
	// Fixed tells that a shard stays as it is, and where it is; nil for none.
	Fixed func(partition.Shard) bool
	// Failed tells why the store of a group has failed, nil if it has not: nothing is
	// changed there until it is open again. It is nil if none has.
	Failed func(partition.GroupID) error
}

// fixed tells whether a shard stays as it is.
func (v *View) fixed(s partition.Shard) bool { return v.Fixed != nil && v.Fixed(s) }

// storeOf is how an error about a store begins.
const storeOf = "the store of "

// failed tells why nothing can be done about the shards of some groups now, nil if it can.
func (v *View) failed(groups ...partition.GroupID) error {
	for _, g := range groups {
		if v.Failed == nil {
			break
		}
		if err := v.Failed(g); err != nil {
			return fmt.Errorf(storeOf+"%v: %w", g, err)
		}
	}
	return nil
}

// takes tells whether a group may be given shards now.
func (v *View) takes(g partition.Group) bool { return !g.Draining && v.failed(g.ID) == nil }

// anyFailed tells why nothing can be done about the shards of one of the groups that there
// are.
func (v *View) anyFailed() error {
	for _, g := range v.Map.Groups() {
		if err := v.failed(g.ID); err != nil {
			return err
		}
	}
	return nil
}
