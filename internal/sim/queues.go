package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/lanes"
	"github.com/cleavekv/cleave/internal/txn"
)

// A queue is played by the rules of package queue, with what it decides by (package lanes):
// buckets in several shards, messages that are put behind a tail, claims that look first and
// read again in a transaction, acknowledgements that are fenced, and epochs. Each client
// publishes messages of its own key, one after the other, and consumes those of all.

const queueManifest = "c/queue"

// queueMessage is one that a client has published, or tried to.
type queueMessage struct {
	body  string
	key   string
	place int // among those of its key
	// published and acked are when that was certain; 0 if it is not. dropped means
	// that an ack was begun, which may have happened.
	published, acked int64
	dropped          bool
}

// queueHistory is what is known about all messages.
type queueHistory struct {
	messages map[string]*queueMessage
	byKey    map[string][]*queueMessage
}

// queueDelivery is a message that a client has.
type queueDelivery struct {
	bucket lanes.Bucket
	row    lanes.Row
	body   string
	token  uint64
}

func bucketPrefix(b lanes.Bucket) string {
	return fmt.Sprintf("%s/q%d.%d", letters[b.First()*len(letters)/lanes.Points], b.Epoch, b.Index)
}

func tailKey(b lanes.Bucket) string { return bucketPrefix(b) + "/t" }

func messageKey(b lanes.Bucket, r lanes.Row) string {
	return fmt.Sprintf("%s/m%08d%s", bucketPrefix(b), r.Seq, r.Key)
}

func leaseKey(b lanes.Bucket, seq uint64) string {
	return fmt.Sprintf("%s/l%08d", bucketPrefix(b), seq)
}

func requestKey(b lanes.Bucket, body string) string { return bucketPrefix(b) + "/i" + body }

// queueClaims are all that a queue may touch.
func queueClaims() (claims []txn.Claim) {
	for _, l := range letters {
		claims = append(claims, txn.Claim{Span: space.PrefixSpan([]byte(l + "/q")), Write: true})
	}
	return claims
}

// queues does something to the queue.
func (c *client) queues() {
	switch n := c.w.rng.IntN(20); {
	case len(c.has) > 0 && n < 9:
		c.ackOne()
	case n < 8:
		c.publishNext()
	case n < 18:
		c.claimSome()
	default:
		c.resizeQueue()
	}
}

// readQueue reads the manifest, which there is from the start.
func (x *tx) readQueue(then func(lanes.Manifest)) {
	x.readAll([]string{queueManifest}, func() {
		m := lanes.NewManifest(2)
		if value := x.values[queueManifest]; len(value) > 0 {
			var err error
			m, err = lanes.ParseManifest(value)
			x.o.c.w.must(err, "a manifest")
		}
		x.o.c.queue = &m
		then(m)
	})
}

// tailOf reads what readAll has read. One that is absent is closed, but in the first epoch,
// whose buckets nobody has made.
func (x *tx) tailOf(b lanes.Bucket) lanes.Tail {
	value := x.values[tailKey(b)]
	if len(value) == 0 {
		return lanes.Tail{Closed: b.Epoch != 1}
	}
	t, err := lanes.ParseTail(value)
	x.o.c.w.must(err, "a tail")
	return t
}

func (x *tx) leaseOf(b lanes.Bucket, seq uint64) lanes.Lease {
	value := x.values[leaseKey(b, seq)]
	if len(value) == 0 {
		return lanes.Lease{}
	}
	l, err := lanes.ParseLease(value)
	x.o.c.w.must(err, "a lease")
	return l
}

func (x *tx) set(k string, value []byte) {
	x.writes = append(x.writes, write{k, func() command.Command { return &command.Set{Key: at(k), Value: value} }})
}

func (x *tx) remove(keys ...string) {
	for _, k := range keys {
		x.writes = append(x.writes, write{k, func() command.Command { return &command.Delete{Keys: positions(k)} }})
	}
}

