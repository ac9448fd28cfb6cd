package node

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

func TestTheStoreOfAGroupIsItsLabel(t *testing.T) {
	var groups []partition.Group
	for _, text := range []string{"store=0", "store=3", "store=x", "store=-1", "store=99999999999", "zone=1"} {
		labels, err := partition.ParseLabels(text)
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, partition.Group{ID: partition.GroupID(len(groups) + 1), Labels: labels})
	}
	m, err := partition.NewMap(groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[partition.GroupID]int{1: 0, 2: 3, 3: NoStore, 4: NoStore, 5: NoStore, 6: NoStore, 7: NoStore} {
		if got := StoreOf(m, id); got != want {
			t.Errorf("%v is on store %d, want %d", id, got, want)
		}
	}
}

// The machine's clock was set back. Those of groups stand still then: one that comes to them
// is not behind.
func TestAGroupIsNotBehindThoseThatAreThere(t *testing.T) {
	var wall atomic.Int64
	wall.Store(1 << 41)
	o := smallOptions(1)
	o.Wall = wall.Load
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	if err := setUnindexed(n, k, keyInGroup(n, k, 0)); err != nil {
		t.Fatal(err)
	}
	wall.Add(-24 * time.Hour.Milliseconds())
	g := n.Map().Groups()[0]
	g.ID = 9
	if err := n.openGroup(g); err != nil {
		t.Fatal(err)
	}
	if now := n.lookupGroup(9).Group.NowMS(); now < 1<<41 {
		t.Errorf("it is %d ms behind", 1<<41-now)
	}
}

// So it is after crashes, each of which takes groups to the end of what they had reserved: one
// does not push the next one ahead.
func TestClocksDoNotRunAheadOverCrashes(t *testing.T) {
	var wall atomic.Int64
	wall.Store(1 << 41)
	disk := store.NewCrashableFS()
	o := smallOptions(1)
	o.Groups, o.Wall = 16, wall.Load
	o.FS = func(int) store.FS { return disk.FS() }
	n := mustOpen(t, o)
	for i := range 20 { // each of them reserves time when it needs some
		wall.Add(397)
		mustTryCommand(t, n.GroupHosts()[i*7%16].Group, &ownership.ChangeOwnership{})
	}
	end := wall.Load()
	wall.Add(-time.Hour.Milliseconds())
	for range 4 {
		crashed := disk.Crash(0, nil)
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
		disk = crashed
		n = mustOpen(t, o)
		if ahead := n.NowMS() - end; ahead > 4000 {
			t.Errorf("they are %d ms ahead of where the machine's clock was", ahead)
		}
	}
	if err := n.Close(ctx); err != nil {
		t.Error(err)
	}
}
