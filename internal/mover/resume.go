package mover

import (
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// Resume returns what a job wants done. It depends on the record alone: after a
// crash, or in another driver, the job goes on as if nothing had been.
func Resume(j Job) []Effect {
	if j.Phase.Final() || j.Paused && j.Phase.bulk() {
		return nil
	}
	switch j.Phase {
	case Planned:
		if j.Kind.composite() {
			return nil
		}
		return []Effect{Look{Round: j.Round, From: j.From, To: j.To, Span: j.Span}}
	case Locating:
		return []Effect{Locate{Round: j.Round, From: j.From}}
	case Copying:
		c := Copy{
			Round: j.Round, Job: j.ID, From: j.From, To: j.To, Span: j.Span, Attempt: j.Attempt, Base: j.Base,
			Cursor: j.Cursor, LimitBytes: RoundBytes, NotBeforeMS: j.NotBeforeMS,
		}
		if j.Throttle > 0 { // what it allows in a second, so that it goes on evenly
			c.LimitBytes = int(min(j.Throttle, RoundBytes))
		}
		return []Effect{c}
	case Catching, Finishing:
		return []Effect{j.catchUp()}
	case Verifying, Comparing:
		return []Effect{Verify{
			Round: j.Round, Job: j.ID, From: j.From, To: j.To, Span: j.Span, Attempt: j.Attempt,
			Upto: j.Upto, Since: j.Verified, Until: j.End,
		}}
	case Deciding, Marking, Removing, Unmarking:
		return []Effect{Choose{Round: j.Round}}
	case Publishing:
		return []Effect{Publish{Round: j.Round, Version: j.Version}}
	case Hosting:
		return []Effect{Host{Round: j.Round, Groups: j.Groups}}
	case Surveying, Stopping:
		return []Effect{Survey{Round: j.Round}}
	case Retiring:
		return []Effect{Retire{Round: j.Round, Groups: j.Groups}}
	}
	return j.commands()
}

func (j *Job) catchUp() Effect {
	c := CatchUp{
		Round: j.Round, Job: j.ID, From: j.From, To: j.To, Span: j.Span, Attempt: j.Attempt,
		Upto: j.Upto, LimitBytes: RoundBytes,
	}
	if j.Phase == Finishing {
		c.Until, c.LimitBytes = j.End, frozenBytes // nobody throttles a range that takes no writes
	} else {
		c.NotBeforeMS = j.NotBeforeMS
	}
	return c
}

// commands returns what the phase wants groups to evaluate.
func (j *Job) commands() []Effect {
	switch j.Phase {
	case Preparing:
		// The first copy takes the place of nothing, the others that of the one before.
		return j.evaluate(j.To, &Settle{
			Job: j.ID, Become: j.incoming(j.Attempt, 0), Attempt: j.Attempt - 1, Fresh: j.Attempt == 1, Floor: j.Floor,
		})
	case Clearing:
		return j.evaluate(j.To, &Clear{Job: j.ID, Attempt: j.Attempt, Span: j.Span, Limit: ClearRows})
	case Opening:
		return j.evaluate(j.To, change(j.incoming(j.Attempt, 0), j.incoming(j.Attempt, j.Base)))
	case Freezing:
		return j.evaluate(j.From, change(j.serving(j.Freezes-1), j.frozen()))
	case Thawing:
		return j.evaluate(j.From, &Thaw{Frozen: j.frozen(), Before: j.serving(j.Freezes - 1), Become: j.serving(j.Freezes)})
	case Abandoning:
		return j.evaluate(j.To, &Settle{Job: j.ID, Become: j.foreign(j.Held[0].Version, 0), Any: true, Fresh: true})
	case Wiping:
		return j.evaluate(j.To, &Clear{Job: j.ID, Span: j.Span, Limit: ClearRows})
	case Dismissing:
		v := j.Held[0].Version
		return j.evaluate(j.To, j.leave(j.foreign(v, 0), v))
	case Releasing:
		return j.release()
	case Activating:
		return j.activate()
	case Dropping:
		return j.evaluate(j.From, &Clear{Job: j.ID, Span: j.Span, Limit: ClearRows})
	case Forgetting:
		return j.evaluate(j.From, j.leave(j.foreign(j.Version, 0), j.Version))
	}
	return nil
}

// release is the first step after the decision: from here the source refuses
// reads too. Where no rows are moved it is the only one.
func (j *Job) release() []Effect {
	switch {
	case j.Remote():
		gone := j.foreign(j.Version, 0)
		if plant.Bug("mover-source-reads-on") {
			gone.State = own.Frozen
		}
		effects := j.evaluate(j.From, change(j.frozen(), gone))
		if plant.Bug("mover-activate-before-release") {
			return append(effects, j.activate()...)
		}
		return effects
	case j.Kind == Move:
		return []Effect{Evaluate{Round: j.Round, Carry: true, Parts: []Part{
			{j.From, j.leave(j.Held[0], j.Version)},
			{j.To, &Settle{Job: j.ID, Become: j.given(j.Span), Fresh: true, Floor: j.Floor}},
		}}}
	}
	c := &own.Reown{Expect: j.Held}
	if j.Kind == Merge {
		c.Become = []own.Range{j.given(j.Span)}
	} else {
		start := j.Span.Start
		for _, at := range j.At {
			c.Become = append(c.Become, j.given(partition.Span{Start: start, End: at}))
			start = at
		}
		c.Become = append(c.Become, j.given(partition.Span{Start: start, End: j.Span.End}))
	}
	return j.evaluate(j.From, c)
}

// activate lets the destination serve.
func (j *Job) activate() []Effect {
	effects := j.evaluate(j.To, &Settle{
		Job: j.ID, Attempt: j.Attempt, Become: j.given(j.Span), VersionFloor: j.VersionFloor, ClockFloorMS: j.ClockFloorMS,
	})
	if plant.Bug("mover-drop-before-activate") {
		return append(j.evaluate(j.From, &Clear{Job: j.ID, Span: j.Span, Limit: ClearRows}), effects...)
	}
	return effects
}

func (j *Job) evaluate(g partition.GroupID, c Bound) []Effect {
	e := Evaluate{Round: j.Round, Parts: []Part{{g, c}}}
	if j.Phase.bulk() {
		e.NotBeforeMS = j.NotBeforeMS
	}
	return []Effect{e}
}

// change makes the command that puts one range in the place of another.
func change(expect, become own.Range) *own.Reown {
	return &own.Reown{Expect: []own.Range{expect}, Become: []own.Range{become}}
}

// leave makes the command after which the job has left nothing of a range, and some of
// what earlier ones have left is joined.
func (j *Job) leave(expect own.Range, v partition.Version) *own.Reown {
	c := change(expect, j.foreign(v, own.Dropped))
	c.Floor = j.Floor
	return c
}
