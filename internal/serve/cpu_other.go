//go:build !unix

package serve

import "time"

// processorTime is not known here.
func processorTime() (user, system time.Duration) { return 0, 0 }
