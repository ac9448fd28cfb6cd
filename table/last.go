package table

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/cleavekv/cleave"
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
	// buckets that have rows are read one after the other: then a silent entity is looked for
	// in all of them, if there is neither Since nor MaxEmpty.
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
	// buckets of the entity lie side by side, else one for each bucket that has rows of any. With an
	// open salt each of them is a read for every salt.
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
	open := t.firstOpenField(l.Where)
	apart, err := t.checkTimeOrder(l.Where, open)
	if err != nil {
		return Newest{}, t.withTableName(err)
	}
	bucket := t.fields[open].Bucket
	if bucket == 0 && l.MaxEmpty > 0 {
		return Newest{}, t.withTableName(fmt.Errorf("%w: MaxEmpty counts buckets, and there are none of %s", ErrQuery, t.fields[open].Column))
	}
	if apart {
		return x.lastByBucket(l, open)
	}
	q := Query{Where: l.Where, Reverse: true, Limit: l.N, From: timeBound(l.Since), To: timeBound(l.Before)}
	gap := emptyBucketCounter{bucket: bucket, since: l.Since, maxEmpty: l.MaxEmpty}
	return collectNewest(x.Scan(q), l, &gap, t.fields[open].Column)
}

// timeBound is a time as a bound of a query.
func timeBound(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at
}

// checkTimeOrder checks that the first open field is the time, or a bucket of it, and that rows
// in reverse are then in its order. apart reports whether fixed fields stand behind
// the bucket: then each bucket is a read of its own.
func (t *Table) checkTimeOrder(where key.Columns, open int) (apart bool, err error) {
	if open == len(t.fields) || t.fields[open].Type != key.TypeTime || t.fields[open].Hash {
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
		case f.Column == column && f.Hash:
			return false, fmt.Errorf("%w: behind %s rows are in no order of %s", ErrQuery, f.Name(), column)
		case f.Column == column && f.Bucket == 0:
			return apart, nil
		case f.Column == column && apart:
			return false, fmt.Errorf("%w: %s stands apart from the other bucket of %s", ErrQuery, f.Name(), column)
		case f.Column == column:
			buckets++
		case t.isGiven(where, i):
			apart = true
			if buckets > 1 {
				return false, fmt.Errorf("%w: there are %d buckets of %s before %s", ErrQuery, buckets, column, f.Name())
			}
		case t.columnLayouts[column] != nil:
			return false, fmt.Errorf("%w: %s is left open between a bucket of %s and %[3]s: fix it", ErrQuery, f.Name(), column)
		}
	}
	return apart, nil // the time is in the key as a bucket alone
}

// collectNewest takes rows that come newest first until there are enough of them, or too many
// empty buckets before the next. Passing over empty buckets costs nothing, and it ends where a walk
// over all of them would.
func collectNewest(rows iter.Seq2[Row, error], l Last, gap *emptyBucketCounter, column string) (Newest, error) {
	found := Newest{Reads: 1, Stop: key.StopFloor, Reached: l.Since}
	if err := gap.startBefore(l.Before); err != nil {
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
		if gap.advanceTo(at) {
			break
		}
		found.Rows = append(found.Rows, row)
		if len(found.Rows) == l.N {
			found.Stop, found.Reached = key.StopEnough, time.Time{}
			return found, nil
		}
	}
	if end, ok := gap.searchEnd(); ok {
		found.Stop, found.Reached = key.StopEmpty, end
	}
	return found, nil
}

// emptyBucketCounter watches for buckets without rows.
type emptyBucketCounter struct {
	bucket   key.Bucket
	since    time.Time
	maxEmpty int
	// lastBucket is the bucket before which, going back, empty ones are counted.
	lastBucket key.Span
	started    bool
}

// startBefore starts before a time; zero if nothing bounds it, then at the first row.
func (g *emptyBucketCounter) startBefore(before time.Time) error {
	if g.maxEmpty == 0 || before.IsZero() {
		return nil
	}
	span, err := g.bucket.Of(before.Add(-1))
	g.lastBucket, g.started = span.Next(), true
	return err
}

// isOver reports whether there are too many empty buckets in front of one.
func (g *emptyBucketCounter) isOver(span key.Span) bool {
	end, ok := g.searchEnd()
	return ok && span.Start().Before(end)
}

// advanceTo goes on to the bucket of a row, and reports whether there are too many empty ones
// in front of it.
func (g *emptyBucketCounter) advanceTo(at time.Time) bool {
	if g.maxEmpty == 0 {
		return false
	}
	span, err := g.bucket.Of(at)
	if err != nil {
		return true // the layout has no such times
	}
	if g.isOver(span) {
		return true
	}
	g.lastBucket, g.started = span, true
	return false
}

