package node

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"
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
}

const (
	// easeWork is the least that a job works before it sleeps: a timer is not much
	// finer. easeLook is how often it looks at how others are.
	easeWork = 100 * time.Microsecond
	easeLook = 10 * time.Millisecond
	// maxRests leaves a job a twentieth of a processor.
	maxRests = 19
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
		e.looked = now
		e.look()
	}
	if most = min(most, e.rests); most > 0 {
		_ = sleep(ctx, time.Duration(most*float64(min(worked, easeLook)))) // the caller looks at ctx
	}
	e.awake = time.Now()
}

// look asks the scheduler how long goroutines have waited since it was asked last, and how
// many do.
func (e *ease) look() {
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
		e.rests = restsAfter(e.rests, float64(late-e.late), float64(all-e.all))
		e.late, e.all = late, all
	}
	if v := e.samples[1].Value; v.Kind() == metrics.KindUint64 && v.Uint64() > busyQueue*uint64(runtime.GOMAXPROCS(0)) {
		e.rests = maxRests
	}
}

// restsAfter returns how much a job rests after so many of all goroutines had to wait
// for long.
func restsAfter(rests, late, all float64) float64 {
	if late > all*fewLate {
		return min(max(2*rests, 0.5), maxRests)
	}
	if rests /= 2; rests < 0.5 {
		return 0
	}
	return rests
}
