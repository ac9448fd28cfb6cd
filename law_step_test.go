package cleave

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// step does one operation on both.
func (l *law) step(t *rapid.T, s operations, ks *Keyspace, m *model) {
	key := lawKey(t)
	k := string(key)
	op := rapid.SampledFrom([]string{"get", "set", "set", "delete", "add", "expire", "hget", "hgetall", "hset", "hset", "hdel", "scan", "item", "many", "exists", "persist", "hlen", "hadd", "hscan", "deleteMany"}).Draw(t, "op")
	switch op {
	case "get":
		got, err := s.Get(key)
		want, wantErr := m.get(k)
		agree(t, "get", string(got), err, want, wantErr)
	case "set":
		value, o := lawValue(t), lawSetOptions(t)
		err := s.SetWith(key, value, o)
		agree(t, "set", 0, err, 0, m.set(k, string(value), o, false))
	case "delete":
		got, err := s.Delete(key)
		want := 0
		if m.delete(k) {
			want = 1
		}
		agree(t, "delete", got, err, want, nil)
	case "add":
		delta := rapid.SampledFrom([]int64{0, 1, -7, 1 << 62}).Draw(t, "delta")
		o := AddOptions{IfPresent: rapid.Bool().Draw(t, "if present")}
		got, err := s.AddWith(key, delta, o)
		want, wantErr := m.add(k, delta, o)
		agree(t, "add", got, err, want, wantErr)
	case "expire":
		ttl := lawTTL(t) * time.Duration(rapid.SampledFrom([]int{1, 1, 1, 0, -1}).Draw(t, "sign"))
		got, err := s.Expire(key, ttl)
		agree(t, "expire", got, err, m.expire(k, ttl), nil)
	case "hget":
		name := lawField(t)
		got, err := s.HGet(key, name)
		want, wantErr := m.hget(k, string(name))
		agree(t, "hget", string(got), err, want, wantErr)
	case "hgetall":
		got, err := s.HGetAll(key)
		want, wantErr := m.hgetall(k)
		agree(t, "hgetall", slices.EqualFunc(got, want, sameField), err, true, wantErr)
	case "hset":
		fields := lawFieldValues(t)
		got, err := s.HSet(key, fields...)
		want, wantErr := m.hset(k, fields)
		agree(t, "hset", got, err, want, wantErr)
	case "hdel":
		names := [][]byte{lawField(t), lawField(t)}
		got, err := s.HDel(key, names...)
		want, wantErr := m.hdel(k, names)
		agree(t, "hdel", got, err, want, wantErr)
	case "scan":
		l.compare(t, s, ks, m, lawScan(t, ks))
	default:
		l.more(t, op, key, s, m)
	}
}

// more does what step has no room for.
func (l *law) more(t *rapid.T, op string, key []byte, s operations, m *model) {
	k := string(key)
	switch op {
	case "item":
		got, err := s.Item(key)
		want, wantErr := m.get(k)
		agree(t, "item", string(got.Value), err, want, wantErr)
		if err != nil {
			return
		}
		if it := m.live(k); !got.Expires.Equal(expiryTime(it.expires)) || !bytes.Equal(got.Key, key) {
			t.Fatalf("item %q expires at %v, want %q at %d", got.Key, got.Expires, key, it.expires)
		}
	case "many":
		l.many(t, s, m)
	case "exists":
		got, err := s.Exists(key)
		agree(t, "exists", got, err, m.live(k) != nil, nil)
	case "persist":
		got, err := s.Persist(key)
		agree(t, "persist", got, err, m.persist(k), nil)
	case "hlen":
		got, err := s.HLen(key)
		want, wantErr := m.hgetall(k)
		agree(t, "hlen", got, err, len(want), wantErr)
	case "hadd":
		name := lawField(t)
		got, err := s.HAdd(key, name, 3)
		want, wantErr := m.hadd(k, string(name), 3)
		agree(t, "hadd", got, err, want, wantErr)
	case "hscan":
		l.hscan(t, key, s, m)
	case "deleteMany":
		l.deleteMany(t, s, m)
	}
}

// many reads several keys, some twice, and some of another type.
func (l *law) many(t *rapid.T, s operations, m *model) {
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
	agree(t, "many", slices.Equal(text, want), err, true, wantErr)
}

// hscan reads a hash page by page.
func (l *law) hscan(t *rapid.T, key []byte, s operations, m *model) {
	want, wantErr := m.hgetall(string(key))
	limit := rapid.IntRange(0, 3).Draw(t, "limit")
	for after := []byte(nil); ; {
		got, next, err := s.HScan(key, after, limit)
		n := len(want)
		if limit > 0 {
			n = min(n, limit)
		}
		agree(t, "hscan", slices.EqualFunc(got, want[:n], sameField), err, true, wantErr)
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
	agree(t, "delete", got, err, want, nil)
}
