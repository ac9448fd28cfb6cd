package store

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/wal"
)

// maxKept is how many chunks snapshots may keep in memory besides those that are
// not applied. Beyond that there are no new ones: the memory is finite, and it is
// better to refuse who would take more of it than to let writers wait for those
// who have it.
//
// The log has maxKept chunks and two lists full of them: the last snapshot that
// was let in may add all chunks of the list to those that are kept, and then the
// list fills again. What does not fit on a list, as when many large commits are
// made at once, counts against the first.
const maxKept = 64

// hold copies the list and takes a reference to the memory of each chunk. Who is brief is
// never refused.
func (u *unapplied) hold(brief bool) ([]*chunk, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !brief && len(u.list) > 0 && u.kept+len(u.list) > maxKept+int(u.limit)+2 {
		return nil, fmt.Errorf("%w: they keep %d chunks of the log in memory", ErrSnapshots, u.kept)
	}
	held := make([]*chunk, len(u.list))
	for i, c := range u.list {
		c.memory.Retain()
		c.readers++
		held[i] = c
	}
	return held, nil
}

// release gives back what hold took.
func (u *unapplied) release(held []*chunk) {
	if len(held) == 0 {
		return
	}
	u.mu.Lock()
	for _, c := range held {
		if c.readers--; c.readers == 0 && c.applied {
			u.kept--
		}
	}
	u.mu.Unlock()
	for _, c := range held {
		c.memory.Release()
	}
}

// optimism is how often capture looks before it stops the publisher.
const optimism = 4

// capture calls look until nothing became visible while it ran, and returns
// the chunks that look was given, held, and the position of the log at which it
// looked. look takes its cuts of the chunks first and asks Pebble second; undo
// throws away what it got.
func (u *unapplied) capture(brief bool, look func(held []*chunk), undo func()) ([]*chunk, wal.Position, error) {
	for try := 0; ; try++ {
		if try == optimism {
			u.publishing.Lock()
			defer u.publishing.Unlock()
		}
		before := u.sequence.Load()
		if before%2 != 0 {
			continue
		}
		pos := wal.Position(u.published.Load())
		held, err := u.hold(brief)
		if err != nil {
			return nil, 0, err
		}
		look(held)
		if u.sequence.Load() == before {
			return held, pos, nil
		}
		undo()
		u.release(held)
	}
}
