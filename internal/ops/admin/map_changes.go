package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

// planMapChange plans a change of the map.
func (a *Admin) planMapChange(ctx context.Context, c cleave.MapChange, summary string, steps ...string) (*plannedChange, error) {
	price, err := a.o.DB.Plan(ctx, c)
	if err != nil {
		return nil, err
	}
	told := toPrice(price)
	return &plannedChange{
		plan: api.Plan{Summary: summary, Steps: steps, Price: &told},
		apply: func(ctx context.Context) (*api.Job, error) {
			job, err := a.o.DB.Start(ctx, c)
			if err != nil {
				return nil, err
			}
			s, err := job.Status(ctx)
			if err != nil {
				// It has begun, even if its state is unknown.
				s = cleave.JobStatus{ID: job.ID(), Created: a.o.Now(), Changed: a.o.Now()}
			}
			one := toJob(s, a.o.Now())
			return &one, nil
		},
	}, nil
}

func toPrice(p cleave.Price) api.Price {
	return api.Price{
		Rows: p.Rows, Bytes: p.Bytes, Moves: p.Moves, Seconds: p.Duration.Seconds(), PauseSeconds: p.Pause.Seconds(),
		SkewBefore: p.SkewBefore, SkewAfter: p.SkewAfter,
	}
}

// findKeyspace is the keyspace of a name, "" for the default one.
func (a *Admin) findKeyspace(name string) (*cleave.Keyspace, error) {
	if name == "" {
		return a.o.DB.Default(), nil
	}
	return a.o.DB.Keyspace(name)
}

// planSplit plans cuts at slots or keys, or in the middle of a shard.
func (a *Admin) planSplit(ctx context.Context, _ *query, r api.Split) (*plannedChange, error) {
	given := 0
	for _, is := range []bool{len(r.Slots) > 0, len(r.Keys) > 0, r.Shard != 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, newInvalidError("a split needs one of slots, keys and shard", "give exactly one")
	}
	if r.Shard != 0 {
		if r.Keyspace != "" {
			return nil, newInvalidError("a shard has its keyspace", "leave the keyspace out")
		}
		return a.planSplitMiddle(ctx, r.Shard)
	}
	k, err := a.findKeyspace(r.Keyspace)
	if err != nil {
		return nil, err
	}
	hash := k.Options().Kind == cleave.Hash
	if len(r.Slots) > 0 && !hash {
		return nil, newInvalidError("keyspace "+k.Name()+" is of kind range and has no slots", "give keys")
	}
	c := cuts{keyspace: k, slots: r.Slots}
	for _, key := range r.Keys {
		if hash {
			c.slots = append(c.slots, k.Locate(key).Slot)
		} else {
			c.keys = append(c.keys, key)
		}
	}
	return a.planMapChange(ctx, c.toSplit(), c.describe(), "No keys are moved: each new shard stays with the group of the one that it was part of.")
}

// cuts are the slots or the keys of a keyspace that a split cuts at.
type cuts struct {
	keyspace *cleave.Keyspace
	slots    []int
	keys     [][]byte
}

func (c *cuts) toSplit() cleave.Split {
	if len(c.slots) > 0 {
		return cleave.SplitAtSlots(c.keyspace, c.slots...)
	}
	return cleave.SplitAtKeys(c.keyspace, c.keys...)
}

// describe returns the cuts in words.
func (c *cuts) describe() string {
	var at []string
	for _, s := range c.slots {
		at = append(at, fmt.Sprint("slot ", s))
	}
	for _, k := range c.keys {
		at = append(at, "key "+quoteKey(k))
	}
	const shown = 8
	if n := len(at); n > shown {
		at = append(at[:shown:shown], fmt.Sprintf("and %d more", n-shown))
	}
	return fmt.Sprintf("cut keyspace %s at %s", c.keyspace.Name(), strings.Join(at, ", "))
}

// planSplitMiddle plans a cut in the middle of a shard.
func (a *Admin) planSplitMiddle(ctx context.Context, id uint64) (*plannedChange, error) {
	s, ok := a.o.DB.Map().Shard(cleave.ShardID(id))
	if !ok {
		return nil, notFoundError(fmt.Sprintf("there is no shard %d", id), "list the shards")
	}
	at, in, ok := a.node.SplitPoint(s)
	whole := newRefusedError(fmt.Sprintf("shard %d cannot be cut in its middle: it has one slot, one key, or nothing", id), "name a key to cut it at")
	if !ok {
		return nil, whole
	}
	k, err := a.o.DB.Keyspace(in.Name)
	if err != nil {
		return nil, err
	}
	c := cuts{keyspace: k}
	if in.Kind == cleave.Hash {
		c.slots = []int{in.SlotAt(at)}
	} else {
		key, _, err := in.Split(nil, at)
		if err != nil {
			return nil, whole // behind the one key that has most of it
		}
		c.keys = [][]byte{key}
	}
	return a.planMapChange(ctx, c.toSplit(), fmt.Sprintf("%s, the middle of shard %d", c.describe(), id), "No keys are moved: the new shard stays with the group of the old one.")
}

