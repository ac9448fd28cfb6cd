package serve

import (
	"slices"
	"sync"
)

// registry is all connections.
type registry struct {
	mu   sync.Mutex
	byID map[uint64]*client
}

func (r *registry) init() { r.byID = map[uint64]*client{} }

// add adds a client, unless there are as many as there may be.
func (r *registry) add(c *client, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID) >= most {
		return false
	}
	r.byID[c.id] = c
	return true
}

func (r *registry) remove(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, c.id)
}

func (r *registry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

// get returns the client of a number, nil if there is none.
func (r *registry) get(id uint64) *client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// all returns the clients in the order in which they came.
func (r *registry) all() []*client {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*client, 0, len(r.byID))
	for _, c := range r.byID {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *client) int { return int(a.id) - int(b.id) })
	return all
}

// each calls f with every client, without its lock.
func (r *registry) each(f func(*client)) {
	for _, c := range r.all() {
		f(c)
	}
}
