package queue

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
)

// model is the dumb queue: what was published and is not done, in order.
type model struct {
	t       *rapid.T
	clock   *clock
	waiting []*modelMessage
	keys    map[cleave.RequestID]string // that an id was first used with
	serial  int
}

type modelMessage struct {
	key, body string
	notBefore time.Time // no consumer gets it before
	attempts  int
	delivery  *Delivery
}

// findMessage is the message of a delivery that may be handed out now.
func (m *model) findMessage(d *Delivery) *modelMessage {
	for _, x := range m.waiting {
		if x.body == string(d.Body) {
			return x
		}
		if x.key != "" && x.key == string(d.Key) {
			m.t.Fatalf("%q of key %q is delivered before %q", d.Body, d.Key, x.body)
		}
	}
	m.t.Fatalf("%q is delivered, which is done or was never published", d.Body)
	return nil
}

func (m *model) checkReceived(list []*Delivery) {
	for _, d := range list {
		x := m.findMessage(d)
		if m.clock.Now().Before(x.notBefore) {
			m.t.Fatalf("%q is delivered at %v, and is not to be before %v", d.Body, m.clock.Now(), x.notBefore)
		}
		if x.attempts++; x.attempts != d.Attempt || string(d.Key) != x.key {
			m.t.Fatalf("%q of key %q is delivered as attempt %d of key %q, want %d", d.Body, x.key, d.Attempt, d.Key, x.attempts)
		}
		x.notBefore, x.delivery = m.clock.Now().Add(testLease), d
	}
}

func (m *model) remove(x *modelMessage) {
	for i := range m.waiting {
		if m.waiting[i] == x {
			m.waiting = append(m.waiting[:i], m.waiting[i+1:]...)
			return
		}
	}
}

const testLease, testRemember = 10 * time.Second, 3 * time.Second

// Whatever is done in which order, a queue is a list. Two Queues use the same one, so
// that what each knows of its shards is often old.
func TestAQueueIsAList(t *testing.T) {
	clock := newClock()
	db, ks := openMemory(t, cleave.Options{Groups: 2, Stores: 2, Now: clock.Now})
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		name := fmt.Sprint("q", runs)
		var both []*Queue
		for range 2 {
			q, err := Open(ctx, db, ks, name, Options{Shards: 2, Lease: testLease, Remember: testRemember, Now: clock.Now, Poll: time.Hour, MaxDeliveries: 1000})
			must(t, err)
			defer q.Close()
			both = append(both, q)
		}
		m := &model{t: t, clock: clock, keys: map[cleave.RequestID]string{}}
		var ids []cleave.RequestID
		var old []*Delivery // that were lost, or are done
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			q := rapid.SampledFrom(both).Draw(t, "who")
			var out *modelMessage
			for _, x := range m.waiting {
				if x.delivery != nil && (out == nil || rapid.Bool().Draw(t, "another")) {
					out = x
				}
			}
			switch op := rapid.SampledFrom([]string{"publish", "publish", "publish", "again", "receive", "receive", "receive", "ack", "ack", "nack", "extend", "late", "pass", "resize"}).Draw(t, "op"); {
			case op == "publish" || op == "again" && len(ids) == 0:
				m.serial++
				x := &modelMessage{key: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key"), body: fmt.Sprint(m.serial)}
				msg := Message{Key: []byte(x.key), Body: []byte(x.body)}
				if rapid.Bool().Draw(t, "delayed") {
					msg.Delay = time.Duration(rapid.IntRange(1, 20).Draw(t, "delay")) * time.Second
					x.notBefore = clock.Now().Add(msg.Delay)
				}
				if rapid.Bool().Draw(t, "with an id") {
					msg.ID = db.NewRequestID()
					ids = append(ids, msg.ID)
					m.keys[msg.ID] = x.key
				}
				must(t, q.Publish(ctx, msg))
				m.waiting = append(m.waiting, x)
			case op == "again":
				id := rapid.SampledFrom(ids).Draw(t, "id")
				err := q.Publish(ctx, Message{Key: []byte(m.keys[id]), Body: []byte("again"), ID: id})
				if clock.Now().Sub(id.Time()) > testRemember {
					wantError(t, "an old id", err, cleave.ErrRequestOld)
				} else {
					must(t, err)
				}
			case op == "receive":
				got, err := q.TryReceive(ctx, rapid.IntRange(1, 4).Draw(t, "max"))
				must(t, err)
				m.checkReceived(got)
			case op == "pass":
				clock.advance(time.Duration(rapid.IntRange(1, 15).Draw(t, "seconds")) * time.Second)
			case op == "resize":
				must(t, q.Resize(ctx, rapid.IntRange(1, 6).Draw(t, "shards")))
			case op == "late" && len(old) > 0:
				d := rapid.SampledFrom(old).Draw(t, "which")
				wantError(t, "a late ack", q.Ack(ctx, d), ErrLost)
				wantError(t, "a late nack", q.Nack(ctx, 0, d), ErrLost)
				wantError(t, "a late extension", q.Extend(ctx, time.Second, d), ErrLost)
			case out == nil:
			case op == "ack":
				must(t, q.Ack(ctx, out.delivery))
				m.remove(out)
				old = append(old, out.delivery)
			case op == "nack":
				delay := time.Duration(rapid.IntRange(0, 20).Draw(t, "delay")) * time.Second
				must(t, q.Nack(ctx, delay, out.delivery))
				old = append(old, out.delivery)
				out.notBefore, out.delivery = clock.Now().Add(delay), nil
			case op == "extend":
				must(t, q.Extend(ctx, 2*testLease, out.delivery))
				out.notBefore = clock.Now().Add(2 * testLease)
			}
		}
		// All that is left comes, in order, when its time has come.
		clock.advance(time.Minute)
		for len(m.waiting) > 0 {
			got, err := both[0].TryReceive(ctx, 3)
			must(t, err)
			if len(got) == 0 {
				t.Fatalf("%d are left, and none comes", len(m.waiting))
			}
			m.checkReceived(got)
			for _, d := range got {
				m.remove(m.findMessage(d))
			}
			must(t, both[1].Ack(ctx, got...))
		}
		got, err := both[1].TryReceive(ctx, 3)
		must(t, err)
		if len(got) > 0 {
			t.Fatalf("%q come again", deliveryBodies(got))
		}
	})
}
