//go:build !amd64 || purego

package route

func bestScore(groups []seedGroup, d draw, n int) int { return bestGo(groups, d, n) }

func nearGroup(groups []seedGroup, handicap []float32, from int, d draw, bound float32) (int, uint32) {
	return nearGo(groups, handicap, from, d, bound)
}

func lowestFloor(groups []seedGroup, handicap []float32, d draw, n int) (int, float32) {
	return lowestGo(groups, handicap, d, n)
}
