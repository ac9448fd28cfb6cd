package serve

import (
	"net/netip"
	"sync"
	"time"
)

// How long who says a wrong password waits: twice as long each time, by address, since
// another connection is soon made. After a time without one it is forgotten.
const (
	firstPenalty = 10 * time.Millisecond
	maxPenalty   = 2 * time.Second
	forgiven     = time.Minute
	// maxGuessers is how many addresses are remembered.
	maxGuessers = 10_000
)

// guessers are the addresses that wrong passwords came from.
type guessers struct {
	mu   sync.Mutex
	seen map[netip.Addr]guesses
}

type guesses struct {
	count int
	last  time.Time
}

// penalty counts a wrong password, and returns how long its sender waits.
func (g *guessers) penalty(from string, now time.Time) time.Duration {
	at, _ := netip.ParseAddrPort(from) // what has no address is one
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil {
		g.seen = map[netip.Addr]guesses{}
	}
	if len(g.seen) >= maxGuessers { // some are forgotten early: there is no room for all
		for a, old := range g.seen {
			if now.Sub(old.last) > forgiven || len(g.seen) > maxGuessers/2 {
				delete(g.seen, a)
			}
		}
	}
	n := g.seen[at.Addr()]
	if now.Sub(n.last) > forgiven {
		n.count = 0
	}
	n.count, n.last = n.count+1, now
	g.seen[at.Addr()] = n
	return min(maxPenalty, firstPenalty<<min(n.count-1, 16))
}
