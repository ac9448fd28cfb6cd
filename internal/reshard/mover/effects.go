package mover

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// Effect is something that a job wants done. It may be done late, several times
// and by several drivers.
type Effect interface{ isEffect() }

// The effects. Round is to be given back with the answer.
type (
	// ReadOwnership wants the ranges of two groups that overlap with a span.
	ReadOwnership struct {
		Round    uint64
		From, To partition.GroupID
		Span     partition.Span
	}
	// EvalCommands wants commands evaluated by groups: one, or those of one store together, all
	// or nothing. If CarryFloors, versions and time of the first group, read while it does
	// nothing else, are floors for the ChangeDestination of the other.
	EvalCommands struct {
		Round       uint64
		Commands    []GroupCommand
		CarryFloors bool
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
		Round        uint64
		Job          ownership.JobID
		From, To     partition.GroupID
		Span         partition.Span
		Attempt      uint64
		BasePosition uint64
		Cursor       []byte
		LimitBytes   int
		NotBeforeMS  int64
	}
	// CatchUp wants the log of the source's store read from where the
	// destination is, which is Upto or behind it, and what is in the span (see
	// [AppendSpanOps]) ingested. It goes at least up to Until.
	CatchUp struct {
		Round             uint64
		Job               ownership.JobID
		From, To          partition.GroupID
		Span              partition.Span
		Attempt           uint64
		CopiedUpTo, Until uint64
		LimitBytes        int
		NotBeforeMS       int64
	}
	// Verify wants the destination copied up to exactly the position of a snapshot of the
	// source, and all rows compared there (see [SumSpan]). If Since is not 0 the source is
	// frozen: then up to Until or behind it, and those rows are compared that the log names
	// since then, or a sample if they are many (see [SumKeys]).
	Verify struct {
		Round                    uint64
		Job                      ownership.JobID
		From, To                 partition.GroupID
		Span                     partition.Span
		Attempt                  uint64
		CopiedUpTo, Since, Until uint64
	}
	// DecideJob wants [Decide] called with the stored record and the newest map, and
	// what it returns stored as one.
	DecideJob struct{ Round uint64 }
	// PublishMap wants a map of at least this version published to the routers.
	PublishMap struct {
		Round   uint64
		Version partition.Version
	}
	// OpenGroups wants groups opened.
	OpenGroups struct {
		Round  uint64
		Groups []partition.GroupID
	}
	// SurveyCluster wants the state of everything. When a child has ended, a Timeout makes
	// the job ask again at once.
	SurveyCluster struct{ Round uint64 }
	// StartJob wants a job admitted. There is no answer: if it is refused, the next
	// survey shows why, or asks again.
	StartJob struct{ Request Request }
	// CancelJob wants a job cancelled. There is no answer.
	CancelJob struct{ Job ownership.JobID }
	// CheckNoDecisions wants to know that groups keep no decisions of transactions.
	CheckNoDecisions struct {
		Round  uint64
		Groups []partition.GroupID
	}
)

// GroupCommand is a command for a group.
type GroupCommand struct {
	Group   partition.GroupID
	Command SiteCommand
}

// SiteCommand is a command about the ownership table of the group that evaluates it.
type SiteCommand interface {
	command.Command
	Bind(*ownership.Site)
}

func (ReadOwnership) isEffect()    {}
func (EvalCommands) isEffect()     {}
func (Locate) isEffect()           {}
func (Copy) isEffect()             {}
func (CatchUp) isEffect()          {}
func (Verify) isEffect()           {}
func (DecideJob) isEffect()        {}
func (PublishMap) isEffect()       {}
func (OpenGroups) isEffect()       {}
func (SurveyCluster) isEffect()    {}
func (StartJob) isEffect()         {}
func (CancelJob) isEffect()        {}
func (CheckNoDecisions) isEffect() {}

// Event is what happened: the answer to an [Effect], with its round, or a [Timeout]. An answer
// may come late, twice or never. It reports something that would survive a crash of every
// process.
type Event interface{ answeredRound() uint64 }

