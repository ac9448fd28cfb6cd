package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/patterns/delivery"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/testkit/check"
)

// A queue is played by the rules of package queue, with what it decides by (package lanes):
// buckets in several shards, messages that are put behind a tail, claims that look first and
// read again in a transaction, acknowledgements that are fenced, and epochs. Each client
// publishes messages of its own key, one after the other, and consumes those of all.

const queueManifestKey = "c/queue"

// queueMessage is one that a client has published, or tried to.
type queueMessage struct {
	body  string
	key   string
	index int // among those of its key
	// publishedAt and acked are when that was certain; 0 if it is not. dropped means
	// that an ack was begun, which may have happened.
	publishedAt, ackedAt int64
	hasBegunAck          bool
}

// queueHistory is what is known about all messages.
type queueHistory struct {
	messages map[string]*queueMessage
	byKey    map[string][]*queueMessage
}

// queueDelivery is a message that a client has.
type queueDelivery struct {
	bucket delivery.Bucket
	row    delivery.MessageRef
	body   string
	token  uint64
}

func bucketPrefix(b delivery.Bucket) string {
	return fmt.Sprintf("%s/q%d.%d", letters[b.FirstPoint()*len(letters)/delivery.Points], b.Epoch, b.Index)
}

func tailKey(b delivery.Bucket) string { return bucketPrefix(b) + "/t" }

func messageKey(b delivery.Bucket, r delivery.MessageRef) string {
	return fmt.Sprintf("%s/m%08d%s", bucketPrefix(b), r.Seq, r.Key)
}

func leaseKey(b delivery.Bucket, seq uint64) string {
	return fmt.Sprintf("%s/l%08d", bucketPrefix(b), seq)
}

func requestKey(b delivery.Bucket, body string) string { return bucketPrefix(b) + "/i" + body }

// queueSpans are all that a queue may touch.
func queueSpans() (claims []txn.ReservedSpan) {
	for _, l := range letters {
		claims = append(claims, txn.ReservedSpan{Span: dataKeyspace.PrefixSpan([]byte(l + "/q")), Write: true})
	}
	return claims
}

// runQueueOp does something to the queue.
func (c *client) runQueueOp() {
	switch n := c.w.rng.IntN(20); {
	case len(c.deliveries) > 0 && n < 9:
		c.ackMessage()
	case n < 8:
		c.publishNextMessage()
	case n < 18:
		c.claimMessages()
	default:
		c.resizeQueue()
	}
}

// readQueue reads the manifest, which there is from the start.
func (x *tx) readQueue(then func(delivery.Manifest)) {
	x.readKeys([]string{queueManifestKey}, func() {
		m := delivery.NewManifest(2)
		if value := x.values[queueManifestKey]; len(value) > 0 {
			var err error
			m, err = delivery.ParseManifest(value)
			x.o.c.w.must(err, "a manifest")
		}
		x.o.c.knownQueue = &m
		then(m)
	})
}

// parseTail reads what readAll has read. One that is absent is closed, but in the first epoch,
// whose buckets were never made.
func (x *tx) parseTail(b delivery.Bucket) delivery.Tail {
	value := x.values[tailKey(b)]
	if len(value) == 0 {
		return delivery.Tail{Closed: b.Epoch != 1}
	}
	t, err := delivery.ParseTail(value)
	x.o.c.w.must(err, "a tail")
	return t
}

func (x *tx) parseLease(b delivery.Bucket, seq uint64) delivery.Lease {
	value := x.values[leaseKey(b, seq)]
	if len(value) == 0 {
		return delivery.Lease{}
	}
	l, err := delivery.ParseLease(value)
	x.o.c.w.must(err, "a lease")
	return l
}

func (x *tx) setKey(k string, value []byte) {
	x.writes = append(x.writes, keyWrite{k, func() command.Command { return &command.Set{Key: positionOf(k), Value: value} }})
}

func (x *tx) deleteKeys(keys ...string) {
	for _, k := range keys {
		x.writes = append(x.writes, keyWrite{k, func() command.Command { return &command.Delete{Keys: positionsOf(k)} }})
	}
}

