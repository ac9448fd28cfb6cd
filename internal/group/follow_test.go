package group

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// play is a group whose ranges come, go and are cut while keys are locked.
type play struct {
	*Group
	disk    *disk
	version partition.Version
	next    byte
}

// reown gives ranges another form.
func (p *play) reown(t *rapid.T) {
	list := slices.Collect(p.List().All())
	r := list[rapid.IntRange(0, len(list)-1).Draw(t, "range")]
	p.version++
	become := r
	become.Version = p.version
	made := []own.Range{become}
	switch kind := rapid.IntRange(0, 4).Draw(t, "change"); {
	case kind == 0:
		made[0].State = own.Foreign
	case kind == 1:
		made[0].State = own.Serving
	case kind == 2:
		made[0].State = own.Frozen
	case r.State != own.Serving:
	case kind == 3: // all of it goes, and nothing is said of that
		made = nil
		defer p.reownAs(t, nil, []own.Range{{Span: r.Span, Version: p.version, State: own.Foreign}})
	default:
		middle := at(fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "middle")))
		if !r.Span.Contains(middle) || string(middle) == string(r.Span.Start) {
			return
		}
		left, right := become, become
		left.Span.End, right.Span.Start = middle, middle
		made = []own.Range{left, right}
	}
	p.reownAs(t, []own.Range{r}, made)
}

func (p *play) reownAs(t *rapid.T, expect, become []own.Range) {
	reply, err := p.Try(context.Background(), Request{Command: &own.Reown{Expect: expect, Become: become}})
	if err != nil || reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
}

// lock prepares a transaction, as far as that is possible.
func (p *play) lock(t *rapid.T) {
	key := fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "key"))
	r, ok := p.List().Find(at(key))
	if !ok || r.State != own.Serving {
		return
	}
	p.next++
	part := txn.Part{Span: r.Span, Writes: []command.Command{set(key, "new")}}
	if rapid.Bool().Draw(t, "range") {
		part.Ranges = []command.RangeRead{{Start: at(key), End: r.Span.End}}
	}
	_, err := p.Try(context.Background(), Request{Command: &txn.Prepare{ID: txn.ID{p.next}, Decider: 9, DeadlineMS: p.NowMS() + 60_000, Part: part}})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *play) resolve(t *rapid.T) {
	id := txn.ID{byte(rapid.IntRange(0, int(p.next)).Draw(t, "transaction"))}
	for r := range p.List().All() {
		if r.State == own.Serving {
			c := &txn.Resolve{ID: id, Span: r.Span, Commit: id[0]%2 == 0, DeadlineMS: p.NowMS()}
			if _, err := p.Try(context.Background(), Request{Command: c}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What is locked is what the records of the ranges say, and readers see just that.
func TestLocksFollowTheRangesThatComeAndGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDisk(true)
		g, err := Open(d, d, Options{ID: 1})
		if err != nil {
			t.Fatal(err)
		}
		p := &play{Group: g, disk: d}
		p.reownAs(t, nil, []own.Range{{Span: between("0", ""), State: own.Serving}})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				p.lock(t)
			case 2:
				p.reown(t)
			default:
				p.resolve(t)
			}
			p.compare(t)
		}
	})
}

