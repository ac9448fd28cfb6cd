package serve

import (
	"sync"
	"time"
)

// rates are how much was done in the last second or so.
type rates struct {
	mu           sync.Mutex
	before, last traffic
}

// traffic is how much was done up to a time: requests, and bytes that came and went.
type traffic struct {
	at                time.Duration
	requests, in, out uint64
}

// traffic is that up to a time.
func (s *stats) traffic(at time.Duration) traffic {
	return traffic{at, s.total(), s.in.Load(), s.out.Load()}
}

// note is called about once a second.
func (r *rates) note(t traffic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.last = r.last, t
}

// reset is called when counting begins anew.
func (r *rates) reset(t traffic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.last = traffic{}, t
}

// perSecond is how many requests, and bytes that came and went, there were in a second.
func (r *rates) perSecond() (requests, in, out float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := (r.last.at - r.before.at).Seconds()
	if r.before.at == 0 || took <= 0 {
		return 0, 0, 0
	}
	per := func(before, last uint64) float64 {
		return float64(last-min(before, last)) / took // they may just have been counted anew
	}
	return per(r.before.requests, r.last.requests), per(r.before.in, r.last.in), per(r.before.out, r.last.out)
}