// publishNextMessage publishes the next message of the client's key, or tries again to publish
// one of which it does not know whether it is there.
func (c *client) publishNextMessage() {
	w := c.w
	k := fmt.Sprintf("k%d", c.id)
	list := w.history.queue.byKey[k]
	if len(list) == 0 || list[len(list)-1].publishedAt != 0 {
		w.serial++
		m := &queueMessage{body: fmt.Sprintf("m%d", w.serial), key: k, index: len(list)}
		list = append(list, m)
		w.history.queue.byKey[k], w.history.queue.messages[m.body] = list, m
	}
	m := list[len(list)-1]
	c.runTxn(append(queueSpans(), spansToReserve(false, queueManifestKey)...), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
				if c.knownQueue == nil {
					x.readQueue(func(delivery.Manifest) { x.publishMessage(m) })
					return
				}
				x.publishMessage(m)
			}, func(at check.Call) {
				if at.Status == check.OK && m.publishedAt == 0 {
					m.publishedAt = at.Return
					w.addCount("messages published")
				}
			}
	})
}

// publishMessage puts a message behind the tail of its bucket, as far as the client knows which
// that is: a closed one makes it look again.
func (x *tx) publishMessage(m *queueMessage) {
	c := x.o.c
	p := delivery.PointOf([]byte(m.key))
	b := c.knownQueue.BucketFor(p)
	keys := []string{tailKey(b), requestKey(b, m.body)}
	for _, old := range c.knownQueue.OlderBuckets(p) {
		keys = append(keys, requestKey(old, m.body))
	}
	x.readKeys(keys, func() {
		t := x.parseTail(b)
		if t.Closed {
			c.knownQueue = nil
			x.o.finish(check.Failed)
			return
		}
		for _, k := range keys[1:] {
			if len(x.values[k]) > 0 {
				x.commit() // it is there: that it was read is to be certain too
				return
			}
		}
		x.setKey(requestKey(b, m.body), []byte("here"))
		x.setKey(messageKey(b, delivery.MessageRef{Seq: t.NextSeq, Key: m.key}), []byte(m.body))
		t.NextSeq++
		x.setKey(tailKey(b), t.Append(nil))
		c.w.runAfterThinkTime(x.commit)
	})
}

// claimMessages looks at a bucket that is ready, and claims what may be handed out.
func (c *client) claimMessages() {
	w := c.w
	c.runTxn(append(queueSpans(), spansToReserve(true, queueManifestKey)...), 0, func(x *tx) (func(), func(check.Call)) {
		var got []queueDelivery
		return func() {
				x.readQueue(func(m delivery.Manifest) {
					b := pickOne(w, m.ReadyBuckets())
					x.chooseMessages(m, b, func(rows []delivery.MessageRef) { x.claimRows(b, rows, &got) })
				})
			}, func(at check.Call) {
				if at.Status == check.OK {
					for _, d := range got {
						w.checkDelivery(d, at.Invoke)
					}
					c.deliveries = append(c.deliveries, got...)
				}
			}
	})
}

// chooseMessages chooses messages without a transaction: what it reads is not part of the commit.
// A bucket that is closed and empty is taken out of the manifest.
func (x *tx) chooseMessages(m delivery.Manifest, b delivery.Bucket, then func([]delivery.MessageRef)) {
	w := x.o.c.w
	x.readKeys([]string{tailKey(b)}, func() {
		t := x.parseTail(b)
		var keys []string
		x.scanSpan(dataKeyspace.PrefixSpan([]byte(bucketPrefix(b)+"/m")), &keys, func() {
			if len(keys) == 0 && t.Closed {
				if b.Epoch != 1 { // there it would be open again
					x.deleteKeys(tailKey(b))
				}
				x.setKey(queueManifestKey, m.WithoutBucket(b).Encode())
				w.addCount("buckets drained")
				x.commit()
				return
			}
			var rows []delivery.MessageRef
			var leases []string
			for _, k := range keys {
				r := delivery.MessageRef{}
				_, err := fmt.Sscanf(k[strings.LastIndex(k, "/"):], "/m%08d%s", &r.Seq, &r.Key)
				w.must(err, "the key of a message")
				rows, leases = append(rows, r), append(leases, leaseKey(b, r.Seq))
			}
			x.readKeys(leases, func() {
				pick := delivery.Selector{NowMS: w.wallMS(), Limit: 2}
				for _, r := range rows {
					if !pick.Offer(r, x.parseLease(b, r.Seq)) {
						break
					}
				}
				x.reads, x.ranges = nil, nil
				w.runAfterThinkTime(func() { then(pick.Selected) })
			})
		})
	})
}

