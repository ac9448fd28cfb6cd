package affinity

import (
	"fmt"
	"maps"
	"reflect"
	"sync"
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
	origin *shardInfo // where the key lives; nil in the zero Key
	value  K
}

// Value returns the bare key. It has lost its shard: to get that back, locate
// it again.
func (k Key[S, K]) Value() K { return k.value }

// Crossed reports whether the key lives on another shard than S and came here
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

// checkSpace refuses the zero Key and keys of a space other than that of p.
func (k Key[S, K]) checkSpace(p *shardInfo) error {
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
	shard *shardInfo
}

// HomeOf returns the shard of space whose tag is S. Call it once for each tag
// when the program starts.
func HomeOf[S any, K comparable](space *Space[K]) (Home[S, K], error) {
	tag := reflect.TypeFor[S]()
	if space == nil {
		return Home[S, K]{}, fmt.Errorf("%w: %v of a nil space", ErrUndeclared, tag)
	}
	for _, p := range space.shards {
		if p.tag == tag {
			return Home[S, K]{space: space, shard: p}, nil
		}
	}
	return Home[S, K]{}, fmt.Errorf("%w: %v is none of %v", ErrUndeclared, tag, space.Shards())
}

// Locate returns k as a key of this shard if that is where it lives, and an
// [ElsewhereError] if not.
func (h Home[S, K]) Locate(k K) (Key[S, K], error) {
	if h.space == nil {
		return Key[S, K]{}, newZeroHomeError[S]()
	}
	owner, err := h.space.locateShard(k)
	if err != nil {
		return Key[S, K]{}, err
	}
	if owner != h.shard {
		return Key[S, K]{}, &ElsewhereError{Asked: h.shard.String(), Owner: owner.String()}
	}
	return Key[S, K]{origin: owner, value: k}, nil
}

// Shard holds rows of the shard with tag S. Its methods take keys of that
// shard only. It is safe for concurrent use; one lock guards it, since a shard
// is the unit that is meant to be worked on alone.
//
// Several Shards may have one home: accounts and orders of the same keys live
// together, and a key of one is good for the other.
type Shard[S any, K comparable, V any] struct {
	home Home[S, K]
	mu   sync.RWMutex
	rows map[K]V
}

// NewShard returns an empty shard: NewShard[Account](east).
func NewShard[V any, S any, K comparable](home Home[S, K]) (*Shard[S, K, V], error) {
	if home.shard == nil {
		return nil, newZeroHomeError[S]()
	}
	return &Shard[S, K, V]{home: home, rows: make(map[K]V)}, nil
}

// Load returns the row under k, or [ErrAbsent].
func (s *Shard[S, K, V]) Load(k Key[S, K]) (V, error) {
	var none V
	if err := k.checkSpace(s.home.shard); err != nil {
		return none, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.rows[k.value]
	if !ok {
		return none, newAbsentError(k)
	}
	return v, nil
}

// Store sets the row under k.
func (s *Shard[S, K, V]) Store(k Key[S, K], v V) error {
	if err := k.checkSpace(s.home.shard); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[k.value] = v
	return nil
}

// Delete removes the row under k, if there is one.
func (s *Shard[S, K, V]) Delete(k Key[S, K]) error {
	if err := k.checkSpace(s.home.shard); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, k.value)
	return nil
}

// Len returns the number of rows.
func (s *Shard[S, K, V]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.rows)
}

// Do runs f alone on the shard. What f wrote takes effect if f returns nil,
// and not at all otherwise. f must use tx, and not the shard, which is locked.
func (s *Shard[S, K, V]) Do(f func(tx *Tx[S, K, V]) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := &Tx[S, K, V]{shard: s}
	defer func() { tx.shard = nil }()
	if err := f(tx); err != nil {
		return err
	}
	maps.Copy(s.rows, tx.stored)
	for k := range tx.deleted {
		delete(s.rows, k)
	}
	return nil
}

// Tx is a transaction on one shard. It cannot be given a key of another: what
// needs two shards needs a protocol between them, and the compiler says so.
type Tx[S any, K comparable, V any] struct {
	shard   *Shard[S, K, V] // nil when the transaction is over
	stored  map[K]V         // a key is in at most one of stored and deleted
	deleted map[K]struct{}
}

func (tx *Tx[S, K, V]) checkKey(k Key[S, K]) error {
	if tx.shard == nil {
		return ErrDone
	}
	return k.checkSpace(tx.shard.home.shard)
}

// Load returns the row under k as this transaction left it, or [ErrAbsent].
func (tx *Tx[S, K, V]) Load(k Key[S, K]) (V, error) {
	var none V
	if err := tx.checkKey(k); err != nil {
		return none, err
	}
	if v, ok := tx.stored[k.value]; ok {
		return v, nil
	}
	if _, ok := tx.deleted[k.value]; ok {
		return none, newAbsentError(k)
	}
	v, ok := tx.shard.rows[k.value]
	if !ok {
		return none, newAbsentError(k)
	}
	return v, nil
}

// Store sets the row under k when the transaction succeeds.
func (tx *Tx[S, K, V]) Store(k Key[S, K], v V) error {
	if err := tx.checkKey(k); err != nil {
		return err
	}
	if tx.stored == nil {
		tx.stored = make(map[K]V)
	}
	tx.stored[k.value] = v
	delete(tx.deleted, k.value)
	return nil
}

// Delete removes the row under k when the transaction succeeds.
func (tx *Tx[S, K, V]) Delete(k Key[S, K]) error {
	if err := tx.checkKey(k); err != nil {
		return err
	}
	if tx.deleted == nil {
		tx.deleted = make(map[K]struct{})
	}
	tx.deleted[k.value] = struct{}{}
	delete(tx.stored, k.value)
	return nil
}

func newAbsentError[S any, K comparable](k Key[S, K]) error {
	return fmt.Errorf("%w: %v", ErrAbsent, k)
}