// compare compares the locks with what a restart finds.
func (p *play) compare(t *rapid.T) {
	fresh, err := openGuard(p.disk, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	want := locksOf(fresh.locks)
	if err := p.actor.Do(context.Background(), func(x *executor) {
		if got := locksOf(x.guard.locks); !slices.Equal(got, want) {
			t.Fatalf("locked are\n%q, a restart finds\n%q", got, want)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got := locksOf(p.visible.locks); !slices.Equal(got, want) || int(p.visible.locked.Load()) != len(want) {
		t.Fatalf("readers see\n%q, not\n%q", got, want)
	}
}

func locksOf(l *txn.Locks) (found []string) {
	for _, lock := range l.All() {
		found = append(found, fmt.Sprintf("%x %q %q %v %v", lock.Txn[:1], lock.Start, lock.End, lock.Write, lock.Range))
	}
	return found
}

// All keys that expire are looked for when a range has come, which takes as long as
// there are such. A split brings none.
func TestOnlyARangeThatComesMakesTheGroupLookForWhatExpires(t *testing.T) {
	whole := serving("a", "", 1)
	g := owner(t, newDisk(true), 1, whole)
	if _, err := g.Tend(context.Background()); err != nil {
		t.Fatal(err)
	}
	horizon := func() (at int64) {
		if err := g.actor.Do(context.Background(), func(x *executor) { at = x.expiries.horizon }); err != nil {
			t.Fatal(err)
		}
		return at
	}
	left, right := serving("a", "m", 2), serving("m", "", 2)
	do(t, g, &own.Reown{Expect: []own.Range{whole}, Become: []own.Range{left, right}})
	if horizon() == nothingKnown {
		t.Error("a split makes it look for what expires")
	}
	gone := right
	gone.State, gone.Version = own.Foreign, 3
	reown(t, g, right, gone)
	if horizon() == nothingKnown {
		t.Error("a range that goes makes it look for what expires")
	}
	right.Version = 4
	reown(t, g, gone, right)
	if horizon() != nothingKnown {
		t.Error("what has come may expire, and nobody looks")
	}
}

// memory is a log and a state that take no time: what is measured is the group. It
// cannot be scanned.
type memory map[string][]byte

func (m memory) Commit(_ bool, effects []byte) error {
	batch, err := effect.Parse(effects)
	for _, op := range batch.All() {
		if delete(m, string(op.Key)); !op.Delete {
			m[string(op.Key)] = bytes.Clone(op.Value)
		}
	}
	return err
}

func (m memory) Get(key, dst []byte) ([]byte, bool, error) {
	v, ok := m[string(key)]
	return append(dst, v...), ok, nil
}

func (m memory) Sync() error                                                    { return nil }
func (m memory) ReadBarrier(context.Context) error                              { return nil }
func (m memory) Scan(_, _ []byte, _ bool, _ func(key, value []byte) bool) error { return nil }

// What a command costs in a group with many ranges, and with many locks.
func BenchmarkMany(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		for _, locks := range []int{0, 10_000} {
			m := memory{}
			g, err := Open(m, m, Options{ID: 1})
			if err != nil {
				b.Fatal(err)
			}
			key := func(i int) string { return fmt.Sprintf("customer/%08d/order", i*7919) }
			ranges := make([]own.Range, n)
			for i := range ranges {
				if ranges[i] = serving(key(i), key(i+1), 1); i == n-1 {
					ranges[i].Span.End = nil
				}
			}
			do(b, g, &own.Reown{Become: ranges})
			for i := range locks {
				s := ranges[n-1].Span
				do(b, g, &txn.Prepare{
					ID: txn.ID{1, byte(i >> 8), byte(i)}, Decider: 9, DeadlineMS: g.NowMS() + 1e9,
					Part: txn.Part{Span: s, Writes: []command.Command{set(fmt.Sprintf("%s/%06d", key(n-1), i), "x")}},
				})
			}
			name := fmt.Sprintf("ranges=%d/locks=%d", n, locks)
			b.Run("do=set/"+name, func(b *testing.B) {
				c := set(key(3)+"/x", "value")
				for b.Loop() {
					do(b, g, c)
				}
			})
			b.Run("do=split+merge/"+name, func(b *testing.B) {
				whole := ranges[5]
				left, right := serving(key(5), key(5)+"m", 2), serving(key(5)+"m", key(6), 2)
				for b.Loop() {
					do(b, g, &own.Reown{Expect: []own.Range{whole}, Become: []own.Range{left, right}})
					do(b, g, &own.Reown{Expect: []own.Range{left, right}, Become: []own.Range{whole}})
				}
			})
			b.Run("do=prepare+resolve/"+name, func(b *testing.B) {
				p := &txn.Prepare{
					Decider: 9, DeadlineMS: g.NowMS() + 1e9,
					Part: txn.Part{Span: ranges[5].Span, Writes: []command.Command{set(key(5)+"/x", "x")}},
				}
				for i := 0; b.Loop(); i++ {
					p.ID = txn.ID{2, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}
					do(b, g, p)
					do(b, g, &txn.Resolve{ID: p.ID, Span: p.Part.Span, Commit: true, DeadlineMS: p.DeadlineMS})
				}
			})
		}
	}
}
