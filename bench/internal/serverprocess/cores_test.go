package serverprocess

import (
	"fmt"
	"slices"
	"testing"
)

func TestSplit_GivesTheServerTheFirstCoresAndTheLoadTheRest(t *testing.T) {
	for _, c := range []struct {
		machine, server     int
		servers, generators []int
	}{
		{1, 1, []int{0}, []int{0}},
		{2, 1, []int{0}, []int{1}},
		{2, 2, []int{0, 1}, []int{0, 1}}, // there is no rest
		{4, 2, []int{0, 1}, []int{2, 3}},
		{1, 2, []int{0}, []int{0}},
	} {
		servers, generators := Split(c.machine, c.server)
		if !slices.Equal(servers, c.servers) || !slices.Equal(generators, c.generators) {
			t.Errorf("Split(%d, %d) = %v, %v, want %v, %v", c.machine, c.server, servers, generators, c.servers, c.generators)
		}
	}
}

func TestSteps_LeaveHalfOfALargeMachineToTheLoad(t *testing.T) {
	for machine, want := range map[int]string{1: "[1]", 2: "[1 2]", 4: "[1 2]", 8: "[1 2 4]", 24: "[1 2 4 8]"} {
		if got := fmt.Sprint(Steps(machine)); got != want {
			t.Errorf("Steps(%d) = %s, want %s", machine, got, want)
		}
	}
}
