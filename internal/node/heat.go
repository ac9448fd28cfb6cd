package node

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/partition"
)

const (
	// heatBuckets is how many buckets of keys the evenness of the load is judged by. A window has some thousand sampled
	// operations where there is load: with more buckets than that, chance would look like unevenness.
	heatBuckets = 1024
	// heatHalfLife is after how long an operation counts half. What begins has most of the weight after ten seconds, so
	// that it is relieved while it lasts, and cuts are where the load is and not where it was.
	heatHalfLife = 10 * time.Second
	// sharedHeatRecorders is how many recorders goroutines share. One operation of 128 is recorded, in half a
	// microsecond: with two, goroutines that do ten million operations a second seldom wait for each other.
	sharedHeatRecorders = 2
)

// nodeHeat is which keys and ranges are asked for, as a sample of operations. Its keys are positions, so that ranges and
// cuts are those of the partition map. All of it is in memory and bounded; the map is kept in a file as well.
type nodeHeat struct {
	meter   *heat.Meter
	shared  *heat.SharedRecorder
	keyMap  *heat.Map
	traffic trafficLog
	// began and beganAt are the moment that times of the meter and the map are counted from: as one of the clock that
	// never goes back, and as the time since 1970.
	began   time.Time
	beganAt time.Duration
	// file is where the map is kept, empty if it is not; savedAt is when it was saved. Of the goroutine that collects.
	file    string
	savedAt time.Duration

	mu sync.Mutex
	// alarm judges how evenly operations fall on keys, every evennessInterval; judgedAt is when it did last, and spread
	// what it was given.
	alarm    *heat.Alarm
	judgedAt time.Duration
	spread   heat.Spread
	changes  []EvennessChange // the newest last
}

// evennessInterval is how often the evenness of the load is judged, and keptChanges how many changes of it are known.
const evennessInterval, keptChanges = 10 * time.Second, 8

// Evenness is how evenly operations fall on keys.
type Evenness struct {
	heat.Spread
	// Usual is the evenness that there was lately, and Alarm reports whether it is far below that.
	Usual float64
	Alarm bool
}

// EvennessChange is the begin, or the end, of a time of uneven load.
type EvennessChange struct {
	Time time.Time
	Evenness
}

func newNodeHeat(wallMS int64) (*nodeHeat, error) {
	h := &nodeHeat{began: time.Now(), beganAt: time.Duration(wallMS) * time.Millisecond}
	var err error
	if h.keyMap, err = heat.NewMap(heat.MapOptions{Seed: rand.Uint64()}); err != nil {
		return nil, err
	}
	if h.meter, err = heat.NewMeter(heat.Options{Slots: heatBuckets, HalfLife: heatHalfLife, Map: h.keyMap, Seed: rand.Uint64()}); err != nil {
		return nil, err
	}
	if h.shared, err = h.meter.NewSharedRecorder(sharedHeatRecorders, rand.Uint64); err != nil {
		return nil, err
	}
	// A store of few keys is uneven all the time, and nothing is wrong with that: what counts is a drop.
	h.alarm, err = heat.NewAlarm(heat.AlarmOptions{Floor: 0.01})
	return h, err
}

// now is the time of the meter and of the map: since 1970, and it never goes back.
func (h *nodeHeat) now() time.Duration { return h.beganAt + time.Since(h.began) }

// Heat returns the meter of hot keys and ranges, whose keys are positions; nil with [Options.HeatOff].
func (n *Node) Heat() *heat.Meter {
	if n.heat == nil {
		return nil
	}
	return n.heat.meter
}

// HeatMap returns what was asked by time since 1970 and by position; nil with [Options.HeatOff].
func (n *Node) HeatMap() *heat.Map {
	if n.heat == nil {
		return nil
	}
	return n.heat.keyMap
}

