package actor

import "sync/atomic"

// Stats is a snapshot of an actor's counters. They are read one after the
// other while the actor runs, so they agree with each other only at rest. In
// mode Combining those of a busy actor may lag behind by fewer than 64 messages.
type Stats struct {
	Depth    int  // messages waiting in the mailbox
	DepthMax int  // the most that ever waited
	Busy     bool // somebody holds the actor

	Accepted  uint64 // messages taken, into the mailbox or straight to the handler
	Refused   uint64 // messages turned away: full, stopped, poisoned, context ended
	Handled   uint64 // accepted messages given to the handler
	Dropped   uint64 // accepted messages that a poisoned actor did not handle
	Abandoned uint64 // calls whose sender left before the reply
	Batches   uint64 // times the handler was given messages
	Exclusive uint64 // Do and DoAll calls
	Panics    uint64 // of the handler, and of functions given to Do and DoAll

	QueueWait Histogram // from a place in the mailbox to the start of the batch
	Service   Histogram // of one batch
}

// soloLag is how many messages that callers handled at once may be missing in
// the counters of an actor that is busy. An atomic store for each would be a
// third atomic write on a path that has two.
const soloLag = 64

// tally is written by the holder alone.
type tally struct {
	singles    atomic.Uint64 // what is published of solo
	direct     atomic.Uint64 // messages of batches that never were in the mailbox
	handled    atomic.Uint64 // messages other than singles
	runs       atomic.Uint64 // batches other than singles
	dropped    atomic.Uint64 // of all these, those that were not handled
	exclusives atomic.Uint64
	panics     atomic.Uint64
}

// timing is touched for samples only.
type timing struct {
	wait    recorder
	service recorder
}

// Stats returns the actor's counters. It never waits for a handler.
func (a *Actor[S, M, R]) Stats() Stats {
	if a.made() != nil {
		return Stats{}
	}
	if a.combining && a.word.CompareAndSwap(nil, a.locked) {
		a.singles.Store(a.solo)
		a.letGo()
	}
	vacated := a.vacated.Load() // first, so that Depth is not below zero
	admitted := a.admitted.Load()
	singles, dropped := a.singles.Load(), a.dropped.Load()
	word := a.word.Load()
	return Stats{
		Depth:     int(admitted - vacated),
		DepthMax:  int(a.deepest.Load()),
		Busy:      word != nil && word != a.closed,
		Accepted:  uint64(admitted) + singles + a.direct.Load(),
		Refused:   a.refused.Load(),
		Handled:   singles + a.handled.Load() - dropped,
		Dropped:   dropped,
		Abandoned: a.deserted.Load(),
		Batches:   singles + a.runs.Load(),
		Exclusive: a.exclusives.Load(),
		Panics:    a.panics.Load(),
		QueueWait: a.wait.snapshot(),
		Service:   a.service.snapshot(),
	}
}

// count notes that a batch of n messages is about to run.
func (a *Actor[S, M, R]) count(n int) {
	a.handled.Store(a.handled.Load() + uint64(n))
	if a.poisoned == nil {
		a.runs.Store(a.runs.Load() + 1)
	}
	if a.singles.Load() != a.solo {
		a.singles.Store(a.solo)
	}
}

// sample reports whether the batch that starts now is measured.
func (a *Actor[S, M, R]) sample() bool {
	if a.batches++; a.batches < a.every || a.every == 0 {
		return false
	}
	a.batches = 0
	return true
}

// runTimed is run, measured.
func (a *Actor[S, M, R]) runTimed(ms []M, rs []R) {
	start := a.now()
	a.run(ms, rs)
	a.service.observe(a.now() - start)
}

// observeWaits notes how long the sampled entries of the batch have waited.
func (a *Actor[S, M, R]) observeWaits() {
	now := a.now()
	for _, n := range a.entries {
		if n.at != 0 {
			a.wait.observe(now - n.at)
		}
	}
}
