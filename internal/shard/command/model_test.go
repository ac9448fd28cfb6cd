package command

import (
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/partition"
)

// modelValue is what a key holds in the model: a text, or fields.
type modelValue struct {
	text    string
	fields  map[string]string // not nil for a hash
	expiry  int64
	version uint64
}

// model is the meaning of the commands on a plain map, with nothing of how the
// real ones do it. Dead keys stay until something replaces them.
type model struct {
	keys        map[string]modelValue // by position
	nowMS       int64
	nextVersion uint64
}

func newModel() *model { return &model{keys: map[string]modelValue{}, nextVersion: 1} }

func (m *model) clone() *model {
	c := &model{keys: maps.Clone(m.keys), nowMS: m.nowMS, nextVersion: m.nextVersion}
	for key, v := range c.keys {
		v.fields = maps.Clone(v.fields)
		c.keys[key] = v
	}
	return c
}

func (m *model) getLive(p partition.Position) (modelValue, bool) {
	v, ok := m.keys[string(p)]
	if !ok || v.expiry != 0 && m.nowMS >= v.expiry {
		return modelValue{}, false
	}
	return v, true
}

// put gives the key its new value and a version.
func (m *model) put(p partition.Position, v modelValue) uint64 {
	v.version = m.nextVersion
	m.nextVersion++
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
		return m.evalBatch(c)
	case *Commit:
		return m.evalCommit(c)
	case *Delete:
		n := int64(0)
		for _, key := range c.Keys {
			if _, ok := m.getLive(key); ok {
				delete(m.keys, string(key))
				n++
			}
		}
		return intReply(n, 0)
	case *Exists:
		n := int64(0)
		for _, key := range c.Keys {
			if _, ok := m.getLive(key); ok {
				n++
			}
		}
		return intReply(n, 0)
	case *Range:
		return m.evalRange(c)
	case *Sweep:
		return intReply(0, 0)
	case *Reap:
		v, there := m.keys[string(c.Key)]
		_, ok := m.getLive(c.Key)
		if !there || ok || v.version != c.Version {
			return intReply(0, 0)
		}
		delete(m.keys, string(c.Key))
		return intReply(1, 0)
	}
	if r, ok := m.evalExpiry(c); ok {
		return r
	}
	if r, ok := m.evalStringCommand(c); ok {
		return r
	}
	return m.evalHash(c)
}

func (m *model) evalBatch(c *Batch) Reply {
	for _, sub := range c.Commands {
		if r := m.eval(sub); r.Err != nil {
			return r
		}
	}
	return Reply{Kind: OK}
}

func (m *model) evalCommit(c *Commit) Reply {
	for _, r := range c.Reads {
		if v, _ := m.getLive(r.Key); v.version != r.Version {
			return failedReply(ErrConflict)
		}
	}
	for _, r := range c.Ranges {
		if m.digestSpan(r.Start, r.End) != r.Digest {
			return failedReply(ErrConflict)
		}
	}
	return m.evalBatch(&c.Writes)
}

func (m *model) listLive(start, end partition.Position) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(m.keys)) {
		if _, ok := m.getLive(partition.Position(key)); ok && key >= string(start) && (len(end) == 0 || key < string(end)) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (m *model) digestSpan(start, end partition.Position) (d Digest) {
	for _, key := range m.listLive(start, end) {
		d.Add(partition.Position(key), m.keys[key].version)
	}
	return d
}

func (m *model) evalRange(c *Range) Reply {
	keys := m.listLive(c.Start, c.End)
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
		v, ok := m.getLive(c.Key)
		if !ok {
			return intReply(0, 0), true
		}
		when := c.Expiry.ms
		if c.Expiry.mode == expiryIn {
			when += m.nowMS
		}
		refused := map[ExpireFlags]bool{
			ExpireNX: v.expiry != 0, ExpireXX: v.expiry == 0,
			ExpireGT: v.expiry == 0 || when <= v.expiry, ExpireLT: v.expiry != 0 && when >= v.expiry,
		}
		for flag, no := range refused {
			if c.Flags&flag != 0 && no {
				return intReply(0, v.version), true
			}
		}
		if when <= m.nowMS {
			delete(m.keys, string(c.Key))
			return intReply(1, 0), true
		}
		v.expiry = when
		return intReply(1, m.put(c.Key, v)), true
	case *Persist:
		v, ok := m.getLive(c.Key)
		if !ok || v.expiry == 0 {
			return intReply(0, v.version), true
		}
		v.expiry = 0
		return intReply(1, m.put(c.Key, v)), true
	case *TTL:
		v, ok := m.getLive(c.Key)
		switch {
		case !ok:
			return intReply(-2, 0), true
		case v.expiry == 0:
			return intReply(-1, v.version), true
		case c.Absolute:
			return intReply(v.expiry, v.version), true
		}
		return intReply(v.expiry-m.nowMS, v.version), true
	case *Type:
		v, ok := m.getLive(c.Key)
		kind := None
		if ok && v.fields != nil {
			kind = Hash
		} else if ok {
			kind = String
		}
		return intReply(int64(kind), v.version), true
	}
	return Reply{}, false
}

