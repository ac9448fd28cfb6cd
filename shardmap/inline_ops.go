package shardmap

import "unsafe"

// inlineMap gives an inlineTable its types back.
type inlineMap[K comparable, V any] struct{ inlineTable }

// inlineKey and inlineValue are the words of a key and of a value; those of
// the table's own size are used. They stay on the stack.
type (
	inlineKey   [maxKeyWords]uint64
	inlineValue [maxValueWords]uint64
)

func keyWordsOf[K comparable](key K) (w inlineKey) {
	*(*K)(unsafe.Pointer(&w)) = key
	return w
}

func valueWordsOf[V any](value V) (w inlineValue) {
	*(*V)(unsafe.Pointer(&w)) = value
	return w
}

// put updates or inserts at the cursor and unlocks.
func (t *inlineTable) put(c *inlineCursor, key, value unsafe.Pointer) {
	if c.found {
		t.update(c, value)
	} else {
		t.insert(c, key, value)
	}
}

// get is load for both layouts that this type serves.
func (t *inlineMap[K, V]) get(key K, layout layoutKind) (value V, ok bool) {
	if layout == layoutWord {
		w, ok := t.loadWord(toWord(&key))
		return fromWord[V](w), ok
	}
	return t.load(key)
}

func (t *inlineMap[K, V]) load(key K) (value V, ok bool) {
	k := keyWordsOf(key)
	var v inlineValue
	ok = t.inlineTable.load(unsafe.Pointer(&k), unsafe.Pointer(&v))
	if ok {
		value = *(*V)(unsafe.Pointer(&v))
	}
	return value, ok
}

func (t *inlineMap[K, V]) store(key K, value V) {
	k, v := keyWordsOf(key), valueWordsOf(value)
	c := t.seek(unsafe.Pointer(&k), true)
	t.put(&c, unsafe.Pointer(&k), unsafe.Pointer(&v))
}

func (t *inlineMap[K, V]) swap(key K, value V) (previous V, loaded bool) {
	k, v := keyWordsOf(key), valueWordsOf(value)
	c := t.seek(unsafe.Pointer(&k), true)
	previous = t.current(&c)
	loaded = c.found
	t.put(&c, unsafe.Pointer(&k), unsafe.Pointer(&v))
	return previous, loaded
}

// current returns the value at the cursor, the zero value if there is none.
func (t *inlineMap[K, V]) current(c *inlineCursor) (value V) {
	if c.found {
		var v inlineValue
		t.read(c, unsafe.Pointer(&v))
		value = *(*V)(unsafe.Pointer(&v))
	}
	return value
}

func (t *inlineMap[K, V]) loadOrStore(key K, value V) (actual V, loaded bool) {
	k, v := keyWordsOf(key), valueWordsOf(value)
	c := t.seek(unsafe.Pointer(&k), true)
	if c.found {
		actual = t.current(&c)
		c.unlock()
		return actual, true
	}
	t.insert(&c, unsafe.Pointer(&k), unsafe.Pointer(&v))
	return value, false
}

func (t *inlineMap[K, V]) remove(key K) (value V, loaded bool) {
	k := keyWordsOf(key)
	c := t.seek(unsafe.Pointer(&k), false)
	if !c.found {
		c.unlock()
		return value, false
	}
	value = t.current(&c)
	t.inlineTable.remove(&c)
	return value, true
}

func (t *inlineMap[K, V]) compute(key K, update func(V, bool) (V, Op)) (actual V, ok bool) {
	k := keyWordsOf(key)
	c := t.seek(unsafe.Pointer(&k), true)
	decided := false
	defer func() {
		if !decided { // update panicked
			c.unlock()
		}
	}()
	actual, ok = t.current(&c), c.found
	value, op := update(actual, ok)
	if op > Delete {
		panic(unknownOp(op))
	}
	decided = true
	switch {
	case op == Update:
		v := valueWordsOf(value)
		t.put(&c, unsafe.Pointer(&k), unsafe.Pointer(&v))
		return value, true
	case op == Delete && ok:
		t.inlineTable.remove(&c)
		var none V
		return none, false
	default:
		c.unlock()
		return actual, ok
	}
}
