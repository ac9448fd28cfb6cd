package affinity

import (
	"fmt"
	"reflect"
)

// Key is a K that is known to live on the shard with tag S, or that was
// brought there through a [Bridge]. Only [Home.Locate], a [Switch] and a Bridge
// make one. It is comparable. The zero Key belongs nowhere and is refused
// everywhere.
//
// K should not be changeable through a copy, as a pointer is: a key that
// changes after it was located lies.
type Key[S any, K comparable] struct {
	// The tag must occur in the fields, or Go would convert a Key of one
	// shard to a Key of another as structs of the same shape. It takes no
	// space, and a pointer to a tag can be compared whatever the tag is.
	_      [0]*S
	origin *place // where the key lives; nil in the zero Key
	value  K
}

// Value returns the bare key. It has lost its shard: to get that back, locate
// it again.
func (k Key[S, K]) Value() K { return k.value }

// Crossed tells whether the key lives on another shard than S and came here
// through a Bridge.
func (k Key[S, K]) Crossed() bool {
	return k.origin != nil && k.origin.tag != reflect.TypeFor[S]()
}

// String returns the tag of the shard where the key lives, and the key.
func (k Key[S, K]) String() string {
	if k.origin == nil {
		return "nowhere/" + fmt.Sprint(k.value)
	}
	return k.origin.String() + "/" + fmt.Sprint(k.value)
}

// check refuses the zero Key and keys of a space other than that of p.
func (k Key[S, K]) check(p *place) error {
	// A zero Shard or Bridge has no place and takes no key, the zero Key included.
	if k.origin != nil && (k.origin == p || k.origin.sameSpace(p)) {
		return nil
	}
	return fmt.Errorf("%w: %v", ErrKey, k)
}

// Home is one shard of a space: the place where its keys are located. It is a
// small value. The zero Home locates nothing.
type Home[S any, K comparable] struct {
	_     [0]*S
	space *Space[K]
	place *place
}

// HomeOf returns the shard of space whose tag is S. Call it once for each tag
// when the program starts.
func HomeOf[S any, K comparable](space *Space[K]) (Home[S, K], error) {
	tag := reflect.TypeFor[S]()
	if space == nil {
		return Home[S, K]{}, fmt.Errorf("%w: %v of a nil space", ErrUndeclared, tag)
	}
	for _, p := range space.places {
		if p.tag == tag {
			return Home[S, K]{space: space, place: p}, nil
		}
	}
	return Home[S, K]{}, fmt.Errorf("%w: %v is none of %v", ErrUndeclared, tag, space.Shards())
}

// Locate returns k as a key of this shard if that is where it lives, and an
// [ElsewhereError] if not.
func (h Home[S, K]) Locate(k K) (Key[S, K], error) {
	if h.space == nil {
		return Key[S, K]{}, zeroHome[S]()
	}
	owner, err := h.space.place(k)
	if err != nil {
		return Key[S, K]{}, err
	}
	if owner != h.place {
		return Key[S, K]{}, &ElsewhereError{Asked: h.place.String(), Owner: owner.String()}
	}
	return Key[S, K]{origin: owner, value: k}, nil
}
