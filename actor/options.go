package actor

import (
	"errors"
	"fmt"
	"time"
)

// Mode selects the goroutine that runs the handler.
type Mode uint8

const (
	// Combining lets callers run it: a caller that finds the actor free runs its own
	// message and all those that wait. No goroutine, nothing to leak.
	Combining Mode = iota
	// Owner gives the actor a goroutine that runs it and lives until Stop. For
	// handlers that must not run on, or hold up, a caller's goroutine.
	Owner
)

// String names the mode.
func (m Mode) String() string {
	switch m {
	case Combining:
		return "combining"
	case Owner:
		return "owner"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// FullPolicy specifies what happens to a sender that finds the mailbox full.
type FullPolicy uint8

const (
	// Block makes it wait, first come first served, until there is room or its
	// context ends.
	Block FullPolicy = iota
	// Refuse gives it ErrFull at once.
	Refuse
)

// String names the policy.
func (p FullPolicy) String() string {
	switch p {
	case Block:
		return "block"
	case Refuse:
		return "refuse"
	}
	return fmt.Sprintf("FullPolicy(%d)", uint8(p))
}

// PanicPolicy specifies what becomes of an actor whose handler panicked.
type PanicPolicy uint8

const (
	// Poison makes the actor refuse everything from then on. The default: the
	// state may be half changed, and a wrong answer is worse than none.
	Poison PanicPolicy = iota
	// KeepGoing trusts the state. For handlers that change nothing before the
	// last thing that can panic.
	KeepGoing
)

// String names the policy.
func (p PanicPolicy) String() string {
	switch p {
	case Poison:
		return "poison"
	case KeepGoing:
		return "keep going"
	}
	return fmt.Sprintf("PanicPolicy(%d)", uint8(p))
}

// Options configure an actor. The zero value works.
type Options struct {
	// Mode selects the goroutine that runs the handler. Default Combining.
	Mode Mode
	// Capacity bounds the messages that wait in the mailbox; those being
	// handled do not count. Default 1024: enough that bursts form large
	// batches, little enough that a full mailbox is drained in well under a
	// millisecond by handlers of a few hundred nanoseconds a message. At
	// least 1.
	Capacity int
	// Full specifies what happens to a sender when there is no room. Default Block.
	Full FullPolicy
	// MaxBatch bounds the messages that the handler sees at once. Default 256:
	// what is paid once per batch is then paid for little, and the first
	// message of a batch does not wait for a whole full mailbox. At least 1. What one CallBatch or PostBatch sent is never split, so a
	// larger one is a batch by itself.
	MaxBatch int
	// Turns bounds how many batches a combining caller runs for others after
	// its own message is done, before it hands the actor over to one of them.
	// Default 16: handing over costs a goroutine switch. Negative means none:
	// right for handlers that block, on a disk for instance. Unused by Owner.
	Turns int
	// Gather makes a combining caller let others run first, once, so that callers
	// that were answered just before are in its batch with their next message. One
	// that finds the actor free does so only if it has had company lately. Right
	// for handlers whose batches cost the same whatever their size, such as one
	// write to a disk. Unused by Owner.
	Gather bool
	// AfterPanic specifies whether a panic ends the actor. Default Poison.
	AfterPanic PanicPolicy
	// OnPanic, if set, is called with every panic, also those that hit only posted
	// messages and so reach no caller. It runs while the actor is held: it
	// must be quick and must not call the actor. It has a goroutine of its
	// own, and a panic in it is dropped.
	OnPanic func(*PanicError)
	// SampleEvery specifies how many messages, and how many batches, go by for one
	// whose time is measured. Default 64: reading a clock costs
	// about as much as an uncontended call. 1 measures all, negative none.
	SampleEvery int
	// Now is the monotonic clock behind the latency figures. Default: time
	// since the package was loaded. It is read while the actor is held, by
	// its holder, and also by senders: it must be safe for concurrent
	// use, must not call the actor, and must neither panic nor end its
	// goroutine, or the actor stays held and no message is answered any more.
	Now func() time.Duration
}

var loadTime = time.Now()

func sinceLoaded() time.Duration { return time.Since(loadTime) }

// withDefaults validates o and fills in what it leaves open.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...)))
	}
	if o.Mode > Owner {
		bad("Mode is %d, want Combining or Owner", o.Mode)
	}
	if o.Full > Refuse {
		bad("Full is %d, want Block or Refuse", o.Full)
	}
	if o.AfterPanic > KeepGoing {
		bad("AfterPanic is %d, want Poison or KeepGoing", o.AfterPanic)
	}
	if o.Capacity < 0 {
		bad("Capacity is %d, want at least 1 (0 means the default)", o.Capacity)
	}
	if o.MaxBatch < 0 {
		bad("MaxBatch is %d, want at least 1 (0 means the default)", o.MaxBatch)
	}
	o.Capacity = orDefault(o.Capacity, 1024)
	o.MaxBatch = orDefault(o.MaxBatch, 256)
	o.Turns = max(orDefault(o.Turns, 16), 0)
	o.SampleEvery = max(orDefault(o.SampleEvery, 64), 0)
	if o.Now == nil {
		o.Now = sinceLoaded
	}
	return o, errors.Join(errs...)
}

// orDefault returns v, or def if v is unset.
func orDefault(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}