// claimRows reads the rows again and takes those that are still free.
func (x *tx) claimRows(b delivery.Bucket, rows []delivery.MessageRef, got *[]queueDelivery) {
	w := x.o.c.w
	var keys []string
	for _, r := range rows {
		keys = append(keys, messageKey(b, r), leaseKey(b, r.Seq))
	}
	x.readKeys(keys, func() {
		now := w.wallMS()
		for _, r := range rows {
			l, body := x.parseLease(b, r.Seq), x.values[messageKey(b, r)]
			if len(body) == 0 || l.IsHidden(now) {
				continue
			}
			w.serial++
			next, dead := l.Deliver(now, 10+w.rng.Int64N(150), w.serial, 1<<40)
			if dead {
				w.failf("%s is dead after %d deliveries", body, l.Deliveries)
			}
			x.setKey(leaseKey(b, r.Seq), next.Append(nil))
			*got = append(*got, queueDelivery{b, r, string(body), next.Token})
		}
		if len(*got) == 0 {
			x.o.finish(check.OK)
			return
		}
		x.commit()
	})
}

// checkDelivery compares a delivery, by a call that began then, with all that is known.
func (w *world) checkDelivery(d queueDelivery, invoke int64) {
	m := w.history.queue.messages[d.body]
	if m == nil {
		w.failf("%s is delivered, and was never published", d.body)
	}
	if m.ackedAt != 0 && m.ackedAt < invoke {
		w.failf("%s is delivered after it was acknowledged", m.body)
	}
	for _, before := range w.history.queue.byKey[m.key][:m.index] {
		if !before.hasBegunAck {
			w.failf("%s of key %s is delivered before %s is done", m.body, m.key, before.body)
		}
	}
	w.addCount("messages delivered")
}

// ackMessage acknowledges a message, or forgets it, as a client that dies.
func (c *client) ackMessage() {
	w := c.w
	d := c.deliveries[0]
	c.deliveries = c.deliveries[1:]
	if w.drawChance(200) {
		c.beginNext()
		return
	}
	m := w.history.queue.messages[d.body]
	c.runTxn(queueSpans(), 0, func(x *tx) (func(), func(check.Call)) {
		lost := false
		return func() {
				lease := leaseKey(d.bucket, d.row.Seq)
				x.readKeys([]string{lease}, func() {
					if lost = !x.parseLease(d.bucket, d.row.Seq).IsOwnedBy(d.token); lost {
						w.addCount("acknowledgements that came too late")
						x.o.finish(check.OK)
						return
					}
					m.hasBegunAck = true // from here on it may happen
					x.deleteKeys(messageKey(d.bucket, d.row), lease)
					w.runAfterThinkTime(x.commit)
				})
			}, func(at check.Call) {
				if at.Status == check.OK && !lost {
					m.ackedAt = at.Return
					w.addCount("messages acknowledged")
				}
			}
	})
}

// resizeQueue begins an epoch with another number of shards.
func (c *client) resizeQueue() {
	w := c.w
	shards := 1 + w.rng.IntN(4)
	c.runTxn(append(queueSpans(), spansToReserve(true, queueManifestKey)...), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
				x.readQueue(func(m delivery.Manifest) {
					if len(m.Epochs) > 3 {
						x.o.finish(check.OK) // let some be drained first
						return
					}
					var tails []string
					for _, b := range m.OpenBuckets() {
						tails = append(tails, tailKey(b))
					}
					x.readKeys(tails, func() {
						for _, b := range m.OpenBuckets() {
							t := x.parseTail(b)
							t.Closed = true
							x.setKey(tailKey(b), t.Append(nil))
						}
						next := m.WithShards(shards, 1)
						for _, b := range next.OpenBuckets() {
							x.setKey(tailKey(b), delivery.Tail{}.Append(nil))
						}
						x.setKey(queueManifestKey, next.Encode())
						w.runAfterThinkTime(x.commit)
					})
				})
			}, func(at check.Call) {
				if at.Status == check.OK {
					w.addCount("resizes of a queue")
				}
			}
	})
}

// checkQueue checks at rest that what was published is there until it is acknowledged, in
// a bucket that is read, once, and is gone then.
func (w *world) checkQueue(list func(prefix string) map[string]string, manifest []byte) {
	m := delivery.NewManifest(2)
	if len(manifest) > 0 {
		var err error
		m, err = delivery.ParseManifest(manifest)
		w.must(err, "a manifest")
	}
	there := map[string]int{}
	for _, b := range m.RemainingBuckets() {
		for _, body := range list(bucketPrefix(b) + "/m") {
			there[body]++
		}
	}
	for _, body := range slices.Sorted(maps.Keys(w.history.queue.messages)) {
		x := w.history.queue.messages[body]
		switch n := there[body]; {
		case n > 1:
			w.failf("%s is there %d times", body, n)
		case n == 1 && x.ackedAt != 0:
			w.failf("%s is acknowledged, and still there", body)
		case n == 0 && x.publishedAt != 0 && !x.hasBegunAck:
			w.failf("%s was published, and is gone", body)
		}
	}
}
