package txn

import (
	"bytes"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// ScanIntents visits the intents to write in a span of the state that r reads, in
// the order of their positions, until visit returns false. For one key give
// [KeySpan].
func ScanIntents(r command.Reader, s partition.Span, visit func(Intent) bool) error {
	from, to := effect.Intents.SpanBetween(s.Start, s.End)
	var bad error
	err := r.Scan(from, to, false, func(key, value []byte) bool {
		var x Intent
		if x, bad = DecodeIntent(key, value); bad != nil {
			return false
		}
		return !x.Write || visit(x)
	})
	if err == nil {
		err = bad
	}
	return err
}

// KeySpan returns the span of a key: the position of its own row and all that
// begin with it.
func KeySpan(p partition.Position) partition.Span {
	end := clonePosition(p)
	end[len(end)-1]++ // a position ends in 1
	return partition.Span{Start: p, End: end}
}

// ResolvedReader reads a state as if the intents of transactions that are known to be committed
// were applied, without applying them.
type ResolvedReader struct {
	base         command.Reader
	resolvedRows []effect.Op // sorted by key, each once
}

// NewResolvedReader returns a reader of base with the intents in a span done that
// belong to transactions of which committed reports so. Base must be a state of
// after the decision was known: before it, other parts may not be prepared, and
// half of the transaction would be seen.
func NewResolvedReader(base command.Reader, s partition.Span, committed func(ID) bool) (*ResolvedReader, error) {
	t := &ResolvedReader{base: base}
	err := ScanIntents(base, s, func(x Intent) bool {
		if committed(x.Txn) {
			for _, op := range x.Effects.All() {
				op.Key, op.Value = bytes.Clone(op.Key), bytes.Clone(op.Value)
				t.resolvedRows = append(t.resolvedRows, op)
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(t.resolvedRows, func(a, b effect.Op) int { return bytes.Compare(a.Key, b.Key) })
	newest := t.resolvedRows[:0]
	for i, op := range t.resolvedRows {
		if i+1 == len(t.resolvedRows) || !bytes.Equal(op.Key, t.resolvedRows[i+1].Key) {
			newest = append(newest, op)
		}
	}
	t.resolvedRows = newest
	return t, nil
}

func (t *ResolvedReader) searchRow(key []byte) (int, bool) {
	return slices.BinarySearchFunc(t.resolvedRows, key, func(op effect.Op, key []byte) int { return bytes.Compare(op.Key, key) })
}

// Get implements [command.Reader].
func (t *ResolvedReader) Get(key, dst []byte) ([]byte, bool, error) {
	i, ok := t.searchRow(key)
	switch {
	case !ok:
		return t.base.Get(key, dst)
	case t.resolvedRows[i].Delete:
		return nil, false, nil
	}
	return append(dst, t.resolvedRows[i].Value...), true, nil
}

// Scan implements [command.Reader].
func (t *ResolvedReader) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	from, _ := t.searchRow(start)
	to, _ := t.searchRow(end)
	rows := slices.Clone(t.resolvedRows[from:max(from, to)])
	order := 1
	if reverse {
		slices.Reverse(rows)
		order = -1
	}
	more := true
	// emit visits the rows that come before key, all if it is nil, and reports whether there is
	// another row for it.
	emit := func(key []byte) (replaced bool) {
		for more && len(rows) > 0 {
			c := -1
			if key != nil {
				c = order * bytes.Compare(rows[0].Key, key)
			}
			if c > 0 {
				return false
			}
			op := rows[0]
			rows = rows[1:]
			if !op.Delete {
				more = visit(op.Key, op.Value)
			}
			if c == 0 {
				return true
			}
		}
		return false
	}
	err := t.base.Scan(start, end, reverse, func(key, value []byte) bool {
		if !emit(key) && more {
			more = visit(key, value)
		}
		return more
	})
	if err == nil {
		emit(nil)
	}
	return err
}
