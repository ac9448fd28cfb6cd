package table

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/key"
)

// Last asks for the newest rows of an entity.
type Last struct {
	// Where fixes the columns of the entity: all that the layout has before the time, and
	// those between a bucket of the time and the time itself.
	Where key.Columns
	// N is how many rows. At least 1.
	N int
	// Before and Since bound the time: Since is included, Before is not, and zero is no
	// bound. A time that is in the key only as a bucket is bounded by whole buckets.
	//
	// If the bucket comes before a column of the entity, as in (day(ts), device) | ts,
	// buckets are read one after the other: then Before is required, and Since or MaxEmpty.
	Before, Since time.Time
	// MaxEmpty ends the search after that many buckets without rows, one after the other.
	// 0 is no bound.
	MaxEmpty int
}

// Newest is the answer to Last.
type Newest struct {
	// Rows come newest first.
	Rows []Row
	// Reads is how many stretches of places were read, the price of the answer: one if the
	// buckets of the entity lie side by side, else one for each bucket. With an open salt
	// each of them is a read for every salt.
	Reads int
	// Stop is why it ended: enough rows, nothing before Since, or MaxEmpty.
	Stop key.Stop
	// Reached is how far back was read if it ended for want of rows: after key.StopEmpty,
	// ask again with Before set to it to search on.
	Reached time.Time
}

// Last returns the newest rows of an entity, at one moment, and reads no further back
// than it must.
func (t *Table) Last(ctx context.Context, l Last) (found Newest, err error) {
	err = t.db.View(ctx, func(tx *cleave.Txn) (err error) {
		found, err = t.In(tx).Last(l)
		return err
	})
	return found, err
}

// Last is [Table.Last].
func (x Txn) Last(l Last) (Newest, error) {
	t := x.t
	if l.N < 1 || l.MaxEmpty < 0 {
		return Newest{}, fmt.Errorf("%w: N is %d and MaxEmpty %d: ask for at least one row, and 0 is no bound", ErrQuery, l.N, l.MaxEmpty)
	}
	if !l.Before.IsZero() && l.Before.Before(l.Since) {
		return Newest{}, fmt.Errorf("%w: Before, %v, comes before Since, %v", ErrQuery, l.Before, l.Since)
	}
	open := t.open(l.Where)
	apart, err := t.timeAt(l.Where, open)
	if err != nil {
		return Newest{}, t.named(err)
	}
	bucket := t.fields[open].Bucket
	if bucket == 0 && l.MaxEmpty > 0 {
		return Newest{}, t.named(fmt.Errorf("%w: MaxEmpty counts buckets, and there are none of %s", ErrQuery, t.fields[open].Column))
	}
	if apart {
		return x.walk(l, open)
	}
	q := Query{Where: l.Where, Reverse: true, Limit: l.N, From: bound(l.Since), To: bound(l.Before)}
	return newest(x.Rows(q), l, bucket, t.fields[open].Column)
}

// bound is a time as a bound of a query.
func bound(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at
}

// timeAt checks that the first open field is the time, or a bucket of it, and that rows
// in reverse are then in its order. apart tells that fields which are fixed stand behind
// the bucket: then each bucket is a read of its own.
func (t *Table) timeAt(where key.Columns, open int) (apart bool, err error) {
	if open == len(t.fields) || t.fields[open].Type != key.TypeTime {
		name := "nothing"
		if open < len(t.fields) {
			name = t.fields[open].Name()
		}
		err := fmt.Errorf("%w: %s is left open where a time should be: fix what stands before the time", ErrQuery, name)
		if _, wrong := t.layout.FanOut(where); wrong != nil {
			err = fmt.Errorf("%w: %w", err, wrong) // such as a column of another name
		}
		return false, err
	}
	column, buckets := t.fields[open].Column, 0
	if t.fields[open].Bucket == 0 {
		return false, nil
	}
	for i := open; i < len(t.fields); i++ {
		f := &t.fields[i]
		switch {
		case f.Salts > 0:
		case f.Column == column && f.Bucket == 0:
			return apart, nil
		case f.Column == column && apart:
			return false, fmt.Errorf("%w: %s stands apart from the other bucket of %s", ErrQuery, f.Name(), column)
		case f.Column == column:
			buckets++
		case t.given(where, i):
			apart = true
			if buckets > 1 {
				return false, fmt.Errorf("%w: there are %d buckets of %s before %s", ErrQuery, buckets, column, f.Name())
			}
		case t.alone[column] != nil:
			return false, fmt.Errorf("%w: %s is left open between a bucket of %s and %[3]s: fix it", ErrQuery, f.Name(), column)
		}
	}
	return apart, nil // the time is in the key as a bucket alone
}