// publishNext publishes the next message of the client's key, or tries again to publish
// one of which it does not know whether it is there.
func (c *client) publishNext() {
	w := c.w
	k := fmt.Sprintf("k%d", c.number)
	list := w.history.queue.byKey[k]
	if len(list) == 0 || list[len(list)-1].published != 0 {
		w.serial++
		m := &queueMessage{body: fmt.Sprintf("m%d", w.serial), key: k, place: len(list)}
		list = append(list, m)
		w.history.queue.byKey[k], w.history.queue.messages[m.body] = list, m
	}
	m := list[len(list)-1]
	c.transact(append(queueClaims(), claimsOf(false, queueManifest)...), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
				if c.queue == nil {
					x.readQueue(func(lanes.Manifest) { x.publish(m) })
					return
				}
				x.publish(m)
			}, func(at check.Call) {
				if at.Status == check.OK && m.published == 0 {
					m.published = at.Return
					w.count("messages published")
				}
			}
	})
}

// publish puts a message behind the tail of its bucket, as far as the client knows which
// that is: a closed one makes it look again.
func (x *tx) publish(m *queueMessage) {
	c := x.o.c
	p := lanes.Point([]byte(m.key))
	b := c.queue.For(p)
	keys := []string{tailKey(b), requestKey(b, m.body)}
	for _, old := range c.queue.Before(p) {
		keys = append(keys, requestKey(old, m.body))
	}
	x.readAll(keys, func() {
		t := x.tailOf(b)
		if t.Closed {
			c.queue = nil
			x.o.finish(check.Failed)
			return
		}
		for _, k := range keys[1:] {
			if len(x.values[k]) > 0 {
				x.commit() // it is there: that it was read is to be certain too
				return
			}
		}
		x.set(requestKey(b, m.body), []byte("here"))
		x.set(messageKey(b, lanes.Row{Seq: t.Next, Key: m.key}), []byte(m.body))
		t.Next++
		x.set(tailKey(b), t.Append(nil))
		c.w.later(x.commit)
	})
}

// claimSome looks at a bucket that is ready, and claims what may be handed out.
func (c *client) claimSome() {
	w := c.w
	c.transact(append(queueClaims(), claimsOf(true, queueManifest)...), 0, func(x *tx) (func(), func(check.Call)) {
		var got []queueDelivery
		return func() {
				x.readQueue(func(m lanes.Manifest) {
					b := pick(w, m.Ready())
					x.look(m, b, func(rows []lanes.Row) { x.claim(b, rows, &got) })
				})
			}, func(at check.Call) {
				if at.Status == check.OK {
					for _, d := range got {
						w.delivered(d, at.Invoke)
					}
					c.has = append(c.has, got...)
				}
			}
	})
}

// look chooses messages without a transaction: what it reads is not part of the commit.
// A bucket that is closed and empty is taken out of the manifest.
func (x *tx) look(m lanes.Manifest, b lanes.Bucket, then func([]lanes.Row)) {
	w := x.o.c.w
	x.readAll([]string{tailKey(b)}, func() {
		t := x.tailOf(b)
		var keys []string
		x.scan(space.PrefixSpan([]byte(bucketPrefix(b)+"/m")), &keys, func() {
			if len(keys) == 0 && t.Closed {
				if b.Epoch != 1 { // there it would be open again
					x.remove(tailKey(b))
				}
				x.set(queueManifest, m.Drained(b).Encode())
				w.count("buckets drained")
				x.commit()
				return
			}
			var rows []lanes.Row
			var leases []string
			for _, k := range keys {
				r := lanes.Row{}
				_, err := fmt.Sscanf(k[strings.LastIndex(k, "/"):], "/m%08d%s", &r.Seq, &r.Key)
				w.must(err, "the key of a message")
				rows, leases = append(rows, r), append(leases, leaseKey(b, r.Seq))
			}
			x.readAll(leases, func() {
				pick := lanes.Chooser{NowMS: w.wallMS(), Most: 2}
				for _, r := range rows {
					if !pick.Show(r, x.leaseOf(b, r.Seq)) {
						break
					}
				}
				x.reads, x.ranges = nil, nil
				w.later(func() { then(pick.Picked) })
			})
		})
	})
}

