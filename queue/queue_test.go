package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/delivery"
	"github.com/cleavekv/cleave/internal/testkit/caller"
	"github.com/cleavekv/cleave/key"
)

// With producers, consumers that die, a number of shards that changes and shards that
// move: each message is delivered, none again after its ack, and each key in order.
func TestEveryMessageIsDeliveredInTheOrderOfItsKey(t *testing.T) {
	for _, o := range []cleave.Options{{Groups: 4}, {Stores: 2, Groups: 4}} {
		t.Run(fmt.Sprintf("stores=%d", o.Stores), func(t *testing.T) {
			db, ks := openMemory(t, o)
			spreadShards(t, db, ks, "q")
			deliverAll(t, db, ks)
		})
	}
}

func deliverAll(t *testing.T, db *cleave.DB, ks *cleave.Keyspace) {
	q := openQueue(t, db, ks, "q", Options{Shards: 4, Lease: 60 * time.Millisecond, MaxDeliveries: 1000})
	second := openQueue(t, db, ks, "q", q.c.opts) // what each knows is often old
	const producers, each, keys = 3, 40, 5
	live, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			for i := range each {
				m := Message{Body: fmt.Appendf(nil, "%d/%d", p, i)}
				if k := i % (keys + 1); k > 0 {
					m.Key = fmt.Appendf(nil, "key%d/%d", p, k)
				}
				if i%2 == 0 {
					m.ID = db.NewRequestID()
					if err := q.Publish(live, m); err != nil {
						t.Error(err)
					}
				}
				if err := q.Publish(live, m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	w := deliveryChecker{t: t, acked: map[string]int{}, seen: map[string][]seenDelivery{}}
	var acked atomic.Int64
	for c := range 3 {
		all.Go(func() {
			q := []*Queue{q, second}[c%2]
			for n := 0; live.Err() == nil; n++ {
				asked := w.currentTick()
				got, err := q.Receive(live, 1+c*2)
				if err != nil {
					if live.Err() == nil {
						t.Error(err)
					}
					return
				}
				w.checkDelivered(got, asked)
				if n%7 == c {
					continue // it dies: what it has comes back
				}
				err = q.Ack(live, got...)
				if lost := (*LostError)(nil); errors.As(err, &lost) {
					got = slices.DeleteFunc(got, func(d *Delivery) bool { return slices.Contains(lost.Lost, d) })
				} else if err != nil && live.Err() == nil {
					t.Error(err)
				}
				w.recordAcked(got)
				if acked.Add(int64(len(got))) >= producers*each {
					end()
				}
			}
		})
	}
	all.Go(func() {
		for i := 0; live.Err() == nil; i++ {
			if err := errors.Join(q.Resize(live, []int{8, 2, 3}[i%3]), moveShard(db, i)); err != nil && live.Err() == nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if n := acked.Load(); n != producers*each {
		t.Errorf("%d messages are done, want %d", n, producers*each)
	}
	s, err := q.Stats(ctx)
	must(t, err)
	if s.Depth != 0 || s.Dead != 0 {
		t.Errorf("%+v is left", s)
	}
}

// deliveryChecker sees what consumers see. One of them may be late to tell of what it was given,
// when others have the message already or are done with it: so a delivery is held against
// what was known when it was asked for.
type deliveryChecker struct {
	t     *testing.T
	mu    sync.Mutex
	tick  int            // how much was seen
	acked map[string]int // when
	seen  map[string][]seenDelivery
}

// seenDelivery is a delivery of a key.
type seenDelivery struct{ number, at int }

func (w *deliveryChecker) currentTick() (now int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tick
}

func (w *deliveryChecker) checkDelivered(list []*Delivery, asked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick++
	for _, d := range list {
		if at, done := w.acked[string(d.Body)]; done && at <= asked {
			w.t.Errorf("%s is delivered after its ack", d.Body)
		}
		var p, i int
		_, _ = fmt.Sscanf(string(d.Body), "%d/%d", &p, &i)
		if len(d.Key) == 0 {
			continue
		}
		for _, before := range w.seen[string(d.Key)] {
			if before.at <= asked && before.number > i {
				w.t.Errorf("%s of key %s is delivered after %d", d.Body, d.Key, before.number)
			}
		}
		w.seen[string(d.Key)] = append(w.seen[string(d.Key)], seenDelivery{i, w.tick})
	}
}

func (w *deliveryChecker) recordAcked(list []*Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick++
	for _, d := range list {
		if w.acked[string(d.Body)] > 0 {
			w.t.Errorf("%s is acknowledged twice", d.Body)
		}
		w.acked[string(d.Body)] = w.tick
	}
}

func TestALeaseThatIsLostIsFenced(t *testing.T) {
	clock := newClock()
	db, ks := openMemory(t, cleave.Options{Now: clock.Now})
	q := openQueue(t, db, ks, "q", Options{Lease: time.Minute, Now: clock.Now, Poll: time.Hour})
	must(t, q.Publish(ctx, Message{Body: []byte("a")}, Message{Body: []byte("b")}))
	first, err := q.Receive(ctx, 10)
	must(t, err)
	if len(first) != 2 {
		t.Fatalf("%q", deliveryBodies(first))
	}
	clock.advance(2 * time.Minute) // run out, but no other consumer has them
	must(t, q.Extend(ctx, time.Minute, first[0]))
	second, err := q.TryReceive(ctx, 10)
	must(t, err)
	if len(second) != 1 || second[0].Attempt != 2 {
		t.Fatalf("%q", deliveryBodies(second))
	}
	err = q.Ack(ctx, first...)
	lost := (*LostError)(nil)
	if !errors.As(err, &lost) || len(lost.Lost) != 1 || lost.Lost[0] != first[1] {
		t.Fatalf("%v", err)
	}
	// What was made of a message that was lost is not written.
	err = db.Update(ctx, func(tx *cleave.Txn) error {
		if err := tx.Set(ks, []byte("result"), []byte("stale")); err != nil {
			return err
		}
		return q.AckTx(tx, first[1])
	})
	wantError(t, "an ack in a transaction", err, ErrLost)
	if there, err := ks.Exists(ctx, []byte("result")); there || err != nil {
		t.Error("it is written", err)
	}
	must(t, db.Update(ctx, func(tx *cleave.Txn) error { return q.AckTx(tx, second...) }))
	s, err := q.Stats(ctx)
	must(t, err)
	if s.Depth != 0 {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsDeliveredTooOftenIsSetAside(t *testing.T) {
	clock := newClock()
	db, ks := openMemory(t, cleave.Options{Now: clock.Now})
	q := openQueue(t, db, ks, "q", Options{MaxDeliveries: 3, Now: clock.Now, Poll: time.Hour})
	must(t, q.Publish(ctx, Message{Key: []byte("k"), Body: []byte("poison")}))
	must(t, q.Publish(ctx, Message{Key: []byte("k"), Body: []byte("next")}))
	for n := 1; n <= 3; n++ {
		got, err := q.Receive(ctx, 10)
		must(t, err)
		if len(got) != 1 || string(got[0].Body) != "poison" || got[0].Attempt != n {
			t.Fatalf("%q", deliveryBodies(got))
		}
		must(t, q.Nack(ctx, 0, got...))
	}
	got, err := q.TryReceive(ctx, 10)
	must(t, err)
	if len(got) != 1 || string(got[0].Body) != "next" {
		t.Fatalf("%q", deliveryBodies(got))
	}
	must(t, q.Ack(ctx, got...))
	must(t, q.Resize(ctx, 2))
	if got, err := q.TryReceive(ctx, 10); err != nil || len(got) > 0 {
		t.Fatal(deliveryBodies(got), err)
	}
	clock.advance(time.Hour)
	must(t, q.Resize(ctx, 3)) // the epoch that it died in is forgotten
	dead, err := q.Dead(ctx, 10)
	must(t, err)
	if len(dead) != 1 || string(dead[0].Body) != "poison" || string(dead[0].Key) != "k" {
		t.Fatalf("%+v", dead)
	}
	must(t, q.Revive(ctx, dead[0], dead[0]))
	got, err = q.Receive(ctx, 10)
	must(t, err)
	if len(got) != 1 || string(got[0].Body) != "poison" || got[0].Attempt != 1 {
		t.Fatalf("%q", deliveryBodies(got))
	}
	must(t, q.Bury(ctx, dead...))
	if s, err := q.Stats(ctx); err != nil || s.Dead != 0 || s.Depth != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
}

// A receiver that waits is notified of a message, and of one that comes free, though it would
// look by itself in an hour only.
func TestReceiversDoNotPoll(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{Stores: 2})
	q := openQueue(t, db, ks, "q", Options{Poll: time.Hour, Lease: time.Millisecond})
	other := openQueue(t, db, ks, "q", Options{Poll: time.Hour})
	got := make(chan []string)
	receive := func() {
		list, err := q.Receive(ctx, 1)
		if err != nil {
			t.Error(err)
		}
		got <- deliveryBodies(list)
	}
	go receive()
	must(t, other.Publish(ctx, Message{Body: []byte("hello")}))
	if b := <-got; !slices.Equal(b, []string{"hello"}) {
		t.Fatalf("%q", b)
	}
	go receive() // when the lease ends
	if b := <-got; !slices.Equal(b, []string{"hello"}) {
		t.Fatalf("%q", b)
	}
	waiting := make(chan error)
	go func() {
		for {
			list, err := q.Receive(ctx, 1)
			if err != nil {
				waiting <- err
				return
			}
			if err := q.Ack(ctx, list...); err != nil && !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		}
	}()
	must(t, q.Close())
	wantError(t, "a receiver of a queue that is closed", <-waiting, ErrClosed)
	wantError(t, "a queue that is closed twice", q.Close(), ErrClosed)
}

// The messages of new shards wait for those of the shards before, also for one without a key.
func TestWhoWaitsForAShardOfBeforeHearsThatItIsEmpty(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	q := openQueue(t, db, ks, "q", Options{Shards: 1, Poll: time.Hour, Lease: time.Hour})
	must(t, q.Publish(ctx, Message{Body: []byte("old")}))
	old, err := q.Receive(ctx, 1)
	must(t, err)
	must(t, q.Resize(ctx, 2))
	must(t, q.Publish(ctx, Message{Body: []byte("new")}))
	got := make(chan []string)
	go func() {
		list, err := q.Receive(ctx, 1)
		if err != nil {
			t.Error(err)
		}
		got <- deliveryBodies(list)
	}()
	time.Sleep(50 * time.Millisecond) // it waits
	must(t, q.Ack(ctx, old...))
	if b := <-got; !slices.Equal(b, []string{"new"}) {
		t.Errorf("%q", b)
	}
}

func TestMisuseIsRefusedAndSaysWhatIsWrong(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	for _, o := range []Options{{Shards: -1}, {Shards: 257}, {Lease: 1}, {MaxDeliveries: -1}, {Remember: 1}, {Remember: 1 << 62}, {Poll: 1}} {
		_, err := Open(ctx, db, ks, "q", o)
		wantError(t, fmt.Sprintf("%+v", o), err, cleave.ErrOptions)
	}
	for _, name := range []string{"", "a\x00b", strings.Repeat("x", 300)} {
		_, err := Open(ctx, db, ks, name, Options{})
		wantError(t, "a bad name", err, cleave.ErrOptions)
	}
	_, err := Open(ctx, db, db.Default(), "q", Options{})
	wantError(t, "a hash keyspace", err, cleave.ErrOptions)
	q := openQueue(t, db, ks, "q", Options{})
	_, err = OpenLog(ctx, db, ks, "q", Options{})
	wantError(t, "a queue as a log", err, cleave.ErrOptions)
	for _, m := range []Message{{Key: make([]byte, maxKeyBytes+1)}, {Body: make([]byte, maxBodyBytes+1)}, {Delay: -1}} {
		wantError(t, "a bad message", q.Publish(ctx, Message{Body: []byte("good")}, m), ErrMessage)
	}
	wantError(t, "no shards", q.Resize(ctx, 0), cleave.ErrOptions)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	wantError(t, "a caller who has left", q.Publish(gone, Message{}), context.Canceled)
	wantError(t, "a Delivery of nobody", q.Ack(ctx, &Delivery{}), cleave.ErrOptions)
	wantError(t, "a Dead of nobody, revived", q.Revive(ctx, Dead{}), cleave.ErrOptions)
	wantError(t, "a Dead of nobody, buried", q.Bury(ctx, Dead{}), cleave.ErrOptions)
	wantError(t, "a delay that is over", q.Nack(ctx, -1), cleave.ErrOptions)
	other := openQueue(t, db, ks, "other", Options{})
	must(t, other.Publish(ctx, Message{Body: []byte("x")}))
	theirs, err := other.Receive(ctx, 1)
	must(t, err)
	wantError(t, "a delivery of another queue", q.Ack(ctx, theirs...), cleave.ErrOptions)
	wantError(t, "the same in a transaction", db.Update(ctx, func(tx *cleave.Txn) error { return q.AckTx(tx, theirs...) }), cleave.ErrOptions)
	must(t, openQueue(t, db, ks, "other", Options{}).Ack(ctx, theirs...))
	must(t, other.Close())
	if err := other.Publish(ctx, Message{}); !errors.Is(err, ErrClosed) || errors.Is(err, cleave.ErrUnknown) {
		t.Errorf("published to a queue that is closed: %v", err)
	}
	if got, err := q.TryReceive(ctx, 10); err != nil || len(got) > 0 {
		t.Errorf("%q, %v", deliveryBodies(got), err)
	}
	must(t, ks.Set(ctx, manifestKey("bad"), []byte("nonsense")))
	_, err = Open(ctx, db, ks, "bad", Options{})
	wantError(t, "a damaged manifest", err, ErrDamaged)

	// Of each kind of row that can be met.
	p := newBucketKeys("rows", delivery.NewManifest(1).OpenBuckets()[0])
	row := delivery.MessageRef{Key: "k"}
	stats := func(q *Queue) error { _, err := q.Stats(ctx); return err }
	receive := func(q *Queue) error { _, err := q.TryReceive(ctx, 1); return err }
	dead := func(q *Queue) error { _, err := q.Dead(ctx, 10); return err }
	for say, c := range map[string]struct {
		key  []byte
		call func(*Queue) error
	}{
		"a head":             {p.headKey(), receive},
		"a tail":             {p.tailKey(), receive},
		"a lease":            {p.leaseKey(0), receive},
		"a message":          {p.messageKey(row), receive},
		"a lease, counted":   {p.leaseKey(0), stats},
		"a message, counted": {p.messageKey(row), stats},
		"a dead one":         {deadKey("rows", p.Bucket, row), dead},
		"a short key":        {append(deadPrefix("rows"), encodeTuple(key.Tuple{1})...), dead},
	} {
		q := openQueue(t, db, ks, "rows", Options{Shards: 1})
		was, err := ks.Get(ctx, c.key)
		if !errors.Is(err, cleave.ErrNotFound) {
			must(t, err)
		}
		must(t, ks.Set(ctx, c.key, []byte("\xff")))
		err = c.call(q)
		wantError(t, say, err, ErrDamaged)
		if strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: %v", say, err)
		}
		if _, err := ks.Delete(ctx, c.key); err != nil || was != nil {
			must(t, errors.Join(err, ks.Set(ctx, c.key, was)))
		}
		must(t, q.Close())
	}
}

// Behind many messages that are done, the next one is found without going through what
// they have left: the head is stored, and a Queue that is opened later begins there.
func TestTheHeadIsRemembered(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	q := openQueue(t, db, ks, "q", Options{Shards: 1})
	var list []Message
	for i := range 3 * messagesPerHeadSave {
		list = append(list, Message{Body: fmt.Append(nil, i)})
	}
	must(t, q.Publish(ctx, list...))
	for n := 0; n < len(list); {
		got, err := q.Receive(ctx, 500)
		must(t, err)
		must(t, q.Ack(ctx, got...))
		n += len(got)
	}
	other := openQueue(t, db, ks, "q", Options{})
	if got, err := other.TryReceive(ctx, 1); err != nil || len(got) > 0 {
		t.Fatalf("%q, %v", deliveryBodies(got), err)
	}
	for _, h := range other.heads {
		if h.firstSeq < 2*messagesPerHeadSave {
			t.Errorf("it begins at %d", h.firstSeq)
		}
	}
}

// Between the look and the claim others may claim, and be done.
func TestAClaimReadsAgainWhatItHasSeen(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	a, b := openQueue(t, db, ks, "q", Options{Shards: 1}), openQueue(t, db, ks, "q", Options{})
	must(t, a.Publish(ctx, Message{Body: []byte("one")}, Message{Body: []byte("two")}))
	p := newBucketKeys("q", a.c.manifest.Load().BucketFor(0))
	look := func(q *Queue) []delivery.MessageRef {
		pick, _, err := q.selectMessages(ctx, p, q.getHead(p.Bucket), 1)
		must(t, err)
		return pick.Selected
	}
	take := func(q *Queue, rows []delivery.MessageRef, want int) []*Delivery {
		t.Helper()
		got, err := q.leaseInTxn(ctx, p, rows)
		must(t, err)
		if len(got) != want {
			t.Fatalf("%q are handed out, want %d", deliveryBodies(got), want)
		}
		return got
	}
	first, second := look(a), look(b)
	got := take(a, first, 1)
	take(b, second, 0)
	must(t, a.Ack(ctx, got...))
	take(b, second, 0) // though it has no lease any more
	take(b, look(b), 1)
}

// What is done is done, also if the caller does not wait until its own queue has learnt it.
func TestAResizeThatIsDoneIsNoError(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	q := openQueue(t, db, ks, "q", Options{Shards: 1})
	done := func() bool {
		value, err := ks.Get(ctx, manifestKey("q"))
		must(t, err)
		m, err := parseManifest(value)
		must(t, err)
		return m.OpenEpoch().Shards == 4
	}
	if err := q.Resize(caller.WithCancelWhen(ctx, done), 4); err != nil || !done() {
		t.Errorf("done: %v, and the error is %v", done(), err)
	}
	must(t, q.Publish(ctx, Message{Body: []byte("x")})) // it learns it now
	if list, err := q.Receive(ctx, 1); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// Messages of several buckets are acknowledged one bucket after the other. A caller that leaves
// in between gets an error that some may be done, so that what is lost then is no surprise.
func TestWhoeverLeavesAnAckHalfWayIsInDoubt(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	q := openQueue(t, db, ks, "q", Options{Shards: 8})
	var list []*Delivery
	for i := 0; len(list) < 2; i++ {
		must(t, q.Publish(ctx, Message{Key: []byte{byte(i)}, Body: []byte("x")}))
		got, err := q.Receive(ctx, 1)
		must(t, err)
		if len(list) == 0 || got[0].bucket != list[0].bucket {
			list = append(list, got...)
		}
	}
	first := newBucketKeys("q", list[0].bucket).messageKey(list[0].ref)
	done := func() bool {
		found, err := ks.Exists(ctx, first)
		must(t, err)
		return !found
	}
	err := q.Ack(caller.WithCancelWhen(ctx, done), list...)
	wantError(t, "an ack that was left", err, cleave.ErrUnknown)
	wantError(t, "an ack that was left", err, context.Canceled)
	lost := (*LostError)(nil)
	if err := q.Ack(ctx, list...); !errors.As(err, &lost) || len(lost.Lost) != 1 || lost.Lost[0] != list[0] {
		t.Errorf("the second ack: %v", err)
	}
}
