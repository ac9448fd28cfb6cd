package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/route"
)

// Letter is for one user.
type Letter struct{ To, Text string }

// office is the state of one shard: the mailboxes of its users. It has no
// lock, because one actor owns it.
type office map[string][]string

// newBox is how many letters a box has room for at first: as many as the
// program sends to a user, so that no way of sending pays for larger boxes.
const newBox = 1 + rounds*4

// order is what an office understands: put a letter into the box of its
// receiver, or only look into it. The reply is the number of letters there.
type order struct {
	Letter
	deliver bool
}

func (o office) handle(r order) int {
	box := o[r.To]
	if r.deliver {
		if box == nil {
			box = make([]string, 0, newBox)
		}
		box = append(box, r.Text)
		o[r.To] = box
	}
	return len(box)
}

// Post is a fleet of offices and the rule that says which one has whose box.
// Grow must not run beside the other methods: to move boxes while letters
// arrive needs a protocol, and that is what the store is for.
type Post struct {
	fleet  *actor.Fleet[office, order, int]
	router *route.Rendezvous
}

// OpenPost opens a post with room for some offices, of which the first few are
// in use.
func OpenPost(room, inUse int, mode actor.Mode) (*Post, error) {
	nodes := make([]route.Node, max(inUse, 0))
	for i := range nodes {
		nodes[i].Name = officeName(i)
	}
	router, err := route.NewRendezvous(nodes)
	if err != nil {
		return nil, err
	}
	if inUse > room {
		return nil, fmt.Errorf("mailboxes: %d offices in use, room for %d", inUse, room)
	}
	handle := actor.Each(func(o *office, r order) int { return o.handle(r) })
	fleet, err := actor.NewFleet(room, func(int) office { return office{} }, handle, actor.Options{Mode: mode})
	if err != nil {
		return nil, err
	}
	return &Post{fleet, router}, nil
}

func officeName(i int) string { return fmt.Sprint("office ", i) }

// shardOf is the office that has the box of user.
func (p *Post) shardOf(user string) int { return p.router.Route(hash.XXH3String(user)) }

// Drop hands a letter in and does not wait until it is in the box.
func (p *Post) Drop(ctx context.Context, l Letter) error {
	return p.fleet.Post(ctx, p.shardOf(l.To), order{l, true})
}

// DropAll is Drop for letters to many users: one entry in the mailbox of each
// office, however many letters that office gets.
func (p *Post) DropAll(ctx context.Context, letters []Letter) error {
	return p.fleet.PostBatch(ctx, p.officeOf, deliveries(letters))
}

// Deliver waits until a letter is in the box.
func (p *Post) Deliver(ctx context.Context, l Letter) error {
	_, err := p.fleet.Call(ctx, p.shardOf(l.To), order{l, true})
	return err
}

// DeliverAll is Deliver for letters to many users: it waits once for all.
func (p *Post) DeliverAll(ctx context.Context, letters []Letter) error {
	return p.fleet.CallBatch(ctx, p.officeOf, deliveries(letters), make([]int, len(letters)))
}

func (p *Post) officeOf(o order) int { return p.shardOf(o.To) }

// deliveries are the orders that put letters into their boxes.
func deliveries(letters []Letter) []order {
	orders := make([]order, len(letters))
	for i, l := range letters {
		orders[i] = order{l, true}
	}
	return orders
}

// Flush waits until everything that the same caller dropped before is in its
// box: an actor handles what one sender sends in order.
func (p *Post) Flush(ctx context.Context) error {
	for i := range p.fleet.Len() {
		if err := p.fleet.Do(ctx, i, func(*office) {}); err != nil {
			return err
		}
	}
	return nil
}

// Count returns how many letters a user has. It sees every letter that the same
// caller dropped before.
func (p *Post) Count(ctx context.Context, user string) (int, error) {
	return p.fleet.Call(ctx, p.shardOf(user), order{Letter: Letter{To: user}})
}

// Grow takes one more office into use and moves the boxes that are now its.
// It returns how many boxes there are and how many moved, and what the router
// promised to move.
func (p *Post) Grow(ctx context.Context) (boxes, moved int, promised route.Movement, err error) {
	fresh := len(p.router.Nodes())
	router, err := p.router.With(route.Node{Name: officeName(fresh)})
	if err != nil {
		return 0, 0, promised, err
	}
	for from := range fresh {
		// Both offices stand still while boxes go from one to the other.
		err := p.fleet.DoAll(ctx, []int{from, fresh}, func(o []*office) {
			source, target := *o[0], *o[1]
			boxes += len(source)
			for _, user := range slices.Collect(maps.Keys(source)) {
				if router.Route(hash.XXH3String(user)) == fresh {
					target[user] = source[user]
					delete(source, user)
					moved++
				}
			}
		})
		if err != nil {
			return boxes, moved, promised, err
		}
	}
	promised = route.Compare(p.router, router, route.Sample(1<<16))
	p.router = router
	return boxes, moved, promised, nil
}

// Line is one office in a report.
type Line struct {
	Office         string
	Boxes, Letters int
	Stats          actor.Stats
}

// Report describes the offices in use.
func (p *Post) Report(ctx context.Context) ([]Line, error) {
	var lines []Line
	stats := p.fleet.Stats()
	for i, node := range p.router.Nodes() {
		line := Line{Office: node.Name, Stats: stats[i]}
		err := p.fleet.Do(ctx, i, func(o *office) {
			line.Boxes = len(*o)
			for _, letters := range *o {
				line.Letters += len(letters)
			}
		})
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// Close stops all offices when they have delivered what they accepted.
func (p *Post) Close(ctx context.Context) error { return p.fleet.Stop(ctx) }
