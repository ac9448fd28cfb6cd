package actor

import (
	"context"
	"runtime"
	"time"
	"unsafe"
)

// StateOf is the state of an actor that is stopped.
func StateOf[S, M, R any](a *Actor[S, M, R]) *S { return &a.state }

// FirstHot and LastHot are where the fields that change lie in an actor.
func FirstHot[S, M, R any](a *Actor[S, M, R]) uintptr { return unsafe.Offsetof(a.word) }

func LastHot[S, M, R any](a *Actor[S, M, R]) uintptr {
	return unsafe.Offsetof(a.timing) + unsafe.Sizeof(a.timing)
}

// HistogramOf counts durations given in nanoseconds.
func HistogramOf(ns []int64) Histogram {
	var r histogramRecorder
	for _, d := range ns {
		r.record(time.Duration(d))
	}
	return r.snapshot()
}

// OfferToSleeper offers the actor to an entry while its sender falls asleep.
// It reports whether the offer was made and whether the sender noticed.
func OfferToSleeper[S, M, R any](a *Actor[S, M, R]) (offered, led bool) {
	ctx, cancel := context.WithCancel(context.Background())
	n := a.getEntry(kindExclusive)
	state := make(chan uint32)
	go func() { state <- a.sleepUntilReply(ctx, n) }()
	if offered = a.offerTo(n); !offered {
		cancel()
	}
	led = <-state == stateLeader
	cancel()
	a.recycleEntry(n)
	return offered, led
}

// OfferToLeaver offers the actor to an entry whose sender is asleep while its
// context ends. It reports also whether a wake-up was left over.
func OfferToLeaver[S, M, R any](a *Actor[S, M, R]) (offered, led, stale bool) {
	ctx, cancel := context.WithCancel(context.Background())
	n := a.getEntry(kindExclusive)
	state := make(chan uint32)
	go func() { state <- a.sleepUntilReply(ctx, n) }()
	for n.state.Load() != stateParked {
		runtime.Gosched()
	}
	go cancel()
	offered = a.offerTo(n)
	led = <-state == stateLeader
	stale = len(n.wake) > 0
	a.recycleEntry(n)
	return offered, led, stale
}

// EnterTooLate enters a room in which a place came free between the sender's
// look and its standing in line.
func EnterTooLate(ctx context.Context) error {
	r := &mailboxRoom{capacity: 1}
	r.waiterCount.Store(1) // so that the sender does not look at first
	_, err := r.acquireRoom(ctx, 1, false)
	return err
}

// GrantAndQueue gives the only place of a room to a sender and lets another
// stand in line. renounce is the first one's leaving.
func GrantAndQueue(ctx context.Context) (renounce func() error, entered <-chan error) {
	r := &mailboxRoom{capacity: 1}
	r.tryAcquireRoom(1)
	granted := &roomWaiter{size: 1}
	next := make(chan error, 1)
	go func() {
		_, err := r.acquireRoom(ctx, 1, false)
		next <- err
	}()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	return func() error { return r.leaveWaiters(over, granted) }, next
}

// RenounceClosed is the leaving of a sender in the moment in which the room it
// waits for is closed. It returns how many are in the room then.
func RenounceClosed() (depth int64, err error) {
	r := new(mailboxRoom)
	p := &roomWaiter{size: 1, ready: make(chan struct{})}
	r.waiters = append(r.waiters, p)
	r.closeWaiters(ErrStopped)
	err = r.leaveWaiters(context.Background(), p)
	return r.admitted.Load() - r.vacated.Load(), err
}

// OpenGate undoes what senders see first of a Stop.
func OpenGate[S, M, R any](a *Actor[S, M, R]) { a.gate.Store(nil) }
