package shardmap

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// store sets the value of key. Like load, it has the common case written out:
// the key is in its root.
func (t *entryTable[K, V]) store(key K, value V) {
	var hash uint64
	if unsafe.Sizeof(key) <= wordBytes && t.hashesWord {
		hash = t.seeds.hashWord(toWord(&key))
	} else {
		hash = maphash.Comparable(t.seeds.general, key)
	}
	var box unsafe.Pointer
	if t.box == boxValue {
		box = unsafe.Pointer(&valueBox[K, V]{key: key, value: value}) // before the lock
	}
	s := t.shard(hash)
	seg := lookup(s.directory(), hash)
	b := seg.at(seg.root(hash), entryBucketBytes)
	header := atomic.LoadUint64(word(b, headerWord))
	if header&lockBit != 0 || !atomic.CompareAndSwapUint64(word(b, headerWord), header, header|lockBit) {
		t.storeSlow(t.lock(hash), hash, key, &value, box)
		return
	}
	if m := matchTag(header, tagOf(hash)); m != 0 {
		slot := entrySlot(b, uint(bits.TrailingZeros64(m))/8)
		if p := atomic.LoadPointer(slot); p != nil && *(*K)(p) == key {
			if box != nil {
				atomic.StorePointer(slot, box)
			} else {
				t.overwrite(p, &value)
			}
			unlockChain(b, header)
			return
		}
	}
	t.storeSlow(chain{s, seg, b, header}, hash, key, &value, box)
}

// storeSlow is store once the chain of key is locked.
func (t *entryTable[K, V]) storeSlow(locked chain, hash uint64, key K, value *V, box unsafe.Pointer) {
	c := entryCursor{chain: locked, hash: hash}
	for !t.place(&c, key, true) {
		c = entryCursor{chain: t.lock(hash), hash: hash}
	}
	if box == nil {
		if c.entry != nil {
			t.overwrite(c.entry, value)
			c.unlock()
			return
		}
		box = t.newBox(key, *value)
	}
	if c.entry != nil {
		atomic.StorePointer(entrySlot(c.bucket, c.slot), box)
		c.unlock()
		return
	}
	c.insert(box)
	c.unlock()
	c.shard.count.Add(1)
}

// update gives the cursor's entry another value.
func (t *entryTable[K, V]) update(c *entryCursor, key K, value V) {
	if !t.overwrite(c.entry, &value) {
		atomic.StorePointer(entrySlot(c.bucket, c.slot), t.newBox(key, value))
	}
}

// swap stores value and returns the one before it.
func (t *entryTable[K, V]) swap(key K, value V) (previous V, loaded bool) {
	var c entryCursor
	t.seek(&c, key, t.hash(key), true)
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
	var c entryCursor
	t.seek(&c, key, t.hash(key), true)
	if c.entry != nil {
		actual = t.unbox(c.entry)
		c.unlock()
		return actual, true
	}
	t.add(&c, key, value)
	return value, false
}

func (t *entryTable[K, V]) remove(key K) (value V, loaded bool) {
	var c entryCursor
	t.seek(&c, key, t.hash(key), false)
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
	var c entryCursor
	t.seek(&c, key, t.hash(key), true)
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
