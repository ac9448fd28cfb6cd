package cleave

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/internal/wal"
)

// Whatever is done, in whatever order, over restarts and with keys that expire:
// a store answers as the model does.
func TestAStoreAnswersAsTheModelDoes(t *testing.T) {
	var did tally.Counts
	for range soaking(1) {
		rapid.Check(t, func(t *rapid.T) {
			l := newLaw(t, false, &did)
			defer func() { _ = l.db.Close() }()
			t.Repeat(l.actions())
		})
	}
	did.Log(t, "restarts", "transactions", "conflicts met", "keyspaces dropped", "keys expired", "batches", "batches refused", "batches repeated")
}

// law is a store with its model.
type law struct {
	db     *DB
	disks  []store.FS
	groups int
	clock  *machineClock
	models map[string]*model
	kinds  map[string]Kind
	// versions has the newest known version of each key. It only grows, until the keyspace is
	// dropped: the next of that name is another.
	versions map[string]uint64
	did      *tally.Counts
	// indexed tells that all keyspaces have an index.
	indexed bool
}

func newLaw(t *rapid.T, indexed bool, did *tally.Counts) *law {
	size := rapid.SampledFrom([]struct{ stores, groups int }{{1, 1}, {1, 5}, {3, 7}}).Draw(t, "size")
	l := &law{groups: size.groups, indexed: indexed, clock: newClock(), models: map[string]*model{}, kinds: map[string]Kind{}, versions: map[string]uint64{}, did: did}
	for range size.stores {
		l.disks = append(l.disks, store.Memory())
	}
	l.models["default"], l.kinds["default"] = l.newModel(), Hash
	l.open(t)
	return l
}

func (l *law) newModel() *model {
	return &model{items: map[string]*modelItem{}, now: l.clock.ms.Load}
}

func (l *law) open(t *rapid.T) {
	o := tiny(wal.Durability(rapid.IntRange(0, 2).Draw(t, "durability")), l.clock, l.disks...)
	o.TendEvery = -1 // the test tends
	o.Groups = l.groups
	var err error
	if l.db, err = openNode(o); err != nil {
		t.Fatal(err)
	}
	for name := range l.models {
		l.index(t, name)
	}
}

func (l *law) actions() map[string]func(*rapid.T) {
	one := func(f func(t *rapid.T, ks *Keyspace, m *model)) func(*rapid.T) {
		return func(t *rapid.T) {
			ks := l.space(t)
			f(t, ks, l.models[ks.Name()])
		}
	}
	simple := one(func(t *rapid.T, ks *Keyspace, m *model) { l.step(t, direct{ks}, ks, m) })
	return map[string]func(*rapid.T){
		"step": simple, "step2": simple, "step3": simple, "step4": simple,
		"item": one(l.item), "ifVersion": one(l.ifVersion),
		"page": one(l.page), "update": one(l.update), "view": one(l.view), "batch": l.batch, "batch2": l.batch,
		"time": l.pass, "tend": l.tend, "reopen": l.reopen, "keyspaces": l.keyspaces,
		"": l.check,
	}
}

func (l *law) space(t *rapid.T) *Keyspace {
	names := []string{}
	for name := range l.models {
		names = append(names, name)
	}
	slices.Sort(names)
	ks, err := l.db.Keyspace(rapid.SampledFrom(names).Draw(t, "keyspace"))
	if err != nil {
		t.Fatal(err)
	}
	return ks
}

// pass turns the clock. A command of each group makes it reserve the time. What
// transactions have locked does not expire, so they come to their end before.
func (l *law) pass(t *rapid.T) {
	for l.db.node.Count.Open.Load() > 0 {
		time.Sleep(100 * time.Microsecond)
	}
	l.clock.pass(time.Duration(rapid.IntRange(1, 20).Draw(t, "ms")) * time.Millisecond)
	for _, p := range l.db.node.Parts() {
		ks := l.db.Default()
		if _, err := p.Group.Do(ctx, group.Request{Command: &command.Get{Key: ks.space.AppendPosition(nil, []byte("none"))}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range l.models {
		before := len(m.items)
		for key := range m.items {
			m.live(key)
		}
		l.did.Add("keys expired", before-len(m.items))
	}
}

func (l *law) tend(t *rapid.T) {
	for _, p := range l.db.node.Parts() {
		for more := true; more; {
			var err error
			if more, err = p.Group.Tend(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (l *law) reopen(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		return
	}
	if err := l.db.Close(); err != nil {
		t.Fatal(err)
	}
	l.did.Add("restarts", 1)
	l.open(t)
}

// keyspaces makes one or drops one, and compares the list.
func (l *law) keyspaces(t *rapid.T) {
	name := rapid.SampledFrom([]string{"r1", "r2", "h1"}).Draw(t, "name")
	o := KeyspaceOptions{Name: name, Kind: Range}
	if name[0] == 'h' {
		o = KeyspaceOptions{Name: name, Slots: 4}
	}
	_, there := l.models[name]
	if rapid.IntRange(0, 2).Draw(t, "drop") == 0 {
		err := l.db.DropKeyspace(ctx, name)
		if there != (err == nil) || !there && !errors.Is(err, ErrNoKeyspace) {
			t.Fatalf("drop of %s, there %v: %v", name, there, err)
		}
		if there {
			l.did.Add("keyspaces dropped", 1)
			delete(l.models, name)
			maps.DeleteFunc(l.versions, func(at string, _ uint64) bool { return strings.HasPrefix(at, name+"/") })
		}
	} else {
		ks, err := l.db.CreateKeyspace(ctx, o)
		if there == (err == nil) || there && !errors.Is(err, ErrKeyspaceExists) {
			t.Fatalf("create of %s, there %v: %v", name, there, err)
		}
		if !there {
			if got := ks.Options(); got != o {
				t.Fatalf("created %+v, want %+v", got, o)
			}
			l.models[name], l.kinds[name] = l.newModel(), o.Kind
			l.index(t, name)
		}
	}
	var names []string
	for _, ks := range l.db.Keyspaces() {
		if ks.space.OfIndex() != "" {
			continue
		}
		if l.models[ks.Name()] == nil || ks.Options().Kind != l.kinds[ks.Name()] {
			t.Fatalf("keyspace %s of kind %v is listed", ks.Name(), ks.Options().Kind)
		}
		names = append(names, ks.Name())
	}
	if len(names) != len(l.models) || !slices.IsSorted(names) {
		t.Fatalf("%v are listed, want %d by name", names, len(l.models))
	}
}

// check compares everything, rarely: a scan of all is as long as the history.
func (l *law) check(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "check") > 0 {
		return
	}
	for name, m := range l.models {
		ks, err := l.db.Keyspace(name)
		if err != nil {
			t.Fatal(err)
		}
		l.compareAll(t, ks, m, ScanOptions{Reverse: rapid.Bool().Draw(t, "reverse")})
		l.compareIndex(t, name)
	}
}

// drawn is an ended context now and then: nothing must happen.
func drawn(t *rapid.T) context.Context {
	if rapid.IntRange(0, 19).Draw(t, "ended") > 0 {
		return ctx
	}
	c, cancel := context.WithCancel(ctx)
	cancel()
	return c
}
