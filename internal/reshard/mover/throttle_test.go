package mover

import (
	"testing"

	"github.com/cleavekv/cleave/internal/shard/ownership"
)

// Writers are held up while a job does not gain on them, longer and longer, and no
// longer than that.
func TestWritersAreHeldUpAsLongAsAJobDoesNotGainOnThem(t *testing.T) {
	const much = 100 << 20
	var b AdaptiveThrottle
	now, own := int64(1000), true
	look := func(behind, after int64) int64 {
		now += after
		b = b.OnCaughtUp(behind, own, now)
		return b.WriteDelayUS
	}
	if w := look(much, 0); w != 0 {
		t.Errorf("the first look: %d us", w)
	}
	if w := look(much*9/10, measureIntervalMS); w != 0 {
		t.Errorf("a tenth of all in a tenth of a second: %d us", w)
	}
	if w := look(much, measureIntervalMS/2); w != 0 {
		t.Errorf("a look that came soon: %d us", w)
	}
	for want := 1; want <= MaxUrgency; want++ {
		if w := look(much, measureIntervalMS); w != 0 || b.Urgency != want {
			t.Fatalf("nothing gained: haste %d, %d us, want %d and none", b.Urgency, w, want)
		}
	}
	for want := int64(minWriteDelayUS); want < maxWriteDelayUS; want *= 2 {
		if w := look(much, measureIntervalMS); w != want {
			t.Fatalf("nothing gained: %d us, want %d", w, want)
		}
	}
	for range 3 {
		if w := look(2*much, measureIntervalMS); w != maxWriteDelayUS {
			t.Errorf("lost ground: %d us, want %d", w, maxWriteDelayUS)
		}
	}
	if w := look(2*much-2*much/50, measureIntervalMS); w != maxWriteDelayUS {
		t.Errorf("gained, as it should be: %d us", w)
	}
	if w := look(much, measureIntervalMS); w != maxWriteDelayUS/2 {
		t.Errorf("gained more than that: %d us", w)
	}
	for range 20 {
		look(RoundBytes, measureIntervalMS)
	}
	if b.WriteDelayUS != 0 {
		t.Errorf("no more than a round is left for a while: %d us", b.WriteDelayUS)
	}
	own = false
	for range 5 {
		if w := look(much, measureIntervalMS); w != 0 {
			t.Errorf("the log is that of others: %d us", w)
		}
	}
}

// A copy hurries when half of the log that may be kept for it is full.
func TestACopyHurriesBeforeTheLogIsFull(t *testing.T) {
	var b AdaptiveThrottle
	const most = 1000
	for i, c := range []struct {
		kept  int64
		haste int
	}{{500, 0}, {501, 1}, {600, 2}, {700, 2}, {500, 2}} {
		b = b.OnCopied(c.kept, most, 1000+int64(i)*measureIntervalMS)
		if b.Urgency != c.haste || b.WriteDelayUS > 0 { // for the log is that of all
			t.Errorf("with %d of %d bytes: %+v", c.kept, most, b)
		}
	}
}

// A round that was over soon is followed by the freeze, however much it carried; one
// that was not is followed by another.
func TestAFreezeFollowsARoundThatWasShort(t *testing.T) {
	for _, c := range []struct {
		name  string
		ev    CaughtUp
		phase Phase
	}{
		{"little", CaughtUp{Bytes: smallRoundBytes, TookMS: 10 * shortRoundMS}, Freezing},
		{"much, and soon", CaughtUp{Bytes: 4 << 20, TookMS: shortRoundMS}, Freezing},
		{"much", CaughtUp{Bytes: smallRoundBytes + 1, TookMS: shortRoundMS + 1}, CatchingUp},
		{"soon, but there is more", CaughtUp{More: true}, CatchingUp},
	} {
		j := Job{Kind: Move, Phase: CatchingUp, Round: 3, VerifiedUpTo: 1, CopiedUpTo: 1, SourceRanges: []ownership.Range{{}}}
		c.ev.Round, c.ev.CopiedUpTo = 3, 2
		if next, _ := Step(j, c.ev, 1000); next.Phase != c.phase {
			t.Errorf("%s: %v, want %v", c.name, next.Phase, c.phase)
		}
	}
}

// A throttle is for the copy: it lets that go on evenly, and does not keep a job from
// catching up with its writers.
func TestAThrottleIsForTheCopy(t *testing.T) {
	const throttle = 1 << 20
	j := Job{Kind: Move, Phase: Copying, Round: 3, Throttle: throttle}
	c := PendingEffects(j)[0].(Copy)
	if c.LimitBytes != throttle {
		t.Errorf("a round of the copy has %d bytes, want those of a second", c.LimitBytes)
	}
	next, _ := Step(j, Copied{Round: 3, Next: []byte("k"), Bytes: throttle}, 1000)
	if next.NotBeforeMS != 2000 {
		t.Errorf("the copy goes on at %d", next.NotBeforeMS)
	}
	j.Phase = CatchingUp
	next, _ = Step(j, CaughtUp{Round: 3, CopiedUpTo: 2, More: true, Bytes: 100 * throttle}, 1000)
	if c := PendingEffects(next)[0].(CatchUp); c.NotBeforeMS > 1000 || c.LimitBytes != RoundBytes {
		t.Errorf("catching up goes on with %d bytes at %d", c.LimitBytes, c.NotBeforeMS)
	}
}
