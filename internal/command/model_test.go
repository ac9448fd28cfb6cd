package command

import (
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/partition"
)

// value is what a key holds in the model: a text, or fields.
type value struct {
	text    string
	fields  map[string]string // not nil for a hash
	expiry  int64
	version uint64
}

// model is the meaning of the commands on a plain map, with nothing of how the
// real ones do it. Dead keys stay until something replaces them.
type model struct {
	keys map[string]value // by position
	now  int64
	next uint64
}

func newModel() *model { return &model{keys: map[string]value{}, next: 1} }

func (m *model) clone() *model {
	c := &model{keys: maps.Clone(m.keys), now: m.now, next: m.next}
	for key, v := range c.keys {
		v.fields = maps.Clone(v.fields)
		c.keys[key] = v
	}
	return c
}

func (m *model) live(p partition.Position) (value, bool) {
	v, ok := m.keys[string(p)]
	if !ok || v.expiry != 0 && m.now >= v.expiry {
		return value{}, false
	}
	return v, true
}

// put gives the key its new value and a version.
func (m *model) put(p partition.Position, v value) uint64 {
	v.version = m.next
	m.next++
	m.keys[string(p)] = v
	return v.version
}

// do evaluates a command. One that fails changes nothing.
func (m *model) do(c Command) Reply {
	before := m.clone()
	r := m.eval(c)
	if r.Err != nil {
		*m = *before
	}
	return r
}

func (m *model) eval(c Command) Reply {
	switch c := c.(type) {
	case *Batch:
		return m.batch(c)
	case *Commit:
		return m.commit(c)
	case *Delete:
		n := int64(0)
		for _, key := range c.Keys {
			if _, ok := m.live(key); ok {
				delete(m.keys, string(key))
				n++
			}
		}
		return number(n, 0)
	case *Exists:
		n := int64(0)
		for _, key := range c.Keys {
			if _, ok := m.live(key); ok {
				n++
			}
		}
		return number(n, 0)
	case *Range:
		return m.rangeOf(c)
	case *Sweep:
		return number(0, 0)
	case *Reap:
		v, there := m.keys[string(c.Key)]
		_, ok := m.live(c.Key)
		if !there || ok || v.version != c.Version {
			return number(0, 0)
		}
		delete(m.keys, string(c.Key))
		return number(1, 0)
	}
	if r, ok := m.evalExpiry(c); ok {
		return r
	}
	if r, ok := m.evalText(c); ok {
		return r
	}
	return m.evalHash(c)
}

func (m *model) batch(c *Batch) Reply {
	for _, sub := range c.Commands {
		if r := m.eval(sub); r.Err != nil {
			return r
		}
	}
	return Reply{Kind: OK}
}

func (m *model) commit(c *Commit) Reply {
	for _, r := range c.Reads {
		if v, _ := m.live(r.Key); v.version != r.Version {
			return failed(ErrConflict)
		}
	}
	for _, r := range c.Ranges {
		if m.digest(r.Start, r.End) != r.Digest {
			return failed(ErrConflict)
		}
	}
	return m.batch(&c.Writes)
}

func (m *model) within(start, end partition.Position) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(m.keys)) {
		if _, ok := m.live(partition.Position(key)); ok && key >= string(start) && (len(end) == 0 || key < string(end)) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (m *model) digest(start, end partition.Position) (d Digest) {
	for _, key := range m.within(start, end) {
		d.Add(partition.Position(key), m.keys[key].version)
	}
	return d
}

func (m *model) rangeOf(c *Range) Reply {
	keys := m.within(c.Start, c.End)
	if c.Reverse {
		slices.Reverse(keys)
	}
	r := Reply{Kind: Items, More: len(keys) > c.Limit}
	for _, key := range keys[:min(len(keys), c.Limit)] {
		v := m.keys[key]
		kind := String
		if v.fields != nil {
			kind = Hash
		}
		r.Items = append(r.Items, Item{Field: []byte(key), Value: []byte(v.text), Found: true, Kind: kind, Version: v.version})
	}
	return r
}

func (m *model) evalExpiry(c Command) (Reply, bool) {
	switch c := c.(type) {
	case *Expire:
		v, ok := m.live(c.Key)
		if !ok {
			return number(0, 0), true
		}
		when := c.Expiry.ms
		if c.Expiry.how == expireIn {
			when += m.now
		}
		refused := map[ExpireFlags]bool{
			ExpireNX: v.expiry != 0, ExpireXX: v.expiry == 0,
			ExpireGT: v.expiry == 0 || when <= v.expiry, ExpireLT: v.expiry != 0 && when >= v.expiry,
		}
		for flag, no := range refused {
			if c.Flags&flag != 0 && no {
				return number(0, v.version), true
			}
		}
		if when <= m.now {
			delete(m.keys, string(c.Key))
			return number(1, 0), true
		}
		v.expiry = when
		return number(1, m.put(c.Key, v)), true
	case *Persist:
		v, ok := m.live(c.Key)
		if !ok || v.expiry == 0 {
			return number(0, v.version), true
		}
		v.expiry = 0
		return number(1, m.put(c.Key, v)), true
	case *TTL:
		v, ok := m.live(c.Key)
		switch {
		case !ok:
			return number(-2, 0), true
		case v.expiry == 0:
			return number(-1, v.version), true
		case c.Absolute:
			return number(v.expiry, v.version), true
		}
		return number(v.expiry-m.now, v.version), true
	case *Type:
		v, ok := m.live(c.Key)
		kind := None
		if ok && v.fields != nil {
			kind = Hash
		} else if ok {
			kind = String
		}
		return number(int64(kind), v.version), true
	}
	return Reply{}, false
}

// addInts adds with the integers of any size.
func addInts(text string, delta int64) (string, error) {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || n.String() != text || !n.IsInt64() {
		return "", ErrNotInteger
	}
	if n.Add(n, big.NewInt(delta)); !n.IsInt64() {
		return "", ErrOverflow
	}
	return n.String(), nil
}

// addFloats adds with fractions. The test keeps to numbers that a float64 has.
func addFloats(text, delta string) (string, error) {
	if delta == "inf" {
		return "", ErrOverflow
	}
	a, ok1 := new(big.Rat).SetString(text)
	b, ok2 := new(big.Rat).SetString(delta)
	if !ok1 || !ok2 || strings.Contains(text+delta, "/") {
		return "", ErrNotFloat
	}
	f, _ := a.Add(a, b).Float64()
	return strconv.FormatFloat(f, 'f', -1, 64), nil
}
