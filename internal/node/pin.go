package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// pinTable has the rows that users want in memory. The stores hold the rows; pinTable knows for
// how long, and makes sure that the store that has a row is the one that holds it.
type pinTable struct {
	mu    sync.Mutex
	byKey map[string]pin // by the row's key in its store
	// hasKeeper reports whether a goroutine keeps them up to date, and is woken by more.
	hasKeeper bool
	changed   notifier
}

type pin struct {
	host    *StoreHost
	space   *Keyspace
	expires time.Time
}

// Pin holds the rows at some positions of a keyspace in memory for a time, or for another
// one if they are pinned already. If one of them is refused, with store.ErrNoRoom, those
// that were not pinned before are not pinned now.
func (n *Node) Pin(k *Keyspace, ttl time.Duration, at ...partition.Position) error {
	p := &n.pins
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey == nil {
		p.byKey = map[string]pin{}
	}
	until := time.Now().Add(ttl)
	var fresh []string
	for _, position := range at {
		key := effect.Rows.AppendKey(nil, position)
		was, pinned := p.byKey[string(key)]
		host := n.GroupHostAt(position).Host
		if pinned && was.host != host {
			was.host.Store.UnpinRow(key)
		}
		if err := host.Store.PinRow(key); err != nil {
			for _, key := range fresh {
				p.byKey[key].host.Store.UnpinRow([]byte(key))
				delete(p.byKey, key)
			}
			if pinned {
				delete(p.byKey, string(key)) // it is too large by now
			}
			return fmt.Errorf("pin a row of keyspace %q: %w", k.Name, err)
		}
		if !pinned {
			fresh = append(fresh, string(key))
		}
		p.byKey[string(key)] = pin{host, k, until}
	}
	if !p.hasKeeper {
		p.hasKeeper = true
		n.runBackground(func() { n.housekeepPins(n.ctx) })
	}
	p.changed.notify()
	return nil
}

// Unpin lets rows go.
func (n *Node) Unpin(at ...partition.Position) {
	p := &n.pins
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, position := range at {
		p.removePin(string(effect.Rows.AppendKey(nil, position)))
	}
}

func (p *pinTable) removePin(key string) {
	if was, ok := p.byKey[key]; ok {
		was.host.Store.UnpinRow([]byte(key))
		delete(p.byKey, key)
	}
}

// housekeepPins ends pins in time, and lets them follow their keys, for as long as there are any.
func (n *Node) housekeepPins(ctx context.Context) {
	for {
		remapped, more := n.mapChanged.subscribe(), n.pins.changed.subscribe() // before it looks
		next, some := n.refreshPins()
		if !some {
			return
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-remapped:
		case <-more:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// refreshPins ends the pins whose time is up or whose keyspace is gone, gives those whose
// keys have moved to the stores that have them now, and returns when to check again.
func (n *Node) refreshPins() (next time.Duration, some bool) {
	p := &n.pins
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	next = time.Hour
	for key, was := range p.byKey {
		left := was.expires.Sub(now)
		if left <= 0 || was.space.CheckOpen() != nil {
			p.removePin(key)
			continue
		}
		next = min(next, left)
		host := n.GroupHostAt(partition.Position(key[1:])).Host
		if host == was.host {
			continue
		}
		was.host.Store.UnpinRow([]byte(key))
		if err := host.Store.PinRow([]byte(key)); err != nil {
			delete(p.byKey, key) // there is no room for it where its key is now
			continue
		}
		was.host = host
		p.byKey[key] = was
	}
	p.hasKeeper = len(p.byKey) > 0
	return next, p.hasKeeper
}
