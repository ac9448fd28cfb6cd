package node

import (
	"testing"

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
	m, err := partition.First(groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[partition.GroupID]int{1: 0, 2: 3, 3: Nowhere, 4: Nowhere, 5: Nowhere, 6: Nowhere, 7: Nowhere} {
		if got := StoreOf(m, id); got != want {
			t.Errorf("%v is on store %d, want %d", id, got, want)
		}
	}
}
