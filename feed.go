package cleave

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// Cursor is a place in the feed. It may be kept anywhere and used again, also
// by another process. Empty means the oldest that is there.
type Cursor string

// Change is what one commit changed: a command, a batch or a transaction, or
// several that were committed together. All of it happened at once.
type Change struct {
	Ops []ChangeOp
	// After is the place in the feed behind this change: keep it with what you
	// made of the change.
	After Cursor
}

// ChangeOp is one key, or one field of a hash, that was written or deleted.
type ChangeOp struct {
	Keyspace string
	Key      []byte
	// Field is the field of a hash; nil if it is about the key itself.
	Field []byte
	// Deleted means that it is gone. The fields of a hash that is deleted are
	// gone with it and not named.
	Deleted bool
	// Item is its value, version and expiry. A field has a value alone.
	Item Item
}

// Now returns the place in the feed behind all that is committed.
func (db *DB) Now() Cursor {
	var pos []wal.Position
	for _, p := range db.node.Parts() {
		pos = append(pos, p.Store.Metrics().Published)
	}
	return cursorOf(pos)
}

func cursorOf(pos []wal.Position) Cursor {
	var b strings.Builder
	for i, p := range pos {
		if i > 0 {
			b.WriteByte('-')
		}
		b.WriteString(strconv.FormatUint(uint64(p), 16))
	}
	return Cursor(b.String())
}

func (c Cursor) positions(parts int) ([]wal.Position, error) {
	pos := make([]wal.Position, parts)
	if c == "" {
		return pos, nil
	}
	words := strings.Split(string(c), "-")
	if len(words) != parts {
		return nil, optionError("cursor %q is not of this store", c)
	}
	for i, w := range words {
		n, err := strconv.ParseUint(w, 16, 64)
		if err != nil {
			return nil, optionError("cursor %q is not of this store", c)
		}
		pos[i] = wal.Position(n)
	}
	return pos, nil
}

// Feed yields what is committed after a place, in the order of the commits, and
// waits for more until ctx ends. Every commit to one store comes once and in
// order; those to different stores come in any order. If the place is no longer
// kept, the error is ErrGone: read the data, and follow the feed from a Cursor
// that Now returned before you began.
func (db *DB) Feed(ctx context.Context, from Cursor) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		parts := db.node.Parts()
		pos, err := from.positions(len(parts))
		if err != nil {
			yield(Change{}, err)
			return
		}
		r := feedReader{db: db, pos: pos, yield: yield}
		for {
			more := db.node.Committed()
			for i, p := range parts {
				if err := r.read(ctx, i, p); err != nil {
					if !errors.Is(err, errStop) {
						yield(Change{}, public(err))
					}
					return
				}
			}
			select {
			case <-ctx.Done():
				yield(Change{}, ctx.Err())
				return
			case <-more:
			}
		}
	}
}

var errStop = errors.New("cleave: the reader has stopped")

type feedReader struct {
	db    *DB
	pos   []wal.Position
	yield func(Change, error) bool
}

// read yields what one part has.
func (r *feedReader) read(ctx context.Context, i int, p *node.Part) error {
	next, err := p.Store.Feed(r.pos[i], func(c store.Committed) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.pos[i] = c.Pos
		change := Change{After: cursorOf(r.pos)}
		for _, op := range c.Batch.All() {
			if err := r.add(&change, op); err != nil {
				return err
			}
		}
		if len(change.Ops) > 0 && !r.yield(change, nil) {
			return errStop
		}
		return nil
	})
	if err == nil {
		r.pos[i] = next
	}
	return err
}

// add turns an effect on a row of a user's keyspace into an operation.
func (r *feedReader) add(change *Change, op effect.Op) error {
	if op.Key[0] != byte(effect.Rows) {
		return nil
	}
	p := partition.Position(op.Key[1:])
	id, err := partition.IDOf(p)
	if err != nil {
		return err
	}
	space := r.db.node.KeyspaceByID(id)
	if space == nil {
		return nil // of the system, or dropped since
	}
	out := ChangeOp{Keyspace: space.Name, Deleted: op.Delete}
	key, element, err := space.Split(nil, p)
	if err != nil {
		return err
	}
	out.Key = key
	if len(element) > 0 {
		out.Field = append([]byte{}, command.FieldName(element)...)
	}
	if !op.Delete {
		row, err := command.DecodeRow(op.Value)
		if err != nil {
			return fmt.Errorf("feed of %s: %w", space.Name, err)
		}
		out.Item = Item{Key: key, Expires: expiryTime(row.ExpiryMS)}
		if row.Kind != command.Hash {
			out.Item.Value = append([]byte{}, row.Payload...)
		}
		if row.Kind != command.Element {
			out.Item.Version = row.Version
		}
	}
	change.Ops = append(change.Ops, out)
	return nil
}