// claim reads the rows again and takes those that are still free.
func (x *tx) claim(b lanes.Bucket, rows []lanes.Row, got *[]queueDelivery) {
	w := x.o.c.w
	var keys []string
	for _, r := range rows {
		keys = append(keys, messageKey(b, r), leaseKey(b, r.Seq))
	}
	x.readAll(keys, func() {
		now := w.wallMS()
		for _, r := range rows {
			l, body := x.leaseOf(b, r.Seq), x.values[messageKey(b, r)]
			if len(body) == 0 || l.Held(now) {
				continue
			}
			w.serial++
			next, dead := l.Claim(now, 10+w.rng.Int64N(150), w.serial, 1<<40)
			if dead {
				w.failf("%s is dead after %d deliveries", body, l.Deliveries)
			}
			x.set(leaseKey(b, r.Seq), next.Append(nil))
			*got = append(*got, queueDelivery{b, r, string(body), next.Token})
		}
		if len(*got) == 0 {
			x.o.finish(check.OK)
			return
		}
		x.commit()
	})
}

// delivered compares a delivery, by a call that began then, with all that is known.
func (w *world) delivered(d queueDelivery, invoke int64) {
	m := w.history.queue.messages[d.body]
	if m == nil {
		w.failf("%s is delivered, and was never published", d.body)
	}
	if m.acked != 0 && m.acked < invoke {
		w.failf("%s is delivered after it was acknowledged", m.body)
	}
	for _, before := range w.history.queue.byKey[m.key][:m.place] {
		if !before.dropped {
			w.failf("%s of key %s is delivered before %s is done", m.body, m.key, before.body)
		}
	}
	w.count("messages delivered")
}

// ackOne says that a message is done, or forgets it, as one who dies.
func (c *client) ackOne() {
	w := c.w
	d := c.has[0]
	c.has = c.has[1:]
	if w.chance(200) {
		c.begin()
		return
	}
	m := w.history.queue.messages[d.body]
	c.transact(queueClaims(), 0, func(x *tx) (func(), func(check.Call)) {
		lost := false
		return func() {
				lease := leaseKey(d.bucket, d.row.Seq)
				x.readAll([]string{lease}, func() {
					if lost = !x.leaseOf(d.bucket, d.row.Seq).Mine(d.token); lost {
						w.count("acknowledgements that came too late")
						x.o.finish(check.OK)
						return
					}
					m.dropped = true // from here on it may happen
					x.remove(messageKey(d.bucket, d.row), lease)
					w.later(x.commit)
				})
			}, func(at check.Call) {
				if at.Status == check.OK && !lost {
					m.acked = at.Return
					w.count("messages acknowledged")
				}
			}
	})
}

// resizeQueue begins an epoch with another number of shards.
func (c *client) resizeQueue() {
	w := c.w
	shards := 1 + w.rng.IntN(4)
	c.transact(append(queueClaims(), claimsOf(true, queueManifest)...), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
				x.readQueue(func(m lanes.Manifest) {
					if len(m.Epochs) > 3 {
						x.o.finish(check.OK) // let some be drained first
						return
					}
					var tails []string
					for _, b := range m.Buckets() {
						tails = append(tails, tailKey(b))
					}
					x.readAll(tails, func() {
						for _, b := range m.Buckets() {
							t := x.tailOf(b)
							t.Closed = true
							x.set(tailKey(b), t.Append(nil))
						}
						next := m.Resized(shards, 1)
						for _, b := range next.Buckets() {
							x.set(tailKey(b), lanes.Tail{}.Append(nil))
						}
						x.set(queueManifest, next.Encode())
						w.later(x.commit)
					})
				})
			}, func(at check.Call) {
				if at.Status == check.OK {
					w.count("resizes of a queue")
				}
			}
	})
}

// judgeQueue checks at rest that what was published is there until it is acknowledged, in
// a bucket that is read, once, and is gone then.
func (w *world) judgeQueue(list func(prefix string) map[string]string, manifest []byte) {
	m := lanes.NewManifest(2)
	if len(manifest) > 0 {
		var err error
		m, err = lanes.ParseManifest(manifest)
		w.must(err, "a manifest")
	}
	there := map[string]int{}
	for _, b := range m.Left() {
		for _, body := range list(bucketPrefix(b) + "/m") {
			there[body]++
		}
	}
	for _, body := range slices.Sorted(maps.Keys(w.history.queue.messages)) {
		x := w.history.queue.messages[body]
		switch n := there[body]; {
		case n > 1:
			w.failf("%s is there %d times", body, n)
		case n == 1 && x.acked != 0:
			w.failf("%s is acknowledged, and still there", body)
		case n == 0 && x.published != 0 && !x.dropped:
			w.failf("%s was published, and is gone", body)
		}
	}
}