// searchEnd returns where the last of the empty buckets begins that end the search, if that
// comes before the floor.
func (g *emptyBucketCounter) searchEnd() (time.Time, bool) {
	if g.maxEmpty == 0 || !g.started {
		return time.Time{}, false
	}
	span, err := g.bucket.At(g.lastBucket.Index() - int64(g.maxEmpty))
	if err != nil || !span.Start().After(g.since) {
		return time.Time{}, false
	}
	return span.Start(), true
}

// LastOfEach reads the newest rows of every entity: the values of the columns that the
// layout has before the time and that Where leaves open. Entities come in their order, and
// the rows of each newest first. All is of one moment, as with [Table.Scan]. It costs two
// reads for each entity, however many rows it has. MaxEmpty is not for it.
func (t *Table) LastOfEach(ctx context.Context, l Last) iter.Seq2[Row, error] {
	return readInView(ctx, t, func(x Txn) iter.Seq2[Row, error] { return x.LastOfEach(l) })
}

// LastOfEach is [Table.LastOfEach].
func (x Txn) LastOfEach(l Last) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if err := x.visitLastOfEach(l, yield); err != nil {
			yield(Row{}, err)
		}
	}
}

func (x Txn) visitLastOfEach(l Last, yield func(Row, error) bool) error {
	t := x.t
	if l.N < 1 || l.MaxEmpty != 0 {
		return fmt.Errorf("%w: N is %d and MaxEmpty %d: ask for at least one row, without MaxEmpty", ErrQuery, l.N, l.MaxEmpty)
	}
	first := t.firstOpenField(l.Where)
	columns, end, err := t.findEntityColumns(l.Where, first)
	if err != nil {
		return t.withTableName(err)
	}
	seek, err := t.newQueryPlan(Query{Where: l.Where, Limit: 1, KeysOnly: true})
	if err != nil {
		return err
	}
	for {
		row, ok, err := firstRow(seek.scanRows(x.readPages))
		if err != nil || !ok {
			return err
		}
		of := maps.Clone(l.Where)
		if of == nil {
			of = key.Columns{}
		}
		for _, name := range columns {
			of[name], _ = row.Columns.Value(name)
		}
		q := Query{Where: of, Reverse: true, Limit: l.N, From: timeBound(l.Since), To: timeBound(l.Before)}
		for row, err := range x.Scan(q) {
			if err != nil {
				return err
			}
			if !yield(row, nil) {
				return nil
			}
		}
		seek.lo = append(t.unsaltedPrefix(row.Key, end), endByte)
	}
}

// firstRow returns the first row.
func firstRow(rows iter.Seq2[Row, error]) (row Row, ok bool, err error) {
	for row, err := range rows {
		return row, err == nil, err
	}
	return Row{}, false, nil
}

// findEntityColumns returns the open columns before the time, and the index of its field.
func (t *Table) findEntityColumns(where key.Columns, open int) (columns []string, end int, err error) {
	for end = open; end < len(t.fields); end++ {
		f := &t.fields[end]
		if f.Salts > 0 || f.Hash && f.Type != key.TypeTime { // the column of a hash is in the key as well
			continue
		}
		if f.Type == key.TypeTime {
			break
		}
		columns = append(columns, f.Column)
	}
	if len(columns) == 0 || end == len(t.fields) {
		return nil, 0, fmt.Errorf("%w: no columns are left open in front of a time: use Last", ErrQuery)
	}
	fixed := maps.Clone(where)
	if fixed == nil {
		fixed = key.Columns{}
	}
	for _, name := range columns {
		fixed[name] = nil
	}
	apart, err := t.checkTimeOrder(fixed, end)
	if err == nil && apart {
		err = fmt.Errorf("%w: a bucket stands before columns of the entity: ask for one entity with Last", ErrQuery)
	}
	return columns, end, err
}

// unsaltedPrefix returns the place of a key, up to a field.
func (t *Table) unsaltedPrefix(k []byte, end int) []byte {
	if t.salt >= 0 && t.salt < end {
		end--
	}
	place := t.removeSalt(k)
	r := key.NewReader(place)
	for range end {
		r.Next()
	}
	at := r.Offset()
	return place[:at:at]
}

// readInView runs a read of a transaction on one state of its own.
func readInView[T any](ctx context.Context, t *Table, read func(Txn) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		over := false
		err := t.db.View(ctx, func(tx *cleave.Txn) error {
			for found, err := range read(t.In(tx)) {
				if err != nil {
					return err
				}
				if over = !yield(found, nil); over {
					return nil
				}
			}
			return nil
		})
		if err != nil && !over {
			var none T
			yield(none, err)
		}
	}
}