// The events.
type (
	// OwnershipRead answers a ReadOwnership: the ranges of both groups that overlap with the
	// span.
	OwnershipRead struct {
		Round        uint64
		Source, Dest []ownership.Range
	}
	// Evaluated answers an EvalCommands, all of whose commands were evaluated without an error.
	// Rows and More are of a Clear. The rest is of the first group, when that was durable: the
	// position in the log of its store, the first version that it has not given out, and its
	// time.
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
		Round, CopiedUpTo uint64
		More              bool
		Rows, Bytes       uint64
		TookMS            int64
	}
	// Verified answers a Verify: up to where the destination has come, and whether it has the
	// same rows as the source there. ComparedRows rows were compared, and Rows and Bytes copied
	// to get there.
	Verified struct {
		Round, CopiedUpTo uint64
		Equal             bool
		ComparedRows      uint64
		Rows, Bytes       uint64
	}
	// Acknowledged answers a PublishMap, an OpenGroups or a CheckNoDecisions.
	Acknowledged struct{ Round uint64 }
	// Surveyed answers a SurveyCluster: the newest map, all jobs that have not ended, and what
	// is known about shards.
	Surveyed struct {
		Round uint64
		View  ClusterState
	}
	// Failed answers any effect that had no effect.
	Failed struct {
		Round uint64
		Err   error
	}
	// Timeout means that nothing has come for a while.
	Timeout struct{}
)

func (e OwnershipRead) answeredRound() uint64 { return e.Round }
func (e Evaluated) answeredRound() uint64     { return e.Round }
func (e Located) answeredRound() uint64       { return e.Round }
func (e Copied) answeredRound() uint64        { return e.Round }
func (e CaughtUp) answeredRound() uint64      { return e.Round }
func (e Verified) answeredRound() uint64      { return e.Round }
func (e Acknowledged) answeredRound() uint64  { return e.Round }
func (e Surveyed) answeredRound() uint64      { return e.Round }
func (e Failed) answeredRound() uint64        { return e.Round }
func (Timeout) answeredRound() uint64         { return 0 }

// ClusterState is what is known when a job is admitted or surveyed.
type ClusterState struct {
	Map *partition.Map
	// Jobs are those that have not ended; others do no harm.
	Jobs []Job
	// HomeStore names the store of a group, for ever; for a [Plan] also those of groups that
	// are yet to be added.
	HomeStore func(partition.GroupID) uint64
	// ShardSize returns what is known about a shard; nil for nothing.
	ShardSize func(partition.ShardID) Size
	// SplitPoint returns where to split a shard, or a part of one, so that about half of its
	// bytes are on each side, and in which keyspace; false, if nowhere. It is asked for
	// shards that are too large to fill groups evenly; nil if they are not to be split.
	SplitPoint func(partition.Shard) (partition.Position, *partition.Keyspace, bool)
	// IsFixed reports whether a shard stays as it is, and where it is; nil for none.
	IsFixed func(partition.Shard) bool
	// StoreErr returns why the store of a group has failed, nil if it has not: nothing is
	// changed there until it is open again. It is nil if none has.
	StoreErr func(partition.GroupID) error
}

// isFixedShard reports whether a shard stays as it is.
func (v *ClusterState) isFixedShard(s partition.Shard) bool { return v.IsFixed != nil && v.IsFixed(s) }

// storeErrorPrefix is how an error about a store begins.
const storeErrorPrefix = "the store of "

// checkStores returns why nothing can be done about the shards of some groups now, nil if it can.
func (v *ClusterState) checkStores(groups ...partition.GroupID) error {
	for _, g := range groups {
		if v.StoreErr == nil {
			break
		}
		if err := v.StoreErr(g); err != nil {
			return fmt.Errorf(storeErrorPrefix+"%v: %w", g, err)
		}
	}
	return nil
}

// canTakeShards reports whether a group may be given shards now.
func (v *ClusterState) canTakeShards(g partition.Group) bool {
	return !g.Draining && v.checkStores(g.ID) == nil
}

// checkAllStores returns why nothing can be done about the shards of one of the groups that there
// are.
func (v *ClusterState) checkAllStores() error {
	for _, g := range v.Map.Groups() {
		if err := v.checkStores(g.ID); err != nil {
			return err
		}
	}
	return nil
}
