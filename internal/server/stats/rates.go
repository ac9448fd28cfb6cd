package stats

import (
	"sync"
	"time"
)

// trafficRates are how much was done in the last second or so.
type trafficRates struct {
	mu             sync.Mutex
	previous, last trafficSample
}

// trafficSample is how much was done up to a time: requests, and bytes that came and went.
type trafficSample struct {
	at                time.Duration
	requests, in, out uint64
}

// record is called about once a second.
func (r *trafficRates) record(t trafficSample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.previous, r.last = r.last, t
}

// reset is called when counting begins anew.
func (r *trafficRates) reset(t trafficSample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.previous, r.last = trafficSample{}, t
}

// perSecond is how many requests, and bytes that came and went, there were in a second.
func (r *trafficRates) perSecond() (requests, in, out float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := (r.last.at - r.previous.at).Seconds()
	if r.previous.at == 0 || took <= 0 {
		return 0, 0, 0
	}
	per := func(before, last uint64) float64 {
		return float64(last-min(before, last)) / took // they may just have been counted anew
	}
	return per(r.previous.requests, r.last.requests), per(r.previous.in, r.last.in), per(r.previous.out, r.last.out)
}
