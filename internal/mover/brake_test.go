package mover

import (
	"testing"

	"github.com/cleavekv/cleave/internal/own"
)

// Writers are held up while a job does not gain on them, longer and longer, and no
// longer than that.
func TestWritersAreHeldUpAsLongAsAJobDoesNotGainOnThem(t *testing.T) {
	const much = 100 << 20
	var b Brake
	now, own := int64(1000), true
	look := func(behind, after int64) int64 {
		now += after
		b = b.CaughtUp(behind, own, now)
		return b.WaitUS
	}
	if w := look(much, 0); w != 0 {
		t.Errorf("the first look: %d us", w)
	}
	if w := look(much*9/10, brakeMS); w != 0 {
		t.Errorf("a tenth of all in a tenth of a second: %d us", w)
	}
	if w := look(much, brakeMS/2); w != 0 {
		t.Errorf("a look that came soon: %d us", w)
	}
	for want := 1; want <= MaxHaste; want++ {
		if w := look(much, brakeMS); w != 0 || b.Haste != want {
			t.Fatalf("nothing gained: haste %d, %d us, want %d and none", b.Haste, w, want)
		}
	}
	for want := int64(minWaitUS); want < maxWaitUS; want *= 2 {
		if w := look(much, brakeMS); w != want {
			t.Fatalf("nothing gained: %d us, want %d", w, want)
		}
	}
	for range 3 {
		if w := look(2*much, brakeMS); w != maxWaitUS {
			t.Errorf("lost ground: %d us, want %d", w, maxWaitUS)
		}
	}
	if w := look(2*much-2*much/50, brakeMS); w != maxWaitUS {
		t.Errorf("gained, as it should be: %d us", w)
	}
	if w := look(much, brakeMS); w != maxWaitUS/2 {
		t.Errorf("gained more than that: %d us", w)
	}
	for range 20 {
		look(RoundBytes, brakeMS)
	}
	if b.WaitUS != 0 {
		t.Errorf("no more than a round is left for a while: %d us", b.WaitUS)
	}
	own = false
	for range 5 {
		if w := look(much, brakeMS); w != 0 {
			t.Errorf("the log is that of others: %d us", w)
		}
	}
}

// A copy hurries when half of the log that may be kept for it is full.
func TestACopyHurriesBeforeTheLogIsFull(t *testing.T) {
	var b Brake
	const most = 1000
	for i, c := range []struct {
		kept  int64
		haste int
	}{{500, 0}, {501, 1}, {600, 2}, {700, 2}, {500, 2}} {
		b = b.Copied(c.kept, most, 1000+int64(i)*brakeMS)
		if b.Haste != c.haste || b.WaitUS > 0 { // for the log is that of all
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
		{"little", CaughtUp{Bytes: smallBytes, TookMS: 10 * quickMS}, Freezing},
		{"much, and soon", CaughtUp{Bytes: 4 << 20, TookMS: quickMS}, Freezing},
		{"much", CaughtUp{Bytes: smallBytes + 1, TookMS: quickMS + 1}, Catching},
		{"soon, but there is more", CaughtUp{More: true}, Catching},
	} {
		j := Job{Kind: Move, Phase: Catching, Round: 3, Verified: 1, Upto: 1, Held: []own.Range{{}}}
		c.ev.Round, c.ev.Upto = 3, 2
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
	c := Resume(j)[0].(Copy)
	if c.LimitBytes != throttle {
		t.Errorf("a round of the copy has %d bytes, want those of a second", c.LimitBytes)
	}
	next, _ := Step(j, Copied{Round: 3, Next: []byte("k"), Bytes: throttle}, 1000)
	if next.NotBeforeMS != 2000 {
		t.Errorf("the copy goes on at %d", next.NotBeforeMS)
	}
	j.Phase = Catching
	next, _ = Step(j, CaughtUp{Round: 3, Upto: 2, More: true, Bytes: 100 * throttle}, 1000)
	if c := Resume(next)[0].(CatchUp); c.NotBeforeMS > 1000 || c.LimitBytes != RoundBytes {
		t.Errorf("catching up goes on with %d bytes at %d", c.LimitBytes, c.NotBeforeMS)
	}
}