// walk reads bucket after bucket, the newest first.
func (x Txn) walk(l Last, open int) (Newest, error) {
	f := &x.t.fields[open]
	w := key.Backward{Bucket: f.Bucket, Before: l.Before, Since: l.Since, MaxEmpty: l.MaxEmpty}
	if _, err := w.Pieces(); err != nil {
		return Newest{}, x.t.named(fmt.Errorf("%w: %w", ErrQuery, err))
	}
	found, err := key.Latest(w, l.N, func(p key.Piece, want int) iter.Seq2[Row, error] {
		q := Query{Where: maps.Clone(l.Where), Reverse: true, Limit: want}
		q.Where[f.Name()] = p.From
		if x.t.alone[f.Column] != nil {
			q.From, q.To = p.From, p.To
		}
		return x.Rows(q)
	})
	if err != nil {
		return Newest{}, err
	}
	return Newest{Rows: found.Items, Reads: found.Buckets, Stop: found.Stop, Reached: found.Reached}, nil
}

// newest takes rows that come newest first until there are enough of them, or too many
// empty buckets before the next. They lie side by side, so passing over empty buckets
// costs nothing, and it ends where a walk would.
func newest(rows iter.Seq2[Row, error], l Last, bucket key.Bucket, column string) (Newest, error) {
	found := Newest{Reads: 1, Stop: key.StopFloor, Reached: l.Since}
	gap := gap{bucket: bucket, since: l.Since, most: l.MaxEmpty}
	if err := gap.begin(l.Before); err != nil {
		return Newest{}, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	for row, err := range rows {
		if err != nil {
			return Newest{}, err
		}
		at, err := Column[time.Time](row, column)
		if err != nil {
			return Newest{}, err
		}
		if gap.closes(at) {
			break
		}
		found.Rows = append(found.Rows, row)
		if len(found.Rows) == l.N {
			found.Stop, found.Reached = key.StopEnough, time.Time{}
			return found, nil
		}
	}
	if end, ok := gap.end(); ok {
		found.Stop, found.Reached = key.StopEmpty, end
	}
	return found, nil
}

// gap watches for buckets without rows.
type gap struct {
	bucket key.Bucket
	since  time.Time
	most   int
	// last is the bucket before which, going back, empty ones are counted.
	last  key.Span
	begun bool
}

// begin starts before a time; zero if nothing bounds it, then at the first row.
func (g *gap) begin(before time.Time) error {
	if g.most == 0 || before.IsZero() {
		return nil
	}
	span, err := g.bucket.Of(before.Add(-1))
	g.last, g.begun = span.Next(), true
	return err
}

// closes goes on to the bucket of a row, and tells whether there are too many empty ones
// in front of it.
func (g *gap) closes(at time.Time) bool {
	if g.most == 0 {
		return false
	}
	span, err := g.bucket.Of(at)
	if err != nil {
		return true // the layout has no such times
	}
	if end, ok := g.end(); ok && g.begun && span.Start().Before(end) {
		return true
	}
	g.last, g.begun = span, true
	return false
}

// end returns where the last of the empty buckets begins that end the search, if that
// comes before the floor.
func (g *gap) end() (time.Time, bool) {
	if g.most == 0 || !g.begun || plant.Bug("table-last-never-gives-up") {
		return time.Time{}, false
	}
	span, err := g.bucket.At(g.last.Index() - int64(g.most))
	if err != nil || !span.Start().After(g.since) {
		return time.Time{}, false
	}
	return span.Start(), true
}
