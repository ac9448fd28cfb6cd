package group

import "github.com/cleavekv/cleave/internal/plant"

// startVersion is the first version that a group gives out after it found l:
// above everything that may have been given out before.
func startVersion(l ledger) uint64 {
	if plant.Bug("version-repeated") {
		return 1
	}
	return max(l.versionCeiling, 1)
}

// startClock is the time at which a group's clock starts after it found l.
func startClock(l ledger) int64 {
	if plant.Bug("clock-back") {
		return 0
	}
	return l.clockCeiling
}
