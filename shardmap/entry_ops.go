package shardmap

// swap stores value and returns the one before it.
func (t *entryTable[K, V]) swap(key K, value V) (previous V, loaded bool) {
	c := t.seek(key, t.hash(key), true)
	if c.entry != nil {
		previous = t.unbox(c.entry)
		t.update(&c, key, value)
		c.unlock()
		return previous, true
	}
	t.add(&c, key, value)
	return previous, false
}

// add inserts an entry at the cursor's free slot and unlocks.
func (t *entryTable[K, V]) add(c *entryCursor, key K, value V) {
	c.insert(t.newBox(key, value))
	c.unlock()
	c.shard.count.Add(1)
}

func (t *entryTable[K, V]) loadOrStore(key K, value V) (actual V, loaded bool) {
	if actual, loaded = t.load(key); loaded {
		return actual, true
	}
	c := t.seek(key, t.hash(key), true)
	if c.entry != nil {
		actual = t.unbox(c.entry)
		c.unlock()
		return actual, true
	}
	t.add(&c, key, value)
	return value, false
}

// remove looks without a lock first: absent keys are cheap to delete.
func (t *entryTable[K, V]) remove(key K) (value V, loaded bool) {
	if _, loaded = t.load(key); !loaded {
		return value, false
	}
	c := t.seek(key, t.hash(key), false)
	if c.entry == nil {
		c.unlock()
		return value, false
	}
	value = t.unbox(c.entry)
	t.drop(&c)
	return value, true
}

// drop removes the cursor's entry and unlocks.
func (t *entryTable[K, V]) drop(c *entryCursor) {
	c.remove()
	c.unlock()
	t.afterDelete(c.shard)
}

func (t *entryTable[K, V]) compute(key K, update func(V, bool) (V, Op)) (actual V, ok bool) {
	c := t.seek(key, t.hash(key), true)
	decided := false
	defer func() {
		if !decided { // update panicked
			c.unlock()
		}
	}()
	if ok = c.entry != nil; ok {
		actual = t.unbox(c.entry)
	}
	value, op := update(actual, ok)
	if op > Delete {
		panic(unknownOp(op))
	}
	decided = true
	switch {
	case op == Update && ok:
		t.update(&c, key, value)
		c.unlock()
	case op == Update:
		t.add(&c, key, value)
		return value, true
	case op == Delete && ok:
		t.drop(&c)
		var none V
		return none, false
	default:
		c.unlock()
		return actual, ok
	}
	return value, true
}
