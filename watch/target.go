package watch

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// Target is what is watched: some keys, a range of them, or all of a keyspace.
type Target struct {
	// Keyspace is any but that of the entries of an index, which follow from its rows.
	Keyspace *cleave.Keyspace
	// Keys are watched one by one. They exclude the rest.
	Keys [][]byte
	// Prefix is short for the keys that begin with it, and excludes Start and End.
	Prefix []byte
	// Start and End bound the keys, End not included; nil for no bound. They, and
	// Prefix, go by the bytes of keys in a keyspace of kind Hash too; but to tell the
	// rows of one, Follow has to read all of it.
	Start, End []byte
}

// check returns the target in its plain form: Keys sorted, or Start and End.
func (t Target) check(db *cleave.DB) (Target, error) {
	bad := func(format string, args ...any) (Target, error) {
		return Target{}, fmt.Errorf("%w: %s", cleave.ErrOptions, fmt.Sprintf(format, args...))
	}
	plain := Target{Keyspace: t.Keyspace}
	bounds := t.Start != nil || t.End != nil
	switch {
	case t.Keyspace == nil:
		return bad("a Target needs a Keyspace")
	case t.Keyspace.DB() != db:
		return bad("keyspace %s is of another DB than the hub", t.Keyspace.Name())
	case strings.HasPrefix(t.Keyspace.Name(), "index/"):
		return bad("keyspace %s has the entries of an index, which the feed leaves out: watch the rows", t.Keyspace.Name())
	case t.Keys != nil && (t.Prefix != nil || bounds):
		return bad("a Target has Keys, or a Prefix, or bounds: watch others by themselves")
	case t.Prefix != nil && bounds:
		return bad("a Target has a Prefix or bounds, not both")
	case t.Keys != nil && len(t.Keys) == 0:
		return bad("a Target with no Keys in its list watches nothing: leave Keys out to watch all")
	case t.End != nil && bytes.Compare(t.Start, t.End) >= 0:
		return bad("a Target from %q to %q has no keys", t.Start, t.End)
	case t.Keys != nil:
		for _, key := range t.Keys {
			plain.Keys = append(plain.Keys, bytes.Clone(key))
		}
		slices.SortFunc(plain.Keys, bytes.Compare)
		plain.Keys = slices.CompactFunc(plain.Keys, bytes.Equal)
	case len(t.Prefix) > 0:
		r := key.PrefixRange(t.Prefix)
		plain.Start, plain.End = r.Begin, r.End
	default:
		plain.Start, plain.End = bytes.Clone(t.Start), bytes.Clone(t.End)
	}
	return plain, nil
}

// matches tells whether a plain target has a key of a keyspace.
func (t *Target) matches(op *cleave.ChangeOp) bool {
	return op.Keyspace == t.Keyspace.Name() && t.has(op.Key)
}

func (t *Target) has(key []byte) bool {
	if t.Keys != nil {
		_, ok := slices.BinarySearchFunc(t.Keys, key, bytes.Compare)
		return ok
	}
	return bytes.Compare(key, t.Start) >= 0 && (t.End == nil || bytes.Compare(key, t.End) < 0)
}
