package mover

import (
	"testing"

	"github.com/cleavekv/cleave/internal/shard/ownership"
)

// A round that was over soon is followed by the freeze, however much it copied; one that was not
// is followed by another.
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
