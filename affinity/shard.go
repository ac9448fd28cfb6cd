package affinity

import (
	"fmt"
	"maps"
	"sync"
)

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
	if home.place == nil {
		return nil, zeroHome[S]()
	}
	return &Shard[S, K, V]{home: home, rows: make(map[K]V)}, nil
}

// Load returns the row under k, or [ErrAbsent].
func (s *Shard[S, K, V]) Load(k Key[S, K]) (V, error) {
	var none V
	if err := k.check(s.home.place); err != nil {
		return none, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.rows[k.value]
	if !ok {
		return none, absent(k)
	}
	return v, nil
}

// Store sets the row under k.
func (s *Shard[S, K, V]) Store(k Key[S, K], v V) error {
	if err := k.check(s.home.place); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[k.value] = v
	return nil
}

// Delete removes the row under k, if there is one.
func (s *Shard[S, K, V]) Delete(k Key[S, K]) error {
	if err := k.check(s.home.place); err != nil {
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

func (tx *Tx[S, K, V]) check(k Key[S, K]) error {
	if tx.shard == nil {
		return ErrDone
	}
	return k.check(tx.shard.home.place)
}

// Load returns the row under k as this transaction left it, or [ErrAbsent].
func (tx *Tx[S, K, V]) Load(k Key[S, K]) (V, error) {
	var none V
	if err := tx.check(k); err != nil {
		return none, err
	}
	if v, ok := tx.stored[k.value]; ok {
		return v, nil
	}
	if _, ok := tx.deleted[k.value]; ok {
		return none, absent(k)
	}
	v, ok := tx.shard.rows[k.value]
	if !ok {
		return none, absent(k)
	}
	return v, nil
}

// Store sets the row under k when the transaction succeeds.
func (tx *Tx[S, K, V]) Store(k Key[S, K], v V) error {
	if err := tx.check(k); err != nil {
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
	if err := tx.check(k); err != nil {
		return err
	}
	if tx.deleted == nil {
		tx.deleted = make(map[K]struct{})
	}
	tx.deleted[k.value] = struct{}{}
	delete(tx.stored, k.value)
	return nil
}

func absent[S any, K comparable](k Key[S, K]) error { return fmt.Errorf("%w: %v", ErrAbsent, k) }
