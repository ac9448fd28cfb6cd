package command

import (
	"bytes"

	"github.com/cleavekv/cleave/partition"
)

// HSample is HRANDFIELD of a hash with many fields: it draws Draws of them by chance, without reading
// all of them. The reply has an item for each draw, so the same field may come twice. Of a hash with
// few fields it has none, and More: use HGetAll.
//
// A draw walks down the tree of prefixes of the names. At each prefix it chooses one of the bytes that
// follow in some name. So it knows the probability of the name that it finds, and draws again with the
// probability that makes up for it.
// Where names spread evenly below their prefixes, as numbers, UUIDs and digests do, all fields are
// equally likely. A field on a sparse branch beside a crowded one is more likely, as far as
// maxSampleWalks do not make up for it. Every field may come.
type HSample struct {
	Key   partition.Position
	Draws int
	// WithValues means that the items have values.
	WithValues bool
	// Rand returns random numbers.
	Rand func() uint64
}

const (
	// MinSampledFields is from how many fields on a hash is not read as a whole.
	MinSampledFields = 1024
	// maxLeafFields is up to how many fields below a prefix are all read, and one of them is chosen.
	// A walk through a million numbers takes about four steps.
	maxLeafFields = 16
	// maxSampleWalks is how many walks a draw takes at most.
	maxSampleWalks = 32
	// sampleTolerance is how many times less likely than one of all fields a name may be until it is
	// never refused. Twice as much means twice as many walks for each draw; with half as much, numbers
	// up to fifty thousand come half as often again if they begin with 9.
	sampleTolerance = 4
)

// Eval draws fields.
func (c *HSample) Eval(e *Env) Reply {
	h, err := e.loadHash(c.Key)
	if err != nil {
		return failedReply(err)
	}
	few := Reply{Kind: Items, More: true, Version: h.keyVersion()}
	if h.fieldCount < MinSampledFields {
		return few
	}
	s := sampler{env: e, hash: &h, rand: c.Rand, prefix: bytes.Clone(e.makeFieldKey(c.Key, nil)), branches: map[string]*branch{}}
	start := len(e.items)
	for range c.Draws {
		found, err := s.drawField()
		if err != nil {
			return failedReply(err)
		}
		if !found.isLive { // nearly all rows are what a deleted hash has left
			return few
		}
		item := Item{Field: e.copyToArena(found.field), Found: true}
		if c.WithValues {
			value, _, err := e.readField(c.Key, &h, item.Field)
			if err != nil {
				return failedReply(err)
			}
			item.Value = e.retainBytes(value)
		}
		e.items = append(e.items, item)
	}
	return e.newItemsReply(start, h.keyVersion())
}

// sampler draws fields of a hash.
type sampler struct {
	env    *Env
	hash   *hashState
	rand   func() uint64
	prefix []byte // of the store keys of all fields
	// branches are those that walks have met, by where they begin.
	branches map[string]*branch
}

// sampledField is a field that a walk has found.
type sampledField struct {
	field []byte
	// isLive is false for one that is left of another generation.
	isLive bool
	// weight is the inverse of the probability of finding it.
	weight float64
}

// drawField draws a field. It is not live if no walk has found one that is.
func (s *sampler) drawField() (drawn sampledField, err error) {
	sum := 0.0
	for range maxSampleWalks {
		found, err := s.walkToField()
		if err != nil || found.isLive && s.isChosen(found.weight/(sampleTolerance*float64(s.hash.fieldCount))) {
			return found, err
		}
		// If all are refused, one of them is taken by its weight.
		if found.isLive {
			if sum += found.weight; s.isChosen(found.weight / sum) {
				drawn = found
			}
		}
	}
	return drawn, nil
}

// isChosen is true with a probability.
func (s *sampler) isChosen(p float64) bool { return float64(s.rand()>>11)/(1<<53) < p }

// randomBelow is a random number less than n, which is at most 257.
func (s *sampler) randomBelow(n int) int { return int(s.rand() % uint64(n)) }

// branch is a prefix that more names begin with than are read.
type branch struct {
	prefix []byte
	// exact is the field whose name is the prefix itself, if ends.
	exact    sampledField
	hasExact bool
	// nextBytes are the bytes that follow.
	nextBytes []byte
}

// walkToField finds a field.
func (s *sampler) walkToField() (sampledField, error) {
	weight := 1.0
	for name := []byte(nil); ; { // what all that may be found begin with
		b := s.branches[string(name)]
		if b == nil {
			run, more, err := s.readLeaf(name)
			if err != nil || len(run) == 0 {
				return sampledField{}, err
			}
			if !more {
				found := run[s.randomBelow(len(run))]
				found.weight = weight * float64(len(run))
				return found, nil
			}
			if b, err = s.newBranch(name, run); err != nil {
				return sampledField{}, err
			}
			s.branches[string(name)] = b
		}
		choices := len(b.nextBytes)
		if b.hasExact {
			choices++
		}
		weight *= float64(choices)
		choice := s.randomBelow(choices)
		if choice == len(b.nextBytes) {
			found := b.exact
			found.weight = weight
			return found, nil
		}
		name = append(b.prefix[:len(b.prefix):len(b.prefix)], b.nextBytes[choice])
	}
}

// newBranch finds the bytes that may follow a prefix, given the first names that begin with it.
func (s *sampler) newBranch(name []byte, run []sampledField) (*branch, error) {
	last, err := s.seekField(name, nil, true)
	if err != nil {
		return nil, err
	}
	n := commonPrefixLen(run[0].field, last)
	b := &branch{prefix: last[:n], exact: run[0], hasExact: len(run[0].field) == n}
	first := run[0].field
	if b.hasExact {
		first = run[1].field // it is longer
	}
	for {
		b.nextBytes = append(b.nextBytes, first[n])
		if first[n] == last[n] {
			return b, nil
		}
		if first, err = s.seekField(b.prefix, append(bytes.Clone(b.prefix), first[n]+1), false); err != nil {
			return nil, err
		}
	}
}

func commonPrefixLen(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// prefixSpan is the store keys of the fields that begin with name.
func (s *sampler) prefixSpan(name []byte) (start, end []byte) {
	start = append(bytes.Clone(s.prefix), name...)
	end = bytes.Clone(start)
	for i := len(end) - 1; ; i-- { // the tag of fields is among them, and less than 255
		if end[i]++; end[i] != 0 {
			return start, end[:i+1]
		}
	}
}

// readLeaf returns up to maxLeafFields fields that begin with name, and whether there are more.
func (s *sampler) readLeaf(name []byte) (run []sampledField, more bool, err error) {
	start, end := s.prefixSpan(name)
	var bad error
	err = s.env.Scan(start, end, false, func(key, raw []byte) bool {
		if more = len(run) == maxLeafFields; more {
			return false
		}
		_, live, err := s.hash.decodeElement(raw)
		if err != nil {
			bad = err
			return false
		}
		run = append(run, sampledField{field: bytes.Clone(key[len(s.prefix):]), isLive: live})
		return true
	})
	if err == nil {
		err = bad
	}
	return run, more, err
}

// seekField returns the first field that begins with name, from a name on; or in reverse the last one, before
// a name. nil is none.
func (s *sampler) seekField(name, at []byte, reverse bool) (found []byte, err error) {
	start, end := s.prefixSpan(name)
	if at != nil {
		bound := append(bytes.Clone(s.prefix), at...)
		if reverse {
			end = bound
		} else {
			start = bound
		}
	}
	err = s.env.Scan(start, end, reverse, func(key, _ []byte) bool {
		found = bytes.Clone(key[len(s.prefix):])
		return false
	})
	return found, err
}
