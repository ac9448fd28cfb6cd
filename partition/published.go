package partition

import "sync/atomic"

// Published holds the newest map that a process has heard of. Reading it is one
// atomic load. The zero value has no map.
type Published struct{ newest atomic.Pointer[Map] }

// Load returns the newest map, nil before the first was offered.
func (p *Published) Load() *Map { return p.newest.Load() }

// Offer publishes a map if its version is above that of the newest one, and
// tells whether it did. Maps may arrive in any order and from anywhere.
func (p *Published) Offer(m *Map) bool {
	for {
		newest := p.newest.Load()
		if m == nil || newest != nil && m.version <= newest.version {
			return false
		}
		if p.newest.CompareAndSwap(newest, m) {
			return true
		}
	}
}
