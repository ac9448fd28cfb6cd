package server

import (
	"math/rand/v2"
	"sync"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/partition"
)

// scanCursors are cursors that a number of a slot does not tell: within slots with many keys,
// in keyspaces without slots, and in large hashes. The oldest are forgotten.
//
// A cursor has the slot in its low 16 bits. Above them is 0 if it is the beginning of
// the slot, and else the number of a place. Numbers begin anywhere, so that a cursor of
// before a restart is unknown rather than that of another place; but below 1<<32, so that it
// takes 1<<36 of them until a cursor is more than a client whose numbers are floats can tell.
type scanCursors struct {
	mu   sync.Mutex
	next uint64
	ring [maxScanPositions]scanPosition
}

type scanPosition struct {
	number   uint64
	position []byte
}

// maxScanPositions is how many are known.
const maxScanPositions = 16 << 10

// put notes a place in a slot, and returns its cursor.
func (p *scanCursors) put(at []byte, slot int) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == 0 {
		p.next = rand.Uint64N(1 << 32)
	}
	p.next++
	p.ring[p.next%maxScanPositions] = scanPosition{p.next, at}
	return p.next<<16 | uint64(slot)
}

// get returns the place of a cursor, nil if it is forgotten or a slot.
func (p *scanCursors) get(cursor uint64) []byte {
	number := cursor >> 16
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := &p.ring[number%maxScanPositions]; number > 0 && e.number == number {
		return e.position
	}
	return nil
}

// startPosition is where the page of a cursor begins. ok is false for one that was never given
// out.
func (p *scanCursors) startPosition(k *node.Keyspace, cursor uint64) (at partition.Position, ok bool) {
	span, slot := k.Span(), int(cursor&(1<<16-1))
	known := partition.Position(p.get(cursor))
	switch {
	case cursor == 0:
		return span.Start, true
	case known != nil && span.Contains(known):
		return known, true
	case k.Kind != partition.Hash:
		return span.Start, true // it is forgotten: all again
	case slot >= k.SlotCount():
		return nil, false
	}
	return k.SlotSpan(uint16(slot)).Start, true
}

// cursorFor is the cursor of a page.
func (p *scanCursors) cursorFor(k *node.Keyspace, to pageStart) uint64 {
	switch {
	case to.position == nil:
		return 0
	case k.Kind != partition.Hash:
		return p.put(to.position, 0)
	case to.isInsideSlot:
		return p.put(to.position, k.SlotAt(to.position))
	}
	return uint64(k.SlotAt(to.position)) // not 0: a page has been before it
}
