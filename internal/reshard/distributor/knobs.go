package distributor

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// Knobs are what the planner is tuned by. The zero value of each is its default.
type Knobs struct {
	// MaxShardBytes is the size above which a shard is split. Default [MaxShardBytes] of all bytes.
	MaxShardBytes int64
	// MinShardBytes is the size below half of which no piece of a split for size is. Default 10 MB.
	MinShardBytes int64
	// Imbalance is the ratio of a group's work to the mean above which the group is relieved. Default 1.3, more than 1.
	Imbalance float64
	// BusyWork is the work of a group below which it is not relieved, whatever others do. Default 0.25.
	BusyWork float64
	// ColdWork is the work of two neighbours up to which they are merged. Default 0.02, at most a tenth of BusyWork:
	// a merge must not make what is split next.
	ColdWork float64
	// MaxFraction is the part of the gap between two groups that one move carries at most. Default 0.5: more would make
	// the other group the busier one.
	MaxFraction float64
	// MaxMoves is how many moves a round plans at most, and MaxJobs how many jobs may be under way. Default 10 and 2.
	MaxMoves, MaxJobs int
	// MaxPieces is how many pieces a shard is split into at once at most. Default 4.
	MaxPieces int
	// MaxEdgeSplits is how often a keyspace is split for load in an hour where writes come in the order of time and reads
	// have most of the work: they may move on with the writes. Default 3.
	MaxEdgeSplits int
	// Settle is how long rates need to show a change: for so long after one, a group is left alone. Default 5 s.
	Settle time.Duration
	// Residence is how long a shard stays where it was moved to, and for how long it is not merged after it was made.
	// Default 2 min.
	Residence time.Duration
	// Payback is the time within which the work that a change saves exceeds the work that it costs. Default 1 min.
	Payback time.Duration
	// CopyBytes is how many bytes a second are moved with all of the work of a group: what a move costs. Default 100 MB.
	CopyBytes float64
}

const (
	// minGain is the work by which a change makes the busiest group less busy at least: rates differ by about as much
	// from one window to the next.
	minGain = 0.03
	// maxHold bounds for how long a group is left alone that a change did not help, and is how long a moving edge is
	// remembered.
	maxHold = time.Hour
	// maxEdgeWork is the share of a shard's work at a moving edge from which on it is not split for load.
	maxEdgeWork = 0.5
	// fullPiece is how full pieces of a shard with a moving edge are: what is written until the split is done, and what
	// a size is estimated wrong by, must not make them too large.
	fullPiece = 0.8
	// hotKeyShare is the share of a shard's work above which one key is said to be the reason.
	hotKeyShare = 0.5
)

// edgePieces is how many pieces a shard with a moving edge is split into for its size: cuts by size are halves and quarters.
func (k *Knobs) edgePieces() int {
	if k.MaxPieces < 4 {
		return 2
	}
	return 4
}

// MaxShardBytes is the size above which shards are split in a database of so many bytes: few for a small one, and
// many for a large one, none larger than 500 MB.
func MaxShardBytes(all int64) int64 {
	return int64(min((10e6+45*math.Sqrt(float64(all)))*4, 500e6))
}

// withDefaults returns the knobs with their defaults, or an error that names the knob.
func (k Knobs) withDefaults() (Knobs, error) {
	k.MinShardBytes = cmp.Or(k.MinShardBytes, 10e6)
	k.Imbalance, k.BusyWork, k.ColdWork = cmp.Or(k.Imbalance, 1.3), cmp.Or(k.BusyWork, 0.25), cmp.Or(k.ColdWork, 0.02)
	k.MaxFraction, k.MaxMoves, k.MaxJobs = cmp.Or(k.MaxFraction, 0.5), cmp.Or(k.MaxMoves, 10), cmp.Or(k.MaxJobs, 2)
	k.MaxPieces, k.MaxEdgeSplits = cmp.Or(k.MaxPieces, 4), cmp.Or(k.MaxEdgeSplits, 3)
	k.Settle, k.Residence = cmp.Or(k.Settle, 5*time.Second), cmp.Or(k.Residence, 2*time.Minute)
	k.Payback, k.CopyBytes = cmp.Or(k.Payback, time.Minute), cmp.Or(k.CopyBytes, 100e6)
	for _, c := range []struct {
		ok       bool
		name     string
		value    any
		use, why string
	}{
		{k.MaxShardBytes == 0 || k.MaxShardBytes >= 2*k.MinShardBytes, "MaxShardBytes", k.MaxShardBytes, "0, or at least twice MinShardBytes", "its halves are split or merged else"},
		{k.MinShardBytes > 0, "MinShardBytes", k.MinShardBytes, "a positive number", ""},
		{k.Imbalance > 1, "Imbalance", k.Imbalance, "more than 1", "no group is the mean of all"},
		{k.BusyWork > 0 && k.BusyWork < 1, "BusyWork", k.BusyWork, "more than 0 and less than 1", ""},
		{k.ColdWork > 0 && k.ColdWork <= k.BusyWork/10, "ColdWork", k.ColdWork, "more than 0 and at most a tenth of BusyWork", "what was merged is split else"},
		{k.MaxFraction > 0 && k.MaxFraction <= 0.5, "MaxFraction", k.MaxFraction, "more than 0 and at most 0.5", "a move makes the other group the busier one else"},
		{k.MaxMoves > 0 && k.MaxJobs > 0, "MaxMoves, MaxJobs", k.MaxJobs, "positive numbers", ""},
		{k.MaxPieces >= 2, "MaxPieces", k.MaxPieces, "at least 2", ""},
		{k.MaxEdgeSplits > 0, "MaxEdgeSplits", k.MaxEdgeSplits, "a positive number", ""},
		{k.Settle > 0 && k.Residence >= 2*k.Settle, "Residence", k.Residence, "at least twice Settle", "a shard moves on else before its move is seen"},
		{k.Payback > 0 && k.CopyBytes > 0, "Payback, CopyBytes", k.Payback, "positive ones", ""},
	} {
		if !c.ok {
			why := ""
			if c.why != "" {
				why = ": " + c.why
			}
			return k, fmt.Errorf("distributor: %s is %v: use %s%s", c.name, c.value, c.use, why)
		}
	}
	return k, nil
}
