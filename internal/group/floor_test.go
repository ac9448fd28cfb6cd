package group

import (
	"testing"

	"github.com/cleavekv/cleave/internal/own"
)

// A range brings versions along that may be far above those that its new group has
// reserved. They stay above it also if the group ends with that very batch.
func TestVersionsStayAboveARangeThatCame(t *testing.T) {
	const floor = 10 * versionBlock
	d := newDisk(true)
	g := open(t, d, Options{ID: 1})
	do(t, g, &own.Reown{Become: []own.Range{serving("a", "m", 1)}, VersionFloor: floor, ClockFloorMS: 1})
	for range 3 {
		g = open(t, d.crash(), Options{ID: 1})
		if v := do(t, g, set("b", "1")).Version; v < floor {
			t.Fatalf("after a crash the key got version %d, below the floor %d", v, uint64(floor))
		}
		d = d.crash()
	}
}
