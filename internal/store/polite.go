package store

import (
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// polite lets a goroutine that works in the background give way. The scheduler takes a
// processor away after ten milliseconds, and whoever comes back from the disk meanwhile waits
// for that long, where there are few processors. So it works for a moment and stands in line
// again; and where that line is long, it works for as long as it has stood there, so that it
// gets on among others who are not polite.
type polite struct {
	since time.Time     // it works since then
	work  time.Duration // before it gives way
}

// leastWork is long against the change of a goroutine, and mostWork what the scheduler allows.
const leastWork, mostWork = 100 * time.Microsecond, 10 * time.Millisecond

// giveWay lets others have the processor if it is time for that.
func (p *polite) giveWay() {
	now := time.Now()
	if now.Sub(p.since) < p.work {
		return
	}
	runtime.Gosched()
	p.since = time.Now()
	p.work = min(max(p.since.Sub(now), leastWork), mostWork)
}

// politeFile is a table that Pebble writes in the background.
type politeFile struct {
	vfs.File
	polite
}

func (f *politeFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.giveWay()
	return n, err
}
