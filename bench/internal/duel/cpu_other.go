//go:build !unix

package duel

import "time"

// processCPU is not known here; tables then show no CPU figures.
func processCPU() time.Duration { return 0 }
