package server

import (
	"net/netip"
	"sync"
	"time"
)

// How long a client waits after a wrong password: twice as long each time, by address, since
// another connection is soon made. After a time without one it is forgotten.
const (
	minAuthDelay      = 10 * time.Millisecond
	maxAuthDelay      = 2 * time.Second
	authFailureWindow = time.Minute
	// maxThrottledAddrs is how many addresses are remembered.
	maxThrottledAddrs = 10_000
)

// authThrottle are the addresses that wrong passwords came from.
type authThrottle struct {
	mu       sync.Mutex
	failures map[netip.Addr]authFailures
}

type authFailures struct {
	count int
	last  time.Time
}

// recordFailure counts a wrong password, and returns how long its sender waits.
func (g *authThrottle) recordFailure(from string, now time.Time) time.Duration {
	at, _ := netip.ParseAddrPort(from) // what has no address is one
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures == nil {
		g.failures = map[netip.Addr]authFailures{}
	}
	if len(g.failures) >= maxThrottledAddrs { // some are forgotten early: there is no room for all
		for a, old := range g.failures {
			if now.Sub(old.last) > authFailureWindow || len(g.failures) > maxThrottledAddrs/2 {
				delete(g.failures, a)
			}
		}
	}
	n := g.failures[at.Addr()]
	if now.Sub(n.last) > authFailureWindow {
		n.count = 0
	}
	n.count, n.last = n.count+1, now
	g.failures[at.Addr()] = n
	return min(maxAuthDelay, minAuthDelay<<min(n.count-1, 16))
}
