package ratekeeper

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// modelStore is a store that can commit and apply so many bytes a second, and clients that would like to write more.
type modelStore struct {
	commitBPS, applyBPS float64
	bytesPerWrite       float64
	free                float64
	queued, unapplied   float64 // bytes
}

const tick = 100 * time.Millisecond

// step lets clients offer so many writes a second for a tick, of which as many are admitted as the limit allows, and
// returns what was measured.
func (p *modelStore) step(offered, limit float64) StoreReading {
	dt := tick.Seconds()
	p.queued += min(offered, limit) * p.bytesPerWrite * dt
	done := min(p.queued, p.commitBPS*dt, max(p.free, 0))
	p.queued, p.unapplied, p.free = p.queued-done, p.unapplied+done, p.free-done
	applied := min(p.unapplied, p.applyBPS*dt)
	p.unapplied -= applied
	return StoreReading{
		Writes: done / p.bytesPerWrite / dt, InputBytes: done / dt, AppliedBytes: applied / dt, UnappliedBytes: int64(p.unapplied),
		QueueWait: time.Duration(p.queued / p.commitBPS * float64(time.Second)), FreeBytes: int64(p.free),
	}
}

// run plays so many ticks, and returns the limits of all.
func (p *modelStore) run(l *NodeLimiter, ticks int, offered func(tick int) float64) (limits []NodeLimit, last StoreReading) {
	limit := NodeLimit{PerSecond: math.Inf(1)}
	for i := range ticks {
		last = p.step(offered(i), limit.PerSecond)
		limit = l.Step(tick, []StoreReading{last})
		limits = append(limits, limit)
	}
	return limits, last
}

// swing is by how much limits differ, as a part of their mean.
func swing(limits []NodeLimit) float64 {
	low, high, sum := math.Inf(1), 0.0, 0.0
	for _, l := range limits {
		low, high, sum = min(low, l.PerSecond), max(high, l.PerSecond), sum+l.PerSecond
	}
	return (high - low) / (sum / float64(len(limits)))
}

func TestNodeLimiter_MoreThanIsCommitted_QueueComesToItsTargetAndStays(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := modelStore{commitBPS: 1e6 * math.Pow(200, r.Float64()), applyBPS: 1e12, bytesPerWrite: 50 + 1000*r.Float64(), free: 1e18}
		capacity := p.commitBPS / p.bytesPerWrite
		offered := capacity * (1.5 + 4*r.Float64())
		limits, last := p.run(NewNodeLimiter(LimiterKnobs{}), 300, func(int) float64 { return offered })
		end := limits[200:]
		for _, l := range end {
			if l.Reason != WriteQueue {
				t.Fatalf("seed %d: the reason is %v", seed, l.Reason)
			}
			if l.PerSecond < 0.9*capacity || l.PerSecond > 1.1*capacity {
				t.Fatalf("seed %d: the limit is %.0f where %.0f writes a second are done", seed, l.PerSecond, capacity)
			}
		}
		if s := swing(end); s > 0.05 {
			t.Errorf("seed %d: the limit swings by %.0f %%", seed, 100*s)
		}
		if d := last.QueueWait; d < 100*time.Millisecond || d > 350*time.Millisecond {
			t.Errorf("seed %d: writes wait for %v", seed, d)
		}
	}
}

func TestNodeLimiter_MoreThanIsApplied_LagComesToItsTargetAndStays(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := modelStore{commitBPS: 1e9, applyBPS: 1e6 * math.Pow(200, r.Float64()), bytesPerWrite: 50 + 1000*r.Float64(), free: 1e18}
		capacity := p.applyBPS / p.bytesPerWrite
		ticks := 400 + int(8e9/p.applyBPS) // a slow one takes long to fall behind
		offered := capacity * (1.5 + 2*r.Float64())
		limits, last := p.run(NewNodeLimiter(LimiterKnobs{}), ticks, func(int) float64 { return offered })
		end := limits[ticks-100:]
		if s := swing(end); s > 0.05 || end[0].Reason != DurabilityLag {
			t.Errorf("seed %d: the limit swings by %.0f %%, for %v", seed, 100*s, end[0].Reason)
		}
		if last.UnappliedBytes > 300<<20 || last.UnappliedBytes < 100<<20 {
			t.Errorf("seed %d: %d MiB are not applied", seed, last.UnappliedBytes>>20)
		}
	}
}

