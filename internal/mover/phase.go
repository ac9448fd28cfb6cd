package mover

import "fmt"

// Kind is what a job does.
type Kind uint8

// The kinds. Their numbers are on disks: none is ever changed or used again.
const (
	// Split cuts a shard in several.
	Split Kind = 1
	// Merge joins two neighbours of one group.
	Merge Kind = 2
	// Move gives a shard to another group.
	Move Kind = 3
	// PreSplit splits all shards that keys lie in.
	PreSplit Kind = 4
	// Drain moves all shards of a group elsewhere.
	Drain Kind = 5
	// Regroup changes the number of groups.
	Regroup Kind = 6
	// Undrain lets a group that was drained have shards again.
	Undrain Kind = 7
)

// String is the word for k in commands and reports.
func (k Kind) String() string {
	names := [...]string{"", "split", "merge", "move", "pre-split", "drain", "regroup", "undrain"}
	if k == 0 || int(k) >= len(names) {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return names[k]
}

// composite tells whether a job of this kind is done by others.
func (k Kind) composite() bool { return k >= PreSplit }

// Phase is how far a job has come. DESIGN.md says for each what is outstanding,
// and what holds meanwhile.
type Phase uint8

// The phases. Their numbers are on disks: none is ever changed or used again.
const (
	// Before the decision: a job can be taken back.
	Planned    Phase = 1
	Preparing  Phase = 2
	Clearing   Phase = 3
	Locating   Phase = 4
	Opening    Phase = 5
	Copying    Phase = 6
	Catching   Phase = 7
	Verifying  Phase = 8
	Freezing   Phase = 9
	Finishing  Phase = 10
	Comparing  Phase = 11
	Deciding   Phase = 12
	Thawing    Phase = 13
	Abandoning Phase = 14
	Wiping     Phase = 15
	Dismissing Phase = 16

	// After the decision: forward only.
	Releasing  Phase = 32
	Activating Phase = 33
	Publishing Phase = 34
	Dropping   Phase = 35
	Forgetting Phase = 36

	// Of jobs that are done by others.
	Marking   Phase = 64
	Hosting   Phase = 65
	Surveying Phase = 66
	Retiring  Phase = 67
	Removing  Phase = 68
	Stopping  Phase = 69
	Unmarking Phase = 70

	// The ends.
	Done       Phase = 128
	RolledBack Phase = 129
)

var phaseNames = map[Phase]string{
	Planned: "planned", Preparing: "preparing", Clearing: "clearing", Locating: "locating", Opening: "opening",
	Copying: "copying", Catching: "catching up", Verifying: "verifying", Freezing: "freezing", Finishing: "finishing",
	Comparing: "comparing", Deciding: "deciding", Thawing: "thawing", Abandoning: "abandoning", Wiping: "wiping",
	Dismissing: "dismissing", Releasing: "releasing", Activating: "activating", Publishing: "publishing",
	Dropping: "dropping", Forgetting: "forgetting", Marking: "marking", Hosting: "hosting", Surveying: "surveying",
	Retiring: "retiring", Removing: "removing", Stopping: "stopping", Unmarking: "unmarking",
	Done: "done", RolledBack: "rolled back",
}

// String is the phase in reports.
func (p Phase) String() string {
	if name, ok := phaseNames[p]; ok {
		return name
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// Final tells whether the job has ended.
func (p Phase) Final() bool { return p >= Done }

// decided tells whether the job goes forward only.
func (p Phase) decided() bool { return p >= Releasing && p <= Forgetting || p == Done }

// undoing tells whether the job is being taken back.
func (p Phase) undoing() bool { return p >= Abandoning && p <= Dismissing }

// Frozen tells whether the source may take no writes because of the job.
func (p Phase) Frozen() bool { return p >= Freezing && p <= Thawing }

// bulk tells whether the phase carries or removes rows: it may be paused.
func (p Phase) bulk() bool {
	return p >= Planned && p <= Verifying || p == Dropping || p == Wiping || p == Surveying
}
