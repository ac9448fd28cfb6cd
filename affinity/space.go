// Package affinity answers one question: can the compiler keep a key away
// from the wrong shard? It can: shard identity is a type parameter here.
//
// Each shard is named by a type of yours, its tag:
//
//	type East struct{}
//	type West struct{}
//
// A [Space] declares the tags and how keys are placed. A [Home] is one shard
// of it, and [Home.Locate] makes a [Key]: a Key[East, string] only of a string
// that lives on East. A [Shard] of East takes no other keys, and neither does a
// function of yours with such a parameter. A function with one parameter S and
// two keys of it demands that both live on the same shard, whichever that is:
//
//	func transfer[S any](accounts *Shard[S, string, int], from, to Key[S, string], amount int) error
//
// Keys that arrive at run time enter typed code through a [Switch], whose
// construction fails if a shard has no case. To hand a key of one shard to
// another there is one door, [Bridge.Cross]: it is declared with its user and reason,
// counted, and shown to an audit function.
//
// What the compiler promises: no conversion, literal or assignment turns a key
// of one shard into a key of another. What is left to run time is refused with
// an error: the zero Key, and a key from another space that uses the same tags.
// Give every space its own tags and the compiler sees the latter too. Packages
// unsafe and reflect can break all of it. A tag that is not exported keeps its
// shard private to the package that can name it.
//
// Use it where the shards are few and known when the program is written:
// regions, tiers, a fixed set of in-process shards. It is no tool for shards
// that come and go, because types cannot. The number of tags and their indexes
// decide where keys live: changing either moves data, and nothing here does
// that for you.
package affinity

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/cleavekv/cleave/hash"
)

// Declaration binds a tag to the index of a shard. Make it with [Declare].
type Declaration struct {
	tag   reflect.Type
	index int
}

// Declare makes S the tag of shard index. The index is written out
// because it decides where keys live: the order of a list is too easily
// changed. S must be a defined type of the caller's, such as
// `type East struct{}`.
func Declare[S any](index int) Declaration {
	return Declaration{reflect.TypeFor[S](), index}
}

// Config describes a space.
type Config[K comparable] struct {
	// Shards declares each shard once, with the indexes 0 to n-1 in any order.
	Shards []Declaration
	// Hash places keys. It must be pure and its values stable. Required.
	Hash func(K) hash.Stable
	// Route turns a hash into the index of a shard, for instance a
	// route.Router's Route. Default: the hash modulo the number of shards.
	Route func(hash.Stable) int
	// Audit, if set, is called with every crossing before the crossed key can be
	// used, on the caller's goroutine. It must be safe for concurrent use.
	Audit func(Crossing, K)
}

// Space is a set of shards, each with a type for a name, and the placement of
// keys on them. It is safe for concurrent use.
type Space[K comparable] struct {
	hash   func(K) hash.Stable
	route  func(hash.Stable) int
	audit  func(Crossing, K)
	shards []*shardInfo // by index

	mu      sync.Mutex
	records map[Crossing]*crossingRecord // by crossing with Count 0
}

// shardInfo is one shard of one space. Its address identifies both.
type shardInfo struct {
	tag      reflect.Type
	index    int
	siblings []*shardInfo // of the same space
}

// String returns the tag's name.
func (p *shardInfo) String() string { return p.tag.String() }

// sameSpace reports whether two places, which may be nil, share a space.
func (p *shardInfo) sameSpace(q *shardInfo) bool {
	return p != nil && q != nil && p.siblings[0] == q.siblings[0]
}