func TestNodeLimiter_CauseIsGone_LimitIsReleased(t *testing.T) {
	p := modelStore{commitBPS: 10e6, applyBPS: 1e12, bytesPerWrite: 100, free: 1e18}
	l := NewNodeLimiter(LimiterKnobs{})
	limits, _ := p.run(l, 200, func(i int) float64 {
		if i < 100 {
			return 300e3
		}
		return 50e3
	})
	if limits[99].Reason != WriteQueue {
		t.Fatalf("%+v under load", limits[99])
	}
	for i, x := range limits[110:] {
		if !math.IsInf(x.PerSecond, 1) || x.Reason != NoLimit {
			t.Fatalf("%v after the load: %+v", time.Duration(i+10)*tick, x)
		}
	}
}

// The disk does not become full, but slower and slower to fill; deletes still come through.
func TestNodeLimiter_DiskFills_SlowsDownBeforeItIsFull(t *testing.T) {
	p := modelStore{commitBPS: 100e6, applyBPS: 1e12, bytesPerWrite: 1000, free: 4e9}
	limits, last := p.run(NewNodeLimiter(LimiterKnobs{}), 3000, func(int) float64 { return 90e3 })
	for i := 1; i < len(limits); i++ {
		if limits[i].Reason != DiskSpace || limits[i].PerSecond > 1.1*limits[i-1].PerSecond {
			t.Fatalf("after %v: %+v, and %+v before", time.Duration(i)*tick, limits[i], limits[i-1])
		}
	}
	if end := limits[len(limits)-1]; last.FreeBytes <= 0 || last.FreeBytes > 50e6 || end.PerSecond < 10 {
		t.Errorf("%d bytes are free in the end, and the limit is %+v", last.FreeBytes, end)
	}
}

// The queue is named first where two reasons ask for the same, and the lower limit otherwise.
func TestNodeLimiter_SeveralReasons_NamesTheLowestAndTheFirst(t *testing.T) {
	const mib = 1 << 20
	base := StoreReading{Writes: 1000, InputBytes: 1e6, AppliedBytes: 1e6, FreeBytes: -1}
	for name, c := range map[string]struct {
		change func(*StoreReading)
		want   LimitReason
		limit  float64
	}{
		"none":                       {func(*StoreReading) {}, NoLimit, math.Inf(1)},
		"queue":                      {func(s *StoreReading) { s.QueueWait = 250 * time.Millisecond }, WriteQueue, 1000},
		"long queue":                 {func(s *StoreReading) { s.QueueWait = time.Hour }, WriteQueue, 500},
		"lag":                        {func(s *StoreReading) { s.UnappliedBytes = 256 * mib }, DurabilityLag, 1000},
		"queue first":                {func(s *StoreReading) { s.QueueWait, s.UnappliedBytes = 250*time.Millisecond, 256*mib }, WriteQueue, 1000},
		"lag is more":                {func(s *StoreReading) { s.QueueWait, s.UnappliedBytes = 250*time.Millisecond, 512*mib }, DurabilityLag, 500},
		"disk":                       {func(s *StoreReading) { s.FreeBytes = 3e6 }, DiskSpace, 100},
		"full disk":                  {func(s *StoreReading) { s.FreeBytes = 0 }, DiskSpace, 10},
		"a short queue and some lag": {func(s *StoreReading) { s.QueueWait, s.UnappliedBytes = 10*time.Millisecond, 10*mib }, NoLimit, math.Inf(1)},
	} {
		s := base
		c.change(&s)
		got := NewNodeLimiter(LimiterKnobs{}).Step(tick, []StoreReading{base, s})
		if limit := 2 * c.limit; got.Reason != c.want || math.Abs(got.PerSecond-limit) > 0.01*limit && got.PerSecond != max(c.limit, 20, limit) && name != "full disk" {
			t.Errorf("%s: %+v, want %v at %v", name, got, c.want, limit)
		}
		if got.Reason != NoLimit && got.Store != 1 {
			t.Errorf("%s: store %d is named", name, got.Store)
		}
	}
}

// The formula has two bounds, and does not divide by nothing.
func TestLimitWrites(t *testing.T) {
	for _, c := range [][5]float64{{100, 1e6, 5e5, 1, 50}, {100, 0, 5e5, 1, 5e5}, {0, 0, 5e5, 2, 0}, {1000, 10, 100, 1, 100}} {
		if got := LimitWrites(c[0], c[1], c[2], c[3]); got != c[4] {
			t.Errorf("%v: %v", c, got)
		}
	}
}
