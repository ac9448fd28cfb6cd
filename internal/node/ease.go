package node

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/cleavekv/cleave/internal/cputime"
)

// ease lets a job work while processors are free, and rest when others wait for them.
// A goroutine that works all the time is given ten milliseconds at a time, and whoever
// comes back from the disk meanwhile waits for that long: with few processors, that is
// what clients notice of a job. So it works for a moment and sleeps for several.
type ease struct {
	// rests is for how many times as long as it has worked the job sleeps.
	rests float64
	// awake is since when it works, and looked when that was last thought about.
	awake, looked time.Time
	// samples are of how long goroutines had to wait for a processor, and how many do
	// now; late and all are how many had to wait for long, and how many there were.
	samples   [2]metrics.Sample
	late, all uint64
	// used is what the process had used of processors.
	used time.Duration
}

const (
	// easeWork is the least that a job works before it sleeps: a timer is not much
	// finer. easeLook is how often it looks at how others are.
	easeWork = 100 * time.Microsecond
	easeLook = 10 * time.Millisecond
	// maxRests leaves a job an eleventh of a processor, and fullRests a twentieth, where more
	// than fullUse of all of them are used: a job that takes longer takes less of each second.
	maxRests  = 10
	fullRests = 19
	fullUse   = 0.4
	// longWait is a wait for a processor that somebody notices who waits for a disk
	// otherwise, and fewLate the share of those who may have to wait for longer.
	longWait = 100e-6
	fewLate  = 0.05
	// busyQueue is how many may wait for each processor, or the job rests as much as it can:
	// none of them waits for long then, but whatever the job does they do not.
	busyQueue = 2
)

// rest sleeps if that is good for others, for most times as long as the job has worked.
func (e *ease) rest(ctx context.Context, most float64) {
	now := time.Now()
	worked := now.Sub(e.awake)
	if worked < easeWork {
		return
	}
	if now.Sub(e.looked) > easeLook {
		e.look(now)
	}
	if most = min(most, e.rests); most > 0 {
		_ = sleep(ctx, time.Duration(most*float64(min(worked, easeLook)))) // the caller looks at ctx
	}
	e.awake = time.Now()
}

// look asks the scheduler how long goroutines have waited since it was asked last, and how
// many do.
func (e *ease) look(now time.Time) {
	most := float64(maxRests)
	if e.use(now) > fullUse*float64(runtime.GOMAXPROCS(0)) {
		most = fullRests
	}
	e.samples[0].Name = "/sched/latencies:seconds"
	e.samples[1].Name = "/sched/goroutines/runnable:goroutines"
	metrics.Read(e.samples[:])
	if v := e.samples[0].Value; v.Kind() == metrics.KindFloat64Histogram { // else the runtime does not tell
		h := v.Float64Histogram()
		var late, all uint64
		for i, n := range h.Counts {
			if all += n; h.Buckets[i] >= longWait {
				late += n
			}
		}
		e.rests = restsAfter(e.rests, most, float64(late-e.late), float64(all-e.all))
		e.late, e.all = late, all
	}
	if v := e.samples[1].Value; v.Kind() == metrics.KindUint64 && v.Uint64() > busyQueue*uint64(runtime.GOMAXPROCS(0)) {
		e.rests = most
	}
}

// use returns how many processors the process has used since it was asked last.
func (e *ease) use(now time.Time) float64 {
	user, system := cputime.Used()
	used, since := user+system-e.used, now.Sub(e.looked)
	e.used, e.looked = user+system, now
	return float64(used) / float64(since)
}

// restsAfter returns how much a job rests after so many of all goroutines had to wait
// for long.
func restsAfter(rests, most, late, all float64) float64 {
	if late > all*fewLate {
		return min(max(2*rests, 0.5), most)
	}
	if rests /= 2; rests < 0.5 {
		return 0
	}
	return min(rests, most)
}
