package shardmap

// wordMap gives a wordTable its types back.
type wordMap[K comparable, V any] struct{ wordTable }

func (t *wordMap[K, V]) swap(key K, value V) (previous V, loaded bool) {
	c := t.seek(toWord(&key), true)
	previous, loaded = t.current(&c)
	c.put(toWord(&key), toWord(&value))
	return previous, loaded
}

// current returns the value at the cursor, if there is one.
func (t *wordMap[K, V]) current(c *wordCursor) (value V, ok bool) {
	if c.found {
		return fromWord[V](c.bucket.value(c.slot).Load()), true
	}
	return value, false
}

func (t *wordMap[K, V]) loadOrStore(key K, value V) (actual V, loaded bool) {
	c := t.seek(toWord(&key), true)
	if actual, loaded = t.current(&c); loaded {
		c.unlock()
		return actual, true
	}
	c.put(toWord(&key), toWord(&value))
	return value, false
}

func (t *wordMap[K, V]) remove(key K) (value V, loaded bool) {
	c := t.seek(toWord(&key), false)
	if value, loaded = t.current(&c); !loaded {
		c.unlock()
		return value, false
	}
	t.wordTable.remove(&c)
	return value, true
}

func (t *wordMap[K, V]) compute(key K, update func(V, bool) (V, Op)) (actual V, ok bool) {
	c := t.seek(toWord(&key), true)
	decided := false
	defer func() {
		if !decided { // update panicked
			c.unlock()
		}
	}()
	actual, ok = t.current(&c)
	value, op := update(actual, ok)
	if op > Delete {
		panic(unknownOp(op))
	}
	decided = true
	switch {
	case op == Update:
		c.put(toWord(&key), toWord(&value))
		return value, true
	case op == Delete && ok:
		t.wordTable.remove(&c)
		var none V
		return none, false
	default:
		c.unlock()
		return actual, ok
	}
}