// addIntegers adds with the integers of any size.
func addIntegers(text string, delta int64) (string, error) {
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
	a, ok1 := new(big.Rat).SetString(text)
	if delta == "inf" && ok1 {
		return "", ErrOverflow
	}
	b, ok2 := new(big.Rat).SetString(delta)
	if !ok1 || !ok2 || strings.Contains(text+delta, "/") {
		return "", ErrNotFloat
	}
	f, _ := a.Add(a, b).Float64()
	return strconv.FormatFloat(f, 'f', -1, 64), nil
}

func (m *model) evalSet(c *Set) Reply {
	old, ok := m.getLive(c.Key)
	r := Reply{Kind: OK}
	if c.ReturnOld {
		if old.fields != nil {
			return failedReply(ErrWrongType)
		}
		if r.Kind = Nil; ok {
			r = Reply{Kind: Bytes, Bytes: []byte(old.text)}
		}
	}
	switch {
	case c.Condition == IfVersion && old.version != c.Version:
		return failedReply(ErrConflict)
	case c.Condition == IfAbsent && ok || c.Condition == IfPresent && !ok:
		if !c.ReturnOld {
			r.Kind = Nil
		}
		return r
	}
	v := modelValue{text: string(c.Value)}
	switch c.Expiry.mode {
	case expiryIn:
		v.expiry = m.nowMS + c.Expiry.ms
	case expiryAt:
		v.expiry = c.Expiry.ms
	case expiryKeep:
		v.expiry = old.expiry
	}
	if v.expiry != 0 && v.expiry <= m.nowMS {
		delete(m.keys, string(c.Key))
		return r
	}
	r.Version = m.put(c.Key, v)
	return r
}

func (m *model) evalStringCommand(c Command) (Reply, bool) {
	if c, ok := c.(*Set); ok {
		return m.evalSet(c), true
	}
	var key []byte
	switch c := c.(type) {
	case *Get:
		key = c.Key
	case *Add:
		key = c.Key
	case *AddFloat:
		key = c.Key
	case *Append:
		key = c.Key
	case *Strlen:
		key = c.Key
	case *GetRange:
		key = c.Key
	case *SetRange:
		key = c.Key
	default:
		return Reply{}, false
	}
	v, ok := m.getLive(key)
	if v.fields != nil {
		return failedReply(ErrWrongType), true
	}
	return m.evalString(c, key, v, ok), true
}

func (m *model) evalString(c Command, key []byte, v modelValue, ok bool) Reply {
	var err error
	zero := v.text
	if !ok {
		zero = "0"
	}
	switch c := c.(type) {
	case *Get:
		if !ok {
			return Reply{}
		}
		return Reply{Kind: Bytes, Bytes: []byte(v.text), Version: v.version}
	case *Add:
		if c.IfPresent && !ok {
			return Reply{}
		}
		if v.text, err = addIntegers(zero, c.Delta); err != nil {
			return failedReply(err)
		}
		n, _ := strconv.ParseInt(v.text, 10, 64)
		return intReply(n, m.put(key, v))
	case *AddFloat:
		if v.text, err = addFloats(zero, string(c.Delta)); err != nil {
			return failedReply(err)
		}
		return Reply{Kind: Bytes, Bytes: []byte(v.text), Version: m.put(key, v)}
	case *Append:
		v.text += string(c.Suffix)
		return intReply(int64(len(v.text)), m.put(key, v))
	case *Strlen:
		return intReply(int64(len(v.text)), v.version)
	case *GetRange:
		part := []byte{}
		for i := range len(v.text) { // byte by byte, as the definition goes
			from, to := c.Start, c.End
			if from < 0 {
				from += int64(len(v.text))
			}
			if to < 0 {
				to = max(0, to+int64(len(v.text)))
			}
			if c.Start < 0 && c.End < 0 && c.Start > c.End {
				break
			}
			if int64(i) >= from && int64(i) <= to {
				part = append(part, v.text[i])
			}
		}
		return Reply{Kind: Bytes, Bytes: part, Version: v.version}
	case *SetRange:
		if len(c.Value) == 0 {
			return intReply(int64(len(v.text)), v.version)
		}
		if n := int(c.Offset) + len(c.Value) - len(v.text); n > 0 {
			v.text += strings.Repeat("\x00", n)
		}
		v.text = v.text[:c.Offset] + string(c.Value) + v.text[int(c.Offset)+len(c.Value):]
		return intReply(int64(len(v.text)), m.put(key, v))
	}
	panic("no such command in the model")
}