// SharedHeat returns the recorder for goroutines that have none of their own; nil with [Options.HeatOff]. What it samples
// is recorded by [Node.RecordAccess].
func (n *Node) SharedHeat() *heat.SharedRecorder {
	if n.heat == nil {
		return nil
	}
	return n.heat.shared
}

// RecordAccess records an operation of the sample of SharedHeat, which stands for so many. Its key is a position.
func (n *Node) RecordAccess(a *heat.Access, weight float64) {
	a.Slot = n.HeatBucket(a.Key)
	n.heat.shared.Record(a, weight)
	n.heat.traffic.offer(a, weight)
}

// RecordAccessBy records an operation that a recorder of the meter has chosen. Its key is a position.
func (n *Node) RecordAccessBy(r *heat.Recorder, a *heat.Access) {
	a.Slot = n.HeatBucket(a.Key)
	r.Record(a)
	n.heat.traffic.offer(a, r.Weight())
}

// HeatBucket returns the bucket of a position by which the evenness of the load is judged: slots in a row for a hash
// keyspace, because it is they that have a place, and a hash of the key for a range keyspace.
func (n *Node) HeatBucket(p partition.Position) uint16 {
	id, err := partition.IDOf(p)
	if err != nil {
		return 0
	}
	if k := n.KeyspaceByID(id); k != nil && k.Kind == partition.Hash {
		return uint16(k.SlotAt(p) * heatBuckets / k.SlotCount())
	}
	return uint16(hash.XXH3(p).Uint64() % heatBuckets)
}

// CollectHeat adds up what was recorded since the last call. The node calls it once a second.
func (n *Node) CollectHeat() {
	if n.heat != nil {
		now := n.heat.now()
		n.heat.meter.Collect(now)
		n.judgeEvenness(now)
		n.heat.traffic.expire(now)
		if now-n.heat.savedAt >= heatSaveInterval {
			n.saveHeatMap()
		}
	}
}

// judgeEvenness looks whether the load has become uneven, or even again, if it is time to. What it was before is learnt
// from a server that is asked for much; while little is asked nothing is judged.
func (n *Node) judgeEvenness(now time.Duration) {
	h := n.heat
	h.mu.Lock()
	defer h.mu.Unlock()
	passed := now - h.judgedAt
	if passed < evennessInterval {
		return
	}
	h.judgedAt, h.spread = now, h.meter.Spread()
	change := h.alarm.Step(h.spread, min(passed, 2*evennessInterval))
	if change == heat.AlarmSame {
		return
	}
	e := h.evenness()
	h.changes = append(h.changes, EvennessChange{time.Unix(0, int64(now)), e})
	h.changes = h.changes[max(0, len(h.changes)-keptChanges):]
	args := []any{"evenness", e.Evenness, "usual", e.Usual, "hottest_bucket_share", e.TopShare}
	if e.Alarm {
		n.events.limited.Warn("load has become uneven: cleave hotkeys shows the keys that are asked for most", append(args, "reason", "evenness")...)
	} else {
		n.events.limited.Info("load is even again", append(args, "reason", "evenness")...)
	}
}

// REQUIRES: h.mu held.
func (h *nodeHeat) evenness() Evenness {
	return Evenness{Spread: h.spread, Usual: h.alarm.Usual(), Alarm: h.alarm.On()}
}

// Evenness returns how evenly operations fall on keys, as it was judged last, and when that has changed much, the newest
// last. With [Options.HeatOff] nothing is known.
func (n *Node) Evenness() (e Evenness, changes []EvennessChange) {
	if n.heat == nil {
		return e, nil
	}
	n.heat.mu.Lock()
	defer n.heat.mu.Unlock()
	return n.heat.evenness(), slices.Clone(n.heat.changes)
}

// HeatBytes is how much memory the meter, its recorders and the map take, about.
func (n *Node) HeatBytes() int {
	if n.heat == nil {
		return 0
	}
	return n.heat.meter.Bytes() + n.heat.keyMap.Bytes()
}
