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

// distance is how many letters are to be put in, left out, replaced or swapped with the
// next one to make a of b.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1) // two rows of the table above this one
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = last[j]
			if a[i] != b[j] {
				row[j+1] = 1 + min(last[j], row[j], last[j+1])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], 1+before[j-1])
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
