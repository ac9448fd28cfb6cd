package command

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

func (m *model) set(c *Set) Reply {
	old, ok := m.live(c.Key)
	r := Reply{Kind: OK}
	if c.ReturnOld {
		if old.fields != nil {
			return failed(ErrWrongType)
		}
		if r.Kind = Nil; ok {
			r = Reply{Kind: Bytes, Bytes: []byte(old.text)}
		}
	}
	switch {
	case c.If == IfVersion && old.version != c.Version:
		return failed(ErrConflict)
	case c.If == IfAbsent && ok || c.If == IfPresent && !ok:
		if !c.ReturnOld {
			r.Kind = Nil
		}
		return r
	}
	v := value{text: string(c.Value)}
	switch c.Expiry.how {
	case expireIn:
		v.expiry = m.now + c.Expiry.ms
	case expireAt:
		v.expiry = c.Expiry.ms
	case expireKeep:
		v.expiry = old.expiry
	}
	if v.expiry != 0 && v.expiry <= m.now {
		delete(m.keys, string(c.Key))
		return r
	}
	r.Version = m.put(c.Key, v)
	return r
}

func (m *model) evalText(c Command) (Reply, bool) {
	if c, ok := c.(*Set); ok {
		return m.set(c), true
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
	v, ok := m.live(key)
	if v.fields != nil {
		return failed(ErrWrongType), true
	}
	return m.onText(c, key, v, ok), true
}

func (m *model) onText(c Command, key []byte, v value, ok bool) Reply {
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
		if v.text, err = addInts(zero, c.Delta); err != nil {
			return failed(err)
		}
		n, _ := strconv.ParseInt(v.text, 10, 64)
		return number(n, m.put(key, v))
	case *AddFloat:
		if v.text, err = addFloats(zero, string(c.Delta)); err != nil {
			return failed(err)
		}
		return Reply{Kind: Bytes, Bytes: []byte(v.text), Version: m.put(key, v)}
	case *Append:
		v.text += string(c.Tail)
		return number(int64(len(v.text)), m.put(key, v))
	case *Strlen:
		return number(int64(len(v.text)), v.version)
	case *GetRange:
		part := ""
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
				part += v.text[i : i+1]
			}
		}
		return Reply{Kind: Bytes, Bytes: []byte(part), Version: v.version}
	case *SetRange:
		if len(c.Part) == 0 {
			return number(int64(len(v.text)), v.version)
		}
		if n := int(c.Offset) + len(c.Part) - len(v.text); n > 0 {
			v.text += strings.Repeat("\x00", n)
		}
		v.text = v.text[:c.Offset] + string(c.Part) + v.text[int(c.Offset)+len(c.Part):]
		return number(int64(len(v.text)), m.put(key, v))
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
	v, ok := m.live(key)
	if c, isFloat := c.(*HIncrByFloat); isFloat {
		if _, err := addFloats("0", string(c.Delta)); err != nil {
			return failed(err) // Redis looks at the argument first
		}
	}
	if ok && v.fields == nil {
		return failed(ErrWrongType)
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

func (m *model) readHash(c Command, v value) (Reply, bool) {
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
		return number(int64(len(all)), v.version), true
	case *HExists:
		_, ok := v.fields[string(c.Field)]
		return truth(ok, v.version), true
	case *HStrlen:
		return number(int64(len(v.fields[string(c.Field)])), v.version), true
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

func (m *model) writeHash(c Command, key []byte, v value) Reply {
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
			return number(0, v.version)
		}
		return number(n, m.put(key, v))
	case *HDel:
		before := len(v.fields)
		for _, name := range c.Fields {
			delete(v.fields, string(name))
		}
		n := int64(before - len(v.fields))
		switch {
		case n == 0:
			return number(0, v.version)
		case len(v.fields) == 0:
			delete(m.keys, string(key))
			return number(n, 0)
		}
		return number(n, m.put(key, v))
	case *HIncrBy:
		text, err := addInts(zero(c.Field), c.Delta)
		if err != nil {
			return failed(err)
		}
		v.fields[string(c.Field)] = text
		n, _ := strconv.ParseInt(text, 10, 64)
		return number(n, m.put(key, v))
	case *HIncrByFloat:
		text, err := addFloats(zero(c.Field), string(c.Delta))
		if err != nil {
			return failed(err)
		}
		v.fields[string(c.Field)] = text
		return Reply{Kind: Bytes, Bytes: []byte(text), Version: m.put(key, v)}
	}
	panic("no such command in the model")
}
