package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

// Whatever is done, in whatever order, over restarts and with keys that expire:
// a store answers as the model does.
func TestAStoreAnswersAsTheModelDoes(t *testing.T) {
	var did tally.Counts
	for range scaleRounds(1) {
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
	// indexed reports whether all keyspaces have an index.
	indexed bool
}

func newLaw(t *rapid.T, indexed bool, did *tally.Counts) *law {
	size := rapid.SampledFrom([]struct{ stores, groups int }{{1, 1}, {1, 5}, {3, 7}}).Draw(t, "size")
	l := &law{groups: size.groups, indexed: indexed, clock: newClock(), models: map[string]*model{}, kinds: map[string]Kind{}, versions: map[string]uint64{}, did: did}
	for range size.stores {
		l.disks = append(l.disks, store.NewMemFS())
	}
	l.models["default"], l.kinds["default"] = l.newModel(), Hash
	l.open(t)
	return l
}

func (l *law) newModel() *model {
	return &model{items: map[string]*modelItem{}, now: l.clock.ms.Load}
}

func (l *law) open(t *rapid.T) {
	o := tinyOptions(wal.Durability(rapid.IntRange(0, 2).Draw(t, "durability")), l.clock, l.disks...)
	o.HousekeepInterval = -1 // the test tends
	o.Groups = l.groups
	var err error
	if l.db, err = openNode(o); err != nil {
		t.Fatal(err)
	}
	for name := range l.models {
		l.openIndex(t, name)
	}
}

func (l *law) actions() map[string]func(*rapid.T) {
	one := func(f func(t *rapid.T, ks *Keyspace, m *model)) func(*rapid.T) {
		return func(t *rapid.T) {
			ks := l.drawKeyspace(t)
			f(t, ks, l.models[ks.Name()])
		}
	}
	simple := one(func(t *rapid.T, ks *Keyspace, m *model) { l.step(t, keyspaceOps{ks}, ks, m) })
	return map[string]func(*rapid.T){
		"step": simple, "step2": simple, "step3": simple, "step4": simple,
		"item": one(l.readItem), "ifVersion": one(l.ifVersion),
		"page": one(l.readPages), "update": one(l.runUpdate), "view": one(l.runView), "batch": l.runBatch, "batch2": l.runBatch,
		"time": l.advanceClock, "tend": l.housekeep, "reopen": l.reopenStore, "keyspaces": l.changeKeyspaces,
		"": l.compareEverything,
	}
}

func (l *law) drawKeyspace(t *rapid.T) *Keyspace {
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

// advanceClock turns the clock. A command of each group makes it reserve the time. What
// transactions have locked does not expire, so they come to their end before.
func (l *law) advanceClock(t *rapid.T) {
	eventually.Holds(t, "no transaction is open", func() bool { return l.db.node.Counters.Open.Load() == 0 })
	l.clock.advance(time.Duration(rapid.IntRange(1, 20).Draw(t, "ms")) * time.Millisecond)
	for _, p := range l.db.node.GroupHosts() {
		ks := l.db.Default()
		if _, err := p.Group.Execute(ctx, group.Request{Command: &command.Get{Key: ks.keyspace.AppendPosition(nil, []byte("none"))}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range l.models {
		before := len(m.items)
		for key := range m.items {
			m.liveItem(key)
		}
		l.did.Add("keys expired", before-len(m.items))
	}
}

func (l *law) housekeep(t *rapid.T) {
	for _, p := range l.db.node.GroupHosts() {
		for more := true; more; {
			var err error
			if more, err = p.Group.Housekeep(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (l *law) reopenStore(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		return
	}
	if err := l.db.Close(); err != nil {
		t.Fatal(err)
	}
	l.did.Add("restarts", 1)
	l.open(t)
}

// changeKeyspaces makes one or drops one, and compares the list.
func (l *law) changeKeyspaces(t *rapid.T) {
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
			l.openIndex(t, name)
		}
	}
	var names []string
	for _, ks := range l.db.Keyspaces() {
		if ks.keyspace.OwningIndex() != "" {
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

// compareEverything compares everything, rarely: a scan of all is as long as the history.
func (l *law) compareEverything(t *rapid.T) {
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

// drawContext is an ended context now and then: nothing must happen.
func drawContext(t *rapid.T) context.Context {
	if rapid.IntRange(0, 19).Draw(t, "ended") > 0 {
		return ctx
	}
	c, cancel := context.WithCancel(ctx)
	cancel()
	return c
}

// step does one operation on both.
func (l *law) step(t *rapid.T, s operations, ks *Keyspace, m *model) {
	key := lawKey(t)
	k := string(key)
	op := rapid.SampledFrom([]string{"get", "set", "set", "delete", "add", "expire", "hget", "hgetall", "hset", "hset", "hdel", "scan", "item", "many", "exists", "persist", "hlen", "hadd", "hscan", "deleteMany"}).Draw(t, "op")
	switch op {
	case "get":
		got, err := s.Get(key)
		want, wantErr := m.get(k)
		checkAgrees(t, "get", string(got), err, want, wantErr)
	case "set":
		value, o := lawValue(t), lawSetOptions(t)
		err := s.SetWith(key, value, o)
		checkAgrees(t, "set", 0, err, 0, m.set(k, string(value), o, false))
	case "delete":
		got, err := s.Delete(key)
		want := 0
		if m.delete(k) {
			want = 1
		}
		checkAgrees(t, "delete", got, err, want, nil)
	case "add":
		delta := rapid.SampledFrom([]int64{0, 1, -7, 1 << 62}).Draw(t, "delta")
		o := AddOptions{IfPresent: rapid.Bool().Draw(t, "if present")}
		got, err := s.AddWith(key, delta, o)
		want, wantErr := m.add(k, delta, o)
		checkAgrees(t, "add", got, err, want, wantErr)
	case "expire":
		ttl := lawTTL(t) * time.Duration(rapid.SampledFrom([]int{1, 1, 1, 0, -1}).Draw(t, "sign"))
		got, err := s.Expire(key, ttl)
		checkAgrees(t, "expire", got, err, m.expire(k, ttl), nil)
	case "hget":
		name := lawField(t)
		got, err := s.HGet(key, name)
		want, wantErr := m.hget(k, string(name))
		checkAgrees(t, "hget", string(got), err, want, wantErr)
	case "hgetall":
		got, err := s.HGetAll(key)
		want, wantErr := m.hgetall(k)
		checkAgrees(t, "hgetall", slices.EqualFunc(got, want, sameField), err, true, wantErr)
	case "hset":
		fields := lawFieldValues(t)
		got, err := s.HSet(key, fields...)
		want, wantErr := m.hset(k, fields)
		checkAgrees(t, "hset", got, err, want, wantErr)
	case "hdel":
		names := [][]byte{lawField(t), lawField(t)}
		got, err := s.HDel(key, names...)
		want, wantErr := m.hdel(k, names)
		checkAgrees(t, "hdel", got, err, want, wantErr)
	case "scan":
		l.compareScan(t, s, ks, m, lawScan(t, ks))
	default:
		l.stepRest(t, op, key, s, m)
	}
}

// stepRest does what step has no room for.
func (l *law) stepRest(t *rapid.T, op string, key []byte, s operations, m *model) {
	k := string(key)
	switch op {
	case "item":
		got, err := s.Item(key)
		want, wantErr := m.get(k)
		checkAgrees(t, "item", string(got.Value), err, want, wantErr)
		if err != nil {
			return
		}
		if it := m.liveItem(k); !got.Expires.Equal(toExpiryTime(it.expires)) || !bytes.Equal(got.Key, key) {
			t.Fatalf("item %q expires at %v, want %q at %d", got.Key, got.Expires, key, it.expires)
		}
	case "many":
		l.readMany(t, s, m)
	case "exists":
		got, err := s.Exists(key)
		checkAgrees(t, "exists", got, err, m.liveItem(k) != nil, nil)
	case "persist":
		got, err := s.Persist(key)
		checkAgrees(t, "persist", got, err, m.persist(k), nil)
	case "hlen":
		got, err := s.HLen(key)
		want, wantErr := m.hgetall(k)
		checkAgrees(t, "hlen", got, err, len(want), wantErr)
	case "hadd":
		name := lawField(t)
		got, err := s.HAdd(key, name, 3)
		want, wantErr := m.hadd(k, string(name), 3)
		checkAgrees(t, "hadd", got, err, want, wantErr)
	case "hscan":
		l.readHashPages(t, key, s, m)
	case "deleteMany":
		l.deleteMany(t, s, m)
	}
}

// readMany reads several keys, some twice, and some of another type.
func (l *law) readMany(t *rapid.T, s operations, m *model) {
	keys := [][]byte{}
	var want []string
	var wantErr error
	for range rapid.IntRange(0, 5).Draw(t, "keys") {
		key := lawKey(t)
		value, err := m.get(string(key))
		if errors.Is(err, ErrNotFound) {
			value, err = "absent", nil
		}
		if err != nil {
			wantErr = err
		}
		keys, want = append(keys, key), append(want, value)
	}
	got, err := s.GetMany(keys...)
	var text []string
	for _, value := range got {
		if value == nil {
			value = []byte("absent")
		}
		text = append(text, string(value))
	}
	checkAgrees(t, "many", slices.Equal(text, want), err, true, wantErr)
}

// readHashPages reads a hash page by page.
func (l *law) readHashPages(t *rapid.T, key []byte, s operations, m *model) {
	want, wantErr := m.hgetall(string(key))
	limit := rapid.IntRange(0, 3).Draw(t, "limit")
	for after := []byte(nil); ; {
		got, next, err := s.HScan(key, after, limit)
		n := len(want)
		if limit > 0 {
			n = min(n, limit)
		}
		checkAgrees(t, "hscan", slices.EqualFunc(got, want[:n], sameField), err, true, wantErr)
		if err != nil {
			return
		}
		if want = want[n:]; (next != nil) != (len(want) > 0) {
			t.Fatalf("%d fields follow, but the page says %q", len(want), next)
		}
		if after = next; next == nil {
			return
		}
	}
}

func (l *law) deleteMany(t *rapid.T, s operations, m *model) {
	keys := [][]byte{lawKey(t), lawKey(t), lawKey(t)}
	got, err := s.Delete(keys...)
	want := 0
	for _, key := range keys {
		if m.delete(string(key)) {
			want++
		}
	}
	checkAgrees(t, "delete", got, err, want, nil)
}

// runBatch writes a batch to the store and to the model: all of it or nothing,
// and once, however often it is sent.
func (l *law) runBatch(t *rapid.T) {
	var b Batch
	if rapid.IntRange(0, 2).Draw(t, "request") == 0 {
		b.Request = l.db.NewRequestID()
	}
	copies := map[string]*model{}
	for name, m := range l.models {
		copies[name] = m.clone()
	}
	home := l.drawKeyspace(t)
	var want []refusal
	for range rapid.IntRange(1, 6).Draw(t, "writes") {
		ks := home
		if rapid.IntRange(0, 3).Draw(t, "elsewhere") == 0 {
			ks = l.drawKeyspace(t)
		}
		key, n := lawKey(t), b.Len()+1
		at := ks.keyspace.AppendPosition(nil, key)
		err := addWrite(t, &b, ks, key, copies[ks.Name()])
		if b.Err() != nil {
			t.Fatalf("write %d: %v", n, b.Err())
		}
		shard := l.db.node.Map().Find(at).ID
		if err != nil && !slices.ContainsFunc(want, func(r refusal) bool { return r.shard == shard }) {
			want = append(want, refusal{n, err, shard})
		}
	}
	l.writeBatch(t, &b, copies, want)
}

// refusal is the first write of a batch that is refused in a shard. Which shard is
// asked first is open.
type refusal struct {
	write int
	err   error
	shard partition.ShardID
}

func (r refusal) matchesError(err error) bool {
	return errors.Is(err, r.err) && strings.HasPrefix(err.Error(), fmt.Sprintf("write %d, key ", r.write))
}

func (l *law) writeBatch(t *rapid.T, b *Batch, copies map[string]*model, want []refusal) {
	times := 1
	if b.Request != (RequestID{}) {
		times = rapid.IntRange(1, 3).Draw(t, "times")
	}
	for range times {
		err := l.db.Write(ctx, b)
		if len(want) == 0 && err != nil || len(want) > 0 && !slices.ContainsFunc(want, func(r refusal) bool { return r.matchesError(err) }) {
			t.Fatalf("batch of %d: %v; the model says %v", b.Len(), err, want)
		}
	}
	l.did.Add("batches", 1)
	l.did.Add("batches repeated", times-1)
	if len(want) > 0 {
		l.did.Add("batches refused", 1)
		return
	}
	for name, m := range copies {
		l.models[name].items = m.items
	}
}

// addWrite adds a write at random and does the same to the model, whose error
// is that of the whole batch.
func addWrite(t *rapid.T, b *Batch, ks *Keyspace, key []byte, m *model) (err error) {
	k := string(key)
	switch rapid.SampledFrom([]string{"set", "set", "setWith", "delete", "add", "expire", "persist", "hset", "hset", "hdel", "hadd"}).Draw(t, "write") {
	case "set":
		value := lawValue(t)
		b.Set(ks, key, value)
		err = m.set(k, string(value), SetOptions{}, false)
		clear(value) // the batch has its own
	case "setWith":
		value, o := lawValue(t), lawSetOptions(t)
		b.SetWith(ks, key, value, o)
		err = m.set(k, string(value), o, false)
	case "delete":
		b.Delete(ks, key, key)
		m.delete(k)
	case "add":
		delta := rapid.SampledFrom([]int64{1, -7, 1 << 62}).Draw(t, "delta")
		o := AddOptions{IfPresent: rapid.Bool().Draw(t, "if present")}
		b.AddWith(ks, key, delta, o)
		_, err = m.add(k, delta, o)
	case "expire":
		ttl := lawTTL(t) * time.Duration(rapid.SampledFrom([]int{1, 1, -1}).Draw(t, "sign"))
		b.Expire(ks, key, ttl)
		m.expire(k, ttl)
	case "persist":
		b.Persist(ks, key)
		m.persist(k)
	case "hset":
		fields := lawFieldValues(t)
		b.HSet(ks, key, fields...)
		_, err = m.hset(k, fields)
	case "hdel":
		names := [][]byte{lawField(t), lawField(t)}
		b.HDel(ks, key, names...)
		_, err = m.hdel(k, names)
	case "hadd":
		name := lawField(t)
		b.HAdd(ks, key, name, 3)
		_, err = m.hadd(k, string(name), 3)
	}
	return err
}
