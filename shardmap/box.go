package shardmap

import (
	"reflect"
	"sync/atomic"
	"unsafe"
)

// boxKind is how an entry of the entry layout holds its value.
type boxKind uint8

const (
	boxValue   boxKind = iota // valueBox: immutable, an update makes a new one
	boxWord                   // wordBox: the value is a pointer-free word, updated in place
	boxPointer                // pointerBox: the value is one pointer, updated in place
)

// All boxes start with the key, so that finding one needs no boxKind.
type valueBox[K comparable, V any] struct {
	key   K
	value V
}

type wordBox[K comparable] struct {
	key  K
	word atomic.Uint64
}

type pointerBox[K comparable] struct {
	key     K
	pointer unsafe.Pointer
}

// boxKindOf chooses the cheapest box for values of type t.
func boxKindOf(t reflect.Type) boxKind {
	switch t.Kind() {
	case reflect.Pointer, reflect.UnsafePointer, reflect.Chan, reflect.Map, reflect.Func:
		return boxPointer
	}
	if t.Size() > 0 && t.Size() <= wordBytes && pointerFree(t) {
		return boxWord
	}
	return boxValue
}

// newBox returns an entry with key and value.
func (t *entryTable[K, V]) newBox(key K, value V) unsafe.Pointer {
	switch t.box {
	case boxWord:
		b := &wordBox[K]{key: key}
		b.word.Store(toWord(&value))
		return unsafe.Pointer(b)
	case boxPointer:
		return unsafe.Pointer(&pointerBox[K]{key: key, pointer: *(*unsafe.Pointer)(unsafe.Pointer(&value))})
	default:
		return unsafe.Pointer(&valueBox[K, V]{key: key, value: value})
	}
}

// unbox returns the value of an entry.
func (t *entryTable[K, V]) unbox(p unsafe.Pointer) V {
	switch t.box {
	case boxWord:
		return fromWord[V]((*wordBox[K])(p).word.Load())
	case boxPointer:
		q := atomic.LoadPointer(&(*pointerBox[K])(p).pointer)
		return *(*V)(unsafe.Pointer(&q))
	default:
		return (*valueBox[K, V])(p).value
	}
}

// update gives the cursor's entry a new value. A value of no size has none.
func (t *entryTable[K, V]) update(c *entryCursor, key K, value V) {
	switch t.box {
	case boxWord:
		(*wordBox[K])(c.entry).word.Store(toWord(&value))
	case boxPointer:
		q := *(*unsafe.Pointer)(unsafe.Pointer(&value))
		atomic.StorePointer(&(*pointerBox[K])(c.entry).pointer, q)
	default:
		if unsafe.Sizeof(value) > 0 {
			atomic.StorePointer(entrySlot(c.bucket, c.slot), t.newBox(key, value))
		}
	}
}

// toWord returns the bytes of a value of at most 8 bytes as a word.
func toWord[T any](v *T) (w uint64) {
	*(*T)(unsafe.Pointer(&w)) = *v
	return w
}

// fromWord undoes toWord.
func fromWord[T any](w uint64) T { return *(*T)(unsafe.Pointer(&w)) }