// planPresplit plans many cuts of a keyspace.
func (a *Admin) planPresplit(ctx context.Context, _ *query, r api.Presplit) (*plannedChange, error) {
	k, err := a.findKeyspace(r.Keyspace)
	if err != nil {
		return nil, err
	}
	hash := k.Options().Kind == cleave.Hash
	switch {
	case (r.Into > 0) == (len(r.Keys) > 0) || r.Into < 0:
		return nil, newInvalidError("a pre-split needs one of into and keys", "give exactly one")
	case r.Into > 0 && !hash:
		return nil, newInvalidError("keyspace "+k.Name()+" is of kind range: its keys are not known", "give the keys to cut it at")
	case r.Into == 1:
		return nil, newInvalidError("into is 1", "give at least 2")
	case len(r.Keys) > 0 && hash:
		return nil, newInvalidError("keyspace "+k.Name()+" is of kind hash: its keys are spread over slots", "give into")
	}
	change, summary := cleave.SplitEvenly(k, r.Into), fmt.Sprintf("cut keyspace %s into %s", k.Name(), output.Plural(r.Into, "piece"))
	if r.Into == 0 {
		c := cuts{keyspace: k}
		for _, key := range r.Keys {
			c.keys = append(c.keys, key)
		}
		change, summary = c.toSplit(), c.describe()
	}
	return a.planMapChange(ctx, change, summary, "No keys are moved: move shards to other groups to spread them.")
}

func (a *Admin) planMerge(ctx context.Context, _ *query, r api.Merge) (*plannedChange, error) {
	return a.planMapChange(ctx, cleave.Merge{Left: cleave.ShardID(r.Left), Right: cleave.ShardID(r.Right)},
		fmt.Sprintf("join shard %d to its left neighbour %d", r.Right, r.Left), "No keys are moved. The id of the right one is gone for ever.")
}

func (a *Admin) planMove(ctx context.Context, _ *query, r api.Move) (*plannedChange, error) {
	s, ok := a.o.DB.Map().Shard(cleave.ShardID(r.Shard))
	if !ok {
		return nil, notFoundError(fmt.Sprintf("there is no shard %d", r.Shard), "list the shards")
	}
	steps := []string{}
	stores := map[cleave.GroupID]int{}
	for _, g := range a.o.DB.Groups() {
		stores[g.ID] = g.Store
	}
	if from, to := stores[s.Group], stores[cleave.GroupID(r.To)]; from == to {
		steps = append(steps, "Both groups are on one store: nothing is copied.")
	} else {
		steps = append(steps, fmt.Sprintf("Its rows are copied from store %d to store %d while clients go on; writes to it wait while it is handed over.", from, to))
	}
	return a.planMapChange(ctx, cleave.Move{Shard: s.ID, To: cleave.GroupID(r.To), BytesPerSecond: r.BytesPerSecond},
		fmt.Sprintf("move shard %d from group %d to group %d", r.Shard, s.Group, r.To), steps...)
}

func (a *Admin) planDrain(ctx context.Context, _ *query, r api.Drain) (*plannedChange, error) {
	return a.planMapChange(ctx, cleave.Drain{Group: cleave.GroupID(r.Group), Parallel: r.Parallel, BytesPerSecond: r.BytesPerSecond},
		fmt.Sprintf("move all shards of group %d to others", r.Group), "The group stays, and is given no more shards until it is undrained.")
}

func (a *Admin) planUndrain(ctx context.Context, _ *query, r api.Undrain) (*plannedChange, error) {
	return a.planMapChange(ctx, cleave.Undrain{Group: cleave.GroupID(r.Group)}, fmt.Sprintf("let group %d have shards again", r.Group), "It is given none: move some to it.")
}

func (a *Admin) planRegroup(ctx context.Context, _ *query, r api.Regroup) (*plannedChange, error) {
	return a.planMapChange(ctx, cleave.Regroup{Groups: r.Groups, Parallel: r.Parallel, BytesPerSecond: r.BytesPerSecond},
		fmt.Sprintf("change the number of groups from %d to %d", len(a.o.DB.Groups()), r.Groups),
		"New groups are filled with shards of the others; if there are to be fewer, those with the highest ids are drained and removed.")
}