// NewSpace checks a declaration and returns its space, or an error that lists
// everything that is wrong with it.
func NewSpace[K comparable](c Config[K]) (*Space[K], error) {
	places, err := orderShards(c.Shards)
	errs := []error{err}
	if c.Hash == nil {
		errs = append(errs, fmt.Errorf("%w: no Hash: say how keys are placed", ErrSpace))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s := &Space[K]{hash: c.Hash, route: c.Route, audit: c.Audit, shards: places, records: make(map[Crossing]*crossingRecord)}
	if s.route == nil {
		n := uint64(len(places))
		s.route = func(h hash.Stable) int { return int(h.Uint64() % n) }
	}
	return s, nil
}

// orderShards orders declarations by index and checks that they cover 0 to n-1
// with n different tags.
func orderShards(shards []Declaration) ([]*shardInfo, error) {
	if len(shards) == 0 {
		return nil, fmt.Errorf("%w: no shards: declare at least one", ErrSpace)
	}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrSpace}, args...)...))
	}
	places := make([]*shardInfo, len(shards))
	seen := make(map[reflect.Type]int, len(shards))
	named := make(map[string]int, len(shards))
	for _, d := range shards {
		if d.tag == nil {
			refuse("empty declaration: make it with Declare")
			continue
		}
		if d.tag.Name() == "" || d.tag.PkgPath() == "" {
			refuse("tag %v of shard %d is not a type of yours: define one, such as type East struct{}", d.tag, d.index)
		}
		if first, dup := seen[d.tag]; dup {
			refuse("tag %v is declared for shard %d and for shard %d", d.tag, first, d.index)
		} else if first, dup := named[d.tag.String()]; dup {
			// Errors and the audit know shards by these names only.
			refuse("the tags of shard %d and shard %d are both named %v: rename one", first, d.index, d.tag)
		}
		seen[d.tag], named[d.tag.String()] = d.index, d.index
		switch {
		case d.index < 0 || d.index >= len(shards):
			refuse("tag %v has index %d, but %d shards have the indexes 0 to %d", d.tag, d.index, len(shards), len(shards)-1)
		case places[d.index] != nil:
			refuse("shard %d has two tags, %v and %v", d.index, places[d.index], d.tag)
		default:
			places[d.index] = &shardInfo{d.tag, d.index, places}
		}
	}
	if i := slices.Index(places, nil); i >= 0 {
		refuse("shard %d has no tag", i)
	}
	return places, errors.Join(errs...)
}

// Shards returns the names of the tags by index.
func (s *Space[K]) Shards() []string {
	names := make([]string, len(s.shards))
	for i, p := range s.shards {
		names[i] = p.String()
	}
	return names
}

// Index returns the index of the shard where k lives, for code that has no
// types for shards, such as a report.
func (s *Space[K]) Index(k K) (int, error) {
	p, err := s.locateShard(k)
	if err != nil {
		return 0, err
	}
	return p.index, nil
}

func (s *Space[K]) locateShard(k K) (*shardInfo, error) {
	if s == nil || s.hash == nil {
		return nil, fmt.Errorf("%w: the zero Space: get it from NewSpace", ErrSpace)
	}
	i := s.route(s.hash(k))
	if i < 0 || i >= len(s.shards) {
		return nil, fmt.Errorf("%w: %d of %d shards", ErrRoute, i, len(s.shards))
	}
	return s.shards[i], nil
}

// ErrSpace means a space is declared wrongly: the text lists every fault.
var ErrSpace = errors.New("affinity: bad space")

// ErrUndeclared means a tag is not among those that its space declares, or a
// Home is the zero one: declare the tag, and get the Home from HomeOf.
var ErrUndeclared = errors.New("affinity: undeclared tag")

// ErrElsewhere means a key lives on another shard than the one asked: ask
// that one, or enter through a Switch. An [ElsewhereError] says which.
var ErrElsewhere = errors.New("affinity: key lives elsewhere")

// ErrRoute means a space's Route answered with a shard that does not exist:
// it must answer for exactly the declared shards.
var ErrRoute = errors.New("affinity: route out of range")

// ErrKey means a key is the zero Key or was located in another space: get it
// from the Home of this one.
var ErrKey = errors.New("affinity: key not located in this space")

// ErrSwitch means a switch does not have exactly one case for each shard: the
// text lists those that are missing or too many.
var ErrSwitch = errors.New("affinity: bad switch")

// ErrBridge means a bridge is declared wrongly: the text lists every fault.
var ErrBridge = errors.New("affinity: bad bridge")

// ErrAbsent means a shard holds nothing under a key.
var ErrAbsent = errors.New("affinity: no such row")

// ErrDone means a Tx was used after the function that it was given to: start
// another with [Shard.Do].
var ErrDone = errors.New("affinity: transaction is over")

// ElsewhereError reports where a key lives. It matches [ErrElsewhere].
type ElsewhereError struct {
	Asked string // the tag of the shard that was asked
	Owner string // the tag of the shard that has the key
}

// Error names both shards.
func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%v: asked %s, lives on %s", ErrElsewhere, e.Asked, e.Owner)
}

// Is reports whether target is [ErrElsewhere].
func (e *ElsewhereError) Is(target error) bool { return target == ErrElsewhere }

// newZeroHomeError is the error of a Home that HomeOf did not make.
func newZeroHomeError[S any]() error {
	return fmt.Errorf("%w: the zero Home of %v: get it from HomeOf", ErrUndeclared, reflect.TypeFor[S]())
}
