package cleave

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/partition"
)

// batch writes a batch to the store and to the model: all of it or nothing,
// and once, however often it is sent.
func (l *law) batch(t *rapid.T) {
	var b Batch
	if rapid.IntRange(0, 2).Draw(t, "request") == 0 {
		b.Request = l.db.NewRequestID()
	}
	copies := map[string]*model{}
	for name, m := range l.models {
		copies[name] = m.clone()
	}
	home := l.space(t)
	var want []refusal
	for range rapid.IntRange(1, 6).Draw(t, "writes") {
		ks := home
		if rapid.IntRange(0, 3).Draw(t, "elsewhere") == 0 {
			ks = l.space(t)
		}
		key, n := lawKey(t), b.Len()+1
		at := place{ks, ks.space.AppendPosition(nil, key)}
		err := addWrite(t, &b, ks, key, copies[ks.Name()])
		if b.Err() != nil {
			t.Fatalf("write %d: %v", n, b.Err())
		}
		shard := l.db.node.Map().Find(at.p).ID
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

func (r refusal) is(err error) bool {
	return errors.Is(err, r.err) && strings.HasPrefix(err.Error(), fmt.Sprintf("write %d, key ", r.write))
}

func (l *law) writeBatch(t *rapid.T, b *Batch, copies map[string]*model, want []refusal) {
	times := 1
	if b.Request != (RequestID{}) {
		times = rapid.IntRange(1, 3).Draw(t, "times")
	}
	for range times {
		err := l.db.Write(ctx, b)
		if len(want) == 0 && err != nil || len(want) > 0 && !slices.ContainsFunc(want, func(r refusal) bool { return r.is(err) }) {
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
