package cleave

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// model is what a keyspace should hold: the simplest thing that can be said
// about it.
type model struct {
	items map[string]*modelItem
	now   func() int64
}

type modelItem struct {
	hash    bool
	value   string
	fields  map[string]string
	expires int64 // 0 for never
}

func (m *model) clone() *model {
	c := &model{items: map[string]*modelItem{}, now: m.now}
	for k, it := range m.items {
		same := *it
		same.fields = maps.Clone(it.fields)
		c.items[k] = &same
	}
	return c
}

// liveItem returns the item of a key, nil if there is none. What has expired is
// gone for good.
func (m *model) liveItem(key string) *modelItem {
	it := m.items[key]
	if it != nil && it.expires != 0 && m.now() >= it.expires {
		delete(m.items, key)
		return nil
	}
	return it
}

func (m *model) stringItem(key string) (*modelItem, error) {
	it := m.liveItem(key)
	if it != nil && it.hash {
		return nil, ErrWrongType
	}
	return it, nil
}

func (m *model) hashItem(key string) (*modelItem, error) {
	it := m.liveItem(key)
	if it != nil && !it.hash {
		return nil, ErrWrongType
	}
	return it, nil
}

func (m *model) get(key string) (string, error) {
	it, err := m.stringItem(key)
	if err == nil && it == nil {
		err = ErrNotFound
	}
	if err != nil {
		return "", err
	}
	return it.value, nil
}

// set stores under conditions. sameVersion reports whether SetOptions.Version is
// that of the key.
func (m *model) set(key, value string, o SetOptions, sameVersion bool) error {
	old := m.liveItem(key)
	switch {
	case o.IfAbsent && old != nil, o.IfPresent && old == nil:
		return ErrNotStored
	case o.IfVersion && !sameVersion:
		return ErrConflict
	}
	it := &modelItem{value: value}
	if o.TTL > 0 {
		it.expires = m.now() + ceilMS(o.TTL)
	}
	if o.KeepTTL && old != nil {
		it.expires = old.expires
	}
	m.items[key] = it
	return nil
}

func (m *model) delete(key string) bool {
	there := m.liveItem(key) != nil
	delete(m.items, key)
	return there
}

func addTo(text string, present bool, delta int64) (int64, error) {
	n := int64(0)
	if present {
		var err error
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || strconv.FormatInt(n, 10) != text {
			return 0, ErrNotInteger
		}
	}
	if delta > 0 && n > math.MaxInt64-delta || delta < 0 && n < math.MinInt64-delta {
		return 0, ErrOverflow
	}
	return n + delta, nil
}

func (m *model) add(key string, delta int64, o AddOptions) (int64, error) {
	it, err := m.stringItem(key)
	if err != nil {
		return 0, err
	}
	if it == nil {
		if o.IfPresent {
			return 0, ErrNotStored
		}
		it = &modelItem{}
	}
	sum, err := addTo(it.value, m.items[key] != nil, delta)
	if err != nil {
		return 0, err
	}
	it.value = strconv.FormatInt(sum, 10)
	m.items[key] = it
	return sum, nil
}

func (m *model) expire(key string, after time.Duration) bool {
	it := m.liveItem(key)
	if it == nil {
		return false
	}
	if after <= 0 {
		delete(m.items, key)
	} else {
		it.expires = m.now() + ceilMS(after)
	}
	return true
}

func (m *model) persist(key string) bool {
	it := m.liveItem(key)
	if it == nil || it.expires == 0 {
		return false
	}
	it.expires = 0
	return true
}

func (m *model) hset(key string, fields []Field) (int, error) {
	it, err := m.hashItem(key)
	if err != nil {
		return 0, err
	}
	if it == nil {
		it = &modelItem{hash: true, fields: map[string]string{}}
		m.items[key] = it
	}
	before := len(it.fields)
	for _, f := range fields {
		it.fields[string(f.Name)] = string(f.Value)
	}
	return len(it.fields) - before, nil
}

func (m *model) hadd(key, name string, delta int64) (int64, error) {
	it, err := m.hashItem(key)
	if err != nil {
		return 0, err
	}
	var text string
	var present bool
	if it != nil {
		text, present = it.fields[name]
	}
	sum, err := addTo(text, present, delta)
	if err == nil {
		_, err = m.hset(key, []Field{{Name: []byte(name), Value: strconv.AppendInt(nil, sum, 10)}})
	}
	return sum, err
}

func (m *model) hget(key, name string) (string, error) {
	it, err := m.hashItem(key)
	if err != nil {
		return "", err
	}
	if it == nil {
		return "", ErrNotFound
	}
	value, ok := it.fields[name]
	if !ok {
		return "", ErrNotFound
	}
	return value, nil
}

func (m *model) hdel(key string, names [][]byte) (int, error) {
	it, err := m.hashItem(key)
	if err != nil || it == nil {
		return 0, err
	}
	before := len(it.fields)
	for _, name := range names {
		delete(it.fields, string(name))
	}
	n := before - len(it.fields)
	if len(it.fields) == 0 {
		delete(m.items, key)
	}
	return n, nil
}

func (m *model) hgetall(key string) ([]Field, error) {
	it, err := m.hashItem(key)
	fields := []Field{}
	if err != nil || it == nil {
		return fields, err
	}
	for _, name := range slices.Sorted(maps.Keys(it.fields)) {
		fields = append(fields, Field{Name: []byte(name), Value: []byte(it.fields[name])})
	}
	return fields, nil
}

// scan returns the keys that a scan visits, in order.
func (m *model) scan(ks *Keyspace, o ScanOptions) (keys []string) {
	for key := range m.items {
		k := []byte(key)
		if m.liveItem(key) == nil ||
			o.Start != nil && bytes.Compare(k, o.Start) < 0 ||
			o.End != nil && bytes.Compare(k, o.End) >= 0 ||
			o.Prefix != nil && !bytes.HasPrefix(k, o.Prefix) {
			continue
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return bytes.Compare(ks.keyspace.AppendPosition(nil, []byte(a)), ks.keyspace.AppendPosition(nil, []byte(b)))
	})
	if o.Reverse {
		slices.Reverse(keys)
	}
	if o.After != nil {
		i := slices.IndexFunc(keys, func(k string) bool {
			c := bytes.Compare(ks.keyspace.AppendPosition(nil, []byte(k)), o.After)
			return c != 0 && (c > 0) != o.Reverse
		})
		if i < 0 {
			return nil
		}
		keys = keys[i:]
	}
	return keys
}
