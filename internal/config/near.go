package config

// Nearest returns the one of the names that may have been meant, or nothing if none is
// like it. Beyond a third of the letters any name would be like any other.
func Nearest(name string, names []string) string {
	best, least := "", max(1, len(name)/3)
	for _, n := range names {
		if d := distance(name, n); d <= least && (best == "" || d < least) {
			best, least = n, d
		}
	}
	return best
}

// distance is how many letters are to be put in, left out or replaced to make a of b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := corner
			if a[i] != b[j] {
				d = 1 + min(corner, row[j], row[j+1])
			}
			corner, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
