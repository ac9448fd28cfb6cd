//go:build !purego

package route

import "golang.org/x/sys/cpu"

// loopNodes is how many nodes the plain loop handles faster than the vectors,
// whose work comes in whole blocks.
const loopNodes = 16

var hasAVX2 = cpu.X86.HasAVX2

func bestScore(groups []seedGroup, d draw, n int) int {
	if !hasAVX2 || n <= loopNodes {
		return bestGo(groups, d, n)
	}
	return bestAVX2(&groups[0], len(groups)/blockGroups, d)
}

func nearGroup(groups []seedGroup, handicap []float32, from int, d draw, bound float32) (group int, lanes uint32) {
	if !hasAVX2 || from >= len(groups) {
		return nearGo(groups, handicap, from, d, bound)
	}
	return nearAVX2(&groups[0], &handicap[0], from, len(groups), d, bound)
}

func lowestFloor(groups []seedGroup, handicap []float32, d draw, n int) (position int, second float32) {
	if !hasAVX2 {
		return lowestGo(groups, handicap, d, n)
	}
	return lowestAVX2(&groups[0], &handicap[0], (n+groupNodes-1)/groupNodes, d)
}

// bestAVX2 is bestGo over whole blocks, at least one.
//
//go:noescape
func bestAVX2(groups *seedGroup, blocks int, d draw) int

// nearAVX2 is nearGo from one group to before another, at least one.
//
//go:noescape
func nearAVX2(groups *seedGroup, handicap *float32, from, to int, d draw, bound float32) (group int, lanes uint32)

// lowestAVX2 is lowestGo over whole groups, at least one.
//
//go:noescape
func lowestAVX2(groups *seedGroup, handicap *float32, n int, d draw) (position int, second float32)
