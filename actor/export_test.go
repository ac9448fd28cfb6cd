package actor

import (
	"context"
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
	var r recorder
	for _, d := range ns {
		r.observe(time.Duration(d))
	}
	return r.snapshot()
}

// OfferToSleeper offers the actor to an entry while its sender falls asleep.
// It reports whether the offer was made and whether the sender noticed.
func OfferToSleeper[S, M, R any](a *Actor[S, M, R]) (offered, led bool) {
	ctx, cancel := context.WithCancel(context.Background())
	n := a.fetch(exclusive)
	state := make(chan uint32)
	go func() { state <- a.sleep(ctx, n) }()
	if offered = a.offer(n); !offered {
		cancel()
	}
	led = <-state == leader
	cancel()
	a.recycle(n)
	return offered, led
}