func (m *model) evalHash(c Command) Reply {
	var key []byte
	switch c := c.(type) {
	case *HSet:
		key = c.Key
	case *HGet:
		key = c.Key
	case *HMGet:
		key = c.Key
	case *HDel:
		key = c.Key
	case *HGetAll:
		key = c.Key
	case *HLen:
		key = c.Key
	case *HExists:
		key = c.Key
	case *HStrlen:
		key = c.Key
	case *HIncrBy:
		key = c.Key
	case *HIncrByFloat:
		key = c.Key
	case *HScan:
		key = c.Key
	}
	v, ok := m.getLive(key)
	if c, isFloat := c.(*HIncrByFloat); isFloat {
		if _, err := addFloats("0", string(c.Delta)); err != nil {
			return failedReply(err) // Redis looks at the argument first
		}
	}
	if ok && v.fields == nil {
		return failedReply(ErrWrongType)
	}
	v.fields = maps.Clone(v.fields)
	if v.fields == nil {
		v.fields = map[string]string{}
	}
	if r, ok := m.readHash(c, v); ok {
		return r
	}
	return m.writeHash(c, key, v)
}

func (m *model) readHash(c Command, v modelValue) (Reply, bool) {
	items := func(names []string) Reply {
		r := Reply{Kind: Items, Version: v.version}
		for _, name := range names {
			text, ok := v.fields[name]
			r.Items = append(r.Items, Item{Field: []byte(name), Value: []byte(text), Found: ok})
		}
		return r
	}
	all := slices.Sorted(maps.Keys(v.fields))
	switch c := c.(type) {
	case *HGet:
		text, ok := v.fields[string(c.Field)]
		if !ok {
			return Reply{Version: v.version}, true
		}
		return Reply{Kind: Bytes, Bytes: []byte(text), Version: v.version}, true
	case *HMGet:
		var names []string
		for _, name := range c.Fields {
			names = append(names, string(name))
		}
		return items(names), true
	case *HGetAll:
		return items(all), true
	case *HLen:
		return intReply(int64(len(all)), v.version), true
	case *HExists:
		_, ok := v.fields[string(c.Field)]
		return boolReply(ok, v.version), true
	case *HStrlen:
		return intReply(int64(len(v.fields[string(c.Field)])), v.version), true
	case *HScan:
		all = slices.DeleteFunc(all, func(name string) bool { return c.After != nil && name <= string(c.After) })
		r := items(all[:min(len(all), c.Limit)])
		if r.More = len(all) > c.Limit; r.More {
			r.Bytes = []byte(all[c.Limit-1])
		}
		return r, true
	}
	return Reply{}, false
}

func (m *model) writeHash(c Command, key []byte, v modelValue) Reply {
	zero := func(field []byte) string {
		if text, ok := v.fields[string(field)]; ok {
			return text
		}
		return "0"
	}
	switch c := c.(type) {
	case *HSet:
		n, changed := int64(0), false
		for _, f := range c.Fields {
			_, ok := v.fields[string(f.Field)]
			if ok && c.OnlyNew {
				continue
			}
			if !ok {
				n++
			}
			v.fields[string(f.Field)], changed = string(f.Value), true
		}
		if !changed {
			return intReply(0, v.version)
		}
		return intReply(n, m.put(key, v))
	case *HDel:
		before := len(v.fields)
		for _, name := range c.Fields {
			delete(v.fields, string(name))
		}
		n := int64(before - len(v.fields))
		switch {
		case n == 0:
			return intReply(0, v.version)
		case len(v.fields) == 0:
			delete(m.keys, string(key))
			return intReply(n, 0)
		}
		return intReply(n, m.put(key, v))
	case *HIncrBy:
		text, err := addIntegers(zero(c.Field), c.Delta)
		if err != nil {
			return failedReply(err)
		}
		v.fields[string(c.Field)] = text
		n, _ := strconv.ParseInt(text, 10, 64)
		return intReply(n, m.put(key, v))
	case *HIncrByFloat:
		text, err := addFloats(zero(c.Field), string(c.Delta))
		if err != nil {
			return failedReply(err)
		}
		v.fields[string(c.Field)] = text
		return Reply{Kind: Bytes, Bytes: []byte(text), Version: m.put(key, v)}
	}
	panic("no such command in the model")
}
