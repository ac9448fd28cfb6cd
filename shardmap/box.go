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

// boxKindOf chooses the cheapest box for values of type v.
func boxKindOf(v reflect.Type) boxKind {
	switch v.Kind() {
	case reflect.Pointer, reflect.UnsafePointer, reflect.Chan, reflect.Map, reflect.Func:
		return boxPointer
	}
	if v.Size() > 0 && v.Size() <= wordBytes && pointerFree(v) {
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

// overwrite gives an entry another value in place, and answers false if it is
// of a kind that cannot be.
func (t *entryTable[K, V]) overwrite(p unsafe.Pointer, value *V) bool {
	switch t.box {
	case boxWord:
		(*wordBox[K])(p).word.Store(toWord(value))
		return true
	case boxPointer:
		atomic.StorePointer(&(*pointerBox[K])(p).pointer, *(*unsafe.Pointer)(unsafe.Pointer(value)))
		return true
	default:
		return false
	}
}

// toWord returns the bytes of a value of at most 8 bytes as a word.
func toWord[T any](v *T) (w uint64) {
	*(*T)(unsafe.Pointer(&w)) = *v
	return w
}

// fromWord undoes toWord.
func fromWord[T any](w uint64) T { return *(*T)(unsafe.Pointer(&w)) }
