package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/partition"
)

// reshaper changes the map all the time.
type reshaper struct {
	*child
	rng *rand.Rand
}

// maxJobWait is how long it waits for a job before it begins another.
const maxJobWait = 300 * time.Millisecond

func (r *reshaper) run() {
	for !r.isStopping.Load() {
		time.Sleep(time.Duration(r.rng.IntN(4000)) * time.Microsecond)
		change := r.drawChange()
		if change == nil {
			continue
		}
		job, err := r.db.Start(ctx, change)
		if err != nil {
			if !isExpected(err) {
				r.reportTrouble("start %+v: %v", change, err)
			}
			continue
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.watchJob(job)
		}()
		r.controlJob(job)
		select {
		case <-ended:
		case <-time.After(maxJobWait):
		}
	}
}

// isExpected reports whether a change at random may be refused with an error: others
// change the map too.
func isExpected(err error) bool {
	for _, e := range []error{
		cleave.ErrBoundary, cleave.ErrNoChange, cleave.ErrNotNeighbours, cleave.ErrDifferentGroups, cleave.ErrNoShard,
		cleave.ErrBusy, cleave.ErrDraining, cleave.ErrNoGroup, cleave.ErrNowhere,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// How many shards there are at most before they are only merged and moved, and how
// many groups.
const (
	maxShards = 24
	maxGroups = 9
)

// drawChange returns a change at random, or nil.
func (r *reshaper) drawChange() cleave.MapChange {
	all, err := r.db.Shards(ctx)
	if err != nil {
		r.reportTrouble("shards: %v", err)
		return nil
	}
	var shards []cleave.Shard
	for _, s := range all {
		if s.Keyspace != "" {
			shards = append(shards, s)
		}
	}
	i := r.rng.IntN(len(shards))
	switch n := r.rng.IntN(100); {
	case n < 22 && len(shards) < maxShards:
		return r.drawSplit()
	case n < 48:
		return r.drawMerge(shards, i)
	case n < 50:
		return r.drawRegroup()
	}
	groups := r.db.Groups()
	m := cleave.Move{Shard: shards[i].ID, To: groups[r.rng.IntN(len(groups))].ID}
	if r.rng.IntN(6) == 0 {
		m.BytesPerSecond = 64 << 10 // so that it takes a while
	}
	return m
}

// drawSplit cuts where keys are.
func (r *reshaper) drawSplit() cleave.MapChange {
	n := 1
	if r.rng.IntN(6) == 0 {
		n = 4 // in several shards
	}
	if r.rng.IntN(2) == 0 {
		slots := make([]int, n)
		for i := range slots {
			slots[i] = 1 + r.rng.IntN(16383)
		}
		return cleave.SplitAtSlots(r.hash, slots...)
	}
	keys := make([][]byte, 0, n)
	for range n {
		key := scanKey(r.rng.IntN(scanKeyCount))
		switch r.rng.IntN(6) {
		case 0:
			key = fmt.Sprintf("o:bank %d", r.rng.IntN(accountCount/2))
		case 1:
			key = fmt.Sprintf("o:list %d.0 %d", r.Life/2, r.rng.IntN(3))
		case 2:
			key = fmt.Sprintf("o:reg %d.0 %d", r.Life/2, r.rng.IntN(6))
		case 3:
			key = fmt.Sprintf("o:cnt %d", r.rng.IntN(countersPerKeyspace))
		}
		keys = append(keys, []byte(key))
	}
	return cleave.SplitAtKeys(r.ordered, keys...)
}

// drawMerge joins the first two from i on that can be, or brings two together.
func (r *reshaper) drawMerge(shards []cleave.Shard, i int) cleave.MapChange {
	for n := range shards {
		a, b := shards[(i+n)%len(shards)], shards[(i+n+1)%len(shards)]
		if a.Group == b.Group && a.Keyspace == b.Keyspace && string(a.Span.End) == string(b.Span.Start) {
			return cleave.Merge{Left: a.ID, Right: b.ID}
		}
	}
	return cleave.Move{Shard: shards[i].ID, To: shards[(i+1)%len(shards)].Group}
}

// drawRegroup empties a group, or changes how many there are.
func (r *reshaper) drawRegroup() cleave.MapChange {
	groups := r.db.Groups()
	drained := 0
	for _, g := range groups {
		if g.Draining {
			drained++
		}
	}
	if drained == 0 && len(groups) > r.Stores+1 && r.rng.IntN(2) == 0 {
		return cleave.Drain{Group: groups[1+r.rng.IntN(len(groups)-1)].ID, Parallel: 2}
	}
	n := len(groups) + 1
	if drained > 0 || n > maxGroups {
		n = max(r.Stores, len(groups)-1)
	}
	return cleave.Regroup{Groups: n, Parallel: 2}
}

// controlJob cancels or pauses a job now and then.
func (r *reshaper) controlJob(job *cleave.Job) {
	time.Sleep(time.Duration(r.rng.IntN(3000)) * time.Microsecond)
	var err error
	switch r.rng.IntN(12) {
	case 0:
		err = job.Cancel(ctx)
	case 1:
		if err = job.Pause(ctx); err == nil {
			time.Sleep(time.Duration(r.rng.IntN(4000)) * time.Microsecond)
			err = job.Resume(ctx)
		}
	case 2:
		err = job.Throttle(ctx, 1<<20)
	}
	if err != nil && !errors.Is(err, cleave.ErrTooLate) && !errors.Is(err, cleave.ErrJobEnded) {
		r.reportTrouble("meddle with job %d: %v", job.ID(), err)
	}
}

// watchJob reports each phase of a job that it sees, and its end.
func (c *child) watchJob(j *cleave.Job) {
	last := ""
	for {
		s, err := j.Status(ctx)
		if err != nil {
			if !errors.Is(err, cleave.ErrClosed) {
				c.reportTrouble("status of job %d: %v", j.ID(), err)
			}
			return
		}
		note := c.toJobState(s)
		if note.Phase != last {
			last = note.Phase
			c.writeEvent(event{Say: eventJob, Jobs: []jobState{note}})
		}
		if note.Ended {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func (c *child) toJobState(s cleave.JobStatus) jobState {
	m := c.db.Map()
	return jobState{
		ID: uint64(s.ID), Kind: s.Kind, Phase: s.Phase, Why: s.Why,
		Between: s.Kind == "move" && c.findStore(m, s.From) != c.findStore(m, s.To),
		Ended:   s.State == cleave.JobDone || s.State == cleave.JobUndone, Undone: s.State == cleave.JobUndone,
	}
}

// findStore returns the store of a group, by its label.
func (c *child) findStore(m *partition.Map, g cleave.GroupID) string {
	group, ok := m.Group(g)
	if !ok {
		return ""
	}
	store, _ := group.Labels.Value("store")
	return store
}
