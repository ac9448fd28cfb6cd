// Package table answers one question: how are rows kept in the order of time when
// all of them are written at its end?
//
// A key that grows with time puts all writers into one shard, and that of one entity
// makes a stretch of keys that grows for ever. The two remedies are a salt in front
// of the key, and a time bucket in it. Both are declared by the layout of a keyspace
// of kind Range, in the notation of package key:
//
//	salt(16) | ts:time, id          16 places to write to, any of them for a row
//	salt(16, id) | ts:time, id      the same, and id selects which
//	(device, day(ts)) | ts          a stretch for each device and day
//	hash(id), id                    no order of ids at all, and rows everywhere
//
// A [Table] writes the salt, the bucket and the hash, and hides them from readers.
//
// # Promises
//
//   - Rows come in the order of the layout's fields without the salt, whatever salts
//     they have, both ways, and a limit or a loop that is left costs no more than it says.
//   - A call reads one state of the store: [Table.Scan] all of its rows, [Table.ScanPage]
//     one page. In a transaction, [Table.In], it is the state of the transaction, and
//     what was read is validated with the rest of it.
//   - A page has the place where the next begins; that place stays good whatever happens to rows
//     and shards.
//   - Columns name one row. Put replaces it, wherever it is; only Append, which does not
//     look, can make a second one, and only under a salt that is picked.
//   - A key that is not of the layout is never taken for a row: it is an error that
//     names it, or, if asked for, passed over and counted.
//   - [Table.Buckets] lists the time buckets that have rows, and no others: a bucket is in use from the
//     transaction of its first row to that which deletes its last. [Table.DropBefore] drops old ones.
//
// # What a salt costs
//
// A salt that is derived from given columns is known: such a read or write is
// one, as without a salt. A salt that is picked is unknown to readers: Append writes once,
// but Get and Delete ask for a key of each salt, and Put does so in a transaction.
// Ordered reads that leave the salt open read each of the salts and merge.
// So prefer salt(16, id), with a column that differs between rows, to salt(16), and use
// [Table.Append] under the latter.
//
// # Choices
//
// Pages of several salts are read at the same time, 128 at most, so that those which wait for
// a disk wait together: 120 salts take about as long as one. In a transaction that may write
// they are read one after another, since what was read has to be validated. Rows are read ahead
// in pages that grow, from a few to 256 for each salt, and shrink where rows are large: about
// 8 MiB for a read.
//
// # Limits
//
// A salted keyspace still begins in one shard: see [Table.Spread]. Times are compared
// exactly if the layout has the column itself; of one that is only in buckets, a read
// gets whole buckets. The number of salts is part of every key and does not change.
package table

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/spread"
	"github.com/cleavekv/cleave/key"
)

// ErrNoTable means that a keyspace cannot be a table, or not with these options: the text
// says what it lacks.
var ErrNoTable = errors.New("table: the keyspace is no table")

// ErrQuery means that a read asks for what the layout cannot answer: the text says
// what to ask instead.
var ErrQuery = errors.New("table: bad query")

// Options specify how a table is used. The zero value works.
type Options struct {
	// Salter picks salts that the layout does not derive, such as salt(16). It must
	// be safe for concurrent use. Default: at random.
	Salter key.Salter
	// SkipForeign passes over keys that are not of the layout, and counts them:
	// see [Table.Foreign]. By default they are an error, [ForeignKeyError].
	SkipForeign bool
}

// Table is a keyspace whose keys are made from columns, by its layout. Its methods may
// be called by any goroutine.
type Table struct {
	db     *cleave.DB
	ks     *cleave.Keyspace
	layout *key.Layout
	fields []key.Field
	// salt is the index of the salt among the fields, -1 if there is none.
	salt int
	// saltPicked reports whether the Salter alone decides which salt a row gets.
	saltPicked bool
	// knownNames are the names that columns may be given by.
	knownNames map[string]bool
	// columnLayouts are layouts of one column each, by which its values are encoded, for
	// columns that are in the key themselves.
	columnLayouts map[string]*key.Layout

	skipForeign  bool
	foreignCount atomic.Uint64
}

// Open returns the table that a keyspace is. The keyspace must be of kind Range and
// have a layout, with or without salts and buckets.
func Open(db *cleave.DB, ks *cleave.Keyspace, o Options) (*Table, error) {
	if db == nil || ks == nil {
		return nil, fmt.Errorf("%w: nil store or keyspace", ErrNoTable)
	}
	declared := ks.Options()
	switch {
	case ks.DB() != db:
		return nil, fmt.Errorf("%w: keyspace %s is of another DB: use one of this", ErrNoTable, ks.Name())
	case declared.Kind != cleave.Range:
		return nil, fmt.Errorf("%w: %s is of kind hash, which has no order of keys: create it with Kind: cleave.Range", ErrNoTable, ks.Name())
	case declared.Layout == "":
		return nil, fmt.Errorf("%w: %s has no layout: create it with one, such as salt(16, id) | ts:time, id", ErrNoTable, ks.Name())
	}
	layout, err := key.ParseLayout(declared.Layout)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoTable, ks.Name(), err)
	}
	t := &Table{db: db, ks: ks, skipForeign: o.SkipForeign}
	if err := t.setLayout(layout, o.Salter); err != nil {
		return nil, fmt.Errorf("%w: %s, %v: %w", ErrNoTable, ks.Name(), layout, err)
	}
	return t, nil
}

// setLayout takes the layout to pieces.
func (t *Table) setLayout(layout *key.Layout, salter key.Salter) (err error) {
	t.fields = layout.Fields()
	t.salt = slices.IndexFunc(t.fields, func(f key.Field) bool { return f.Salts > 0 })
	t.saltPicked = t.salt >= 0 && t.fields[t.salt].Column == ""
	if t.saltPicked && salter == nil {
		if salter, err = key.NewRandomSalt(t.fields[t.salt].Salts, rand.Uint64); err != nil {
			return err
		}
	}
	if salter != nil {
		if layout, err = layout.WithSalter(salter); err != nil {
			return err
		}
	}
	t.layout = layout
	t.knownNames, t.columnLayouts = map[string]bool{}, map[string]*key.Layout{}
	for _, name := range layout.Columns() {
		t.knownNames[name] = true
	}
	for _, f := range t.fields {
		if !f.IsColumn() {
			continue
		}
		text := f.Column
		if f.Type != key.TypeAny {
			text += ":" + f.Type.String()
		}
		if t.columnLayouts[f.Column], err = key.ParseLayout(text); err != nil {
			return err
		}
	}
	if t.salt >= 0 {
		// One that follows from the rest of the key may not be chosen.
		f := &t.fields[t.salt]
		t.knownNames[f.Name()] = t.saltPicked || t.columnLayouts[f.Column] == nil
	}
	return nil
}

// Keyspace returns the keyspace that the rows are in.
func (t *Table) Keyspace() *cleave.Keyspace { return t.ks }

// Layout returns the layout of the keys, with the Salter of the table.
func (t *Table) Layout() *key.Layout { return t.layout }

// Foreign returns how many keys that are not of the layout were passed over since Open,
// each as often as it was met.
func (t *Table) Foreign() uint64 { return t.foreignCount.Load() }

// ForeignKeyError reports which key of the keyspace is not of the layout. It matches
// key.ErrForeignKey.
type ForeignKeyError struct {
	Keyspace string
	Key      []byte
	// Cause is a [*key.FitError].
	Cause error
}

// Error names the keyspace, the key and the cause.
func (e *ForeignKeyError) Error() string {
	return fmt.Sprintf("table: %s has the key %q: %v: delete it, or open the table with SkipForeign", e.Keyspace, e.Key, e.Cause)
}

// Unwrap returns the cause.
func (e *ForeignKeyError) Unwrap() error { return e.Cause }

// defaultPageRows is how many rows a page has if nothing else is asked for.
const defaultPageRows = 1000

// Page is a part of the rows of a query.
type Page struct {
	Rows []Row
	// Next is where the next page begins, for Query.After; empty at the end.
	Next Cursor
}

// Get returns the row of the given columns, which are all of the layout's, or
// cleave.ErrNotFound. With a salt that is picked it asks for a key of each salt, at
// one moment, and if Append made several rows of these columns it returns the one of the
// first salt.
func (t *Table) Get(ctx context.Context, columns key.Columns) (row Row, err error) {
	keys, err := t.candidateKeys(columns)
	if err != nil {
		return Row{}, err
	}
	if len(keys) == 1 {
		item, err := t.ks.Item(ctx, keys[0])
		if err != nil {
			return Row{}, err
		}
		row, _, err = t.decodeRow(item)
		return row, err
	}
	err = t.db.View(ctx, func(tx *cleave.Txn) (err error) {
		row, err = t.In(tx).Get(columns)
		return err
	})
	return row, err
}

// Scan reads rows in order, all of one moment: that of the first step. It keeps that
// moment's data as long as it runs, as [cleave.Keyspace.Scan] does; for a read that
// rests in between use ScanPage. An error ends it.
func (t *Table) Scan(ctx context.Context, q Query) iter.Seq2[Row, error] {
	return readInView(ctx, t, func(x Txn) iter.Seq2[Row, error] { return x.Scan(q) })
}

// ScanPage reads the next rows in order, at most Limit, all of one moment. Two pages are of
// two.
func (t *Table) ScanPage(ctx context.Context, q Query) (page Page, err error) {
	err = t.db.View(ctx, func(tx *cleave.Txn) (err error) {
		page, err = t.In(tx).ScanPage(q)
		return err
	})
	return page, err
}

// Put stores a row in the place of the one with these columns, if there is one, and
// makes it live for ever. With a salt that is picked it is a transaction that looks for
// the row under each salt: see [Table.Append].
func (t *Table) Put(ctx context.Context, columns key.Columns, value []byte) error {
	return t.PutWith(ctx, columns, value, cleave.SetOptions{})
}

// PutWith is Put with an expiry, or under conditions that the row must meet: see
// [cleave.SetOptions]. A Request goes with salts that follow from columns only.
func (t *Table) PutWith(ctx context.Context, columns key.Columns, value []byte, o cleave.SetOptions) error {
	if !t.saltPicked {
		return t.AppendWith(ctx, columns, value, o)
	}
	return t.db.Update(ctx, func(tx *cleave.Txn) error { return t.In(tx).PutWith(columns, value, o) })
}

// Append stores a row whose columns were never used, in one write, whatever salt it
// gets. It does not look: if there is a row with these columns and its salt is picked,
// there may be two of them then, and both are read; otherwise it is Put.
func (t *Table) Append(ctx context.Context, columns key.Columns, value []byte) error {
	k, err := t.Key(columns)
	if err != nil {
		return err
	}
	return t.ks.Set(ctx, k, value)
}

// AppendWith is Append with an expiry, or under conditions, which with a salt that is
// picked are about that salt alone. A Request does not go with such a salt: a retry would
// pick another, and make a second row.
func (t *Table) AppendWith(ctx context.Context, columns key.Columns, value []byte, o cleave.SetOptions) error {
	if o.Request != (cleave.RequestID{}) && t.needsSaltPick(columns) {
		return t.withTableName(fmt.Errorf("%w: Request with a salt that is picked: a retry would pick another: give the salt", cleave.ErrOptions))
	}
	k, err := t.Key(columns)
	if err != nil {
		return err
	}
	_, err = t.ks.SetWith(ctx, k, value, o)
	return err
}

// Delete deletes the row of the given columns, all of them if Append made several, and
// reports whether there was one.
func (t *Table) Delete(ctx context.Context, columns key.Columns) (bool, error) {
	keys, err := t.candidateKeys(columns)
	if err != nil {
		return false, err
	}
	n, err := t.ks.Delete(ctx, keys...)
	return n > 0, err
}

// Boundaries returns the keys with which shards are to begin so that each salt has one of
// its own, for [cleave.SplitAtKeys]. If columns are given, each fixes leading ones of the
// layout, and shards begin with them, or with each salt of them: so a table without a
// salt is cut by devices, say. Without them a salt or a hash must come first in the layout;
// hashes are cut into as many even pieces as there are groups.
func (t *Table) Boundaries(columns ...key.Columns) (at [][]byte, err error) {
	if len(columns) == 0 {
		if len(t.fields) > 0 && t.fields[0].Hash {
			return t.hashBoundaries()
		}
		if t.salt != 0 {
			return nil, t.withTableName(fmt.Errorf("%w: there is no salt or hash at the beginning to cut by: say which columns to cut at", ErrQuery))
		}
		for salt := 1; salt < t.layout.Salts(); salt++ { // what is before them is the first
			at = append(at, joinKey(nil, salt, nil))
		}
		return at, nil
	}
	for _, c := range columns {
		ranges, err := t.layout.FanOut(c)
		if err != nil {
			return nil, t.withTableName(err)
		}
		for _, r := range ranges {
			if len(r.Begin) > 0 {
				at = append(at, r.Begin)
			}
		}
	}
	return at, nil
}

// hashBoundaries returns a cut of the hashes into a piece for each group.
func (t *Table) hashBoundaries() (at [][]byte, err error) {
	groups, err := spread.GroupsByStore(t.db)
	if err != nil {
		return nil, t.withTableName(err)
	}
	pieces := uint64(len(groups))
	for i := uint64(1); i < pieces; i++ {
		at = append(at, key.AppendUint(nil, i<<32/pieces))
	}
	return at, nil
}

// Spread cuts the table at [Table.Boundaries], and gives the shards to the groups in turn,
// store by store, as far as they are not there already. A keyspace begins in one shard of
// one group, and salts bring nothing until it is spread; do it before there are rows, while
// it costs next to nothing. It waits for the jobs that it starts: if it is left early or
// fails, they go on, and calling it again does the rest. Groups that are drained get none.
func (t *Table) Spread(ctx context.Context, columns ...key.Columns) error {
	at, err := t.Boundaries(columns...)
	if err != nil {
		return err
	}
	starts := append([][]byte{{}}, at...)
	slices.SortFunc(starts, slices.Compare)
	places, err := spread.InTurn(t.db, slices.CompactFunc(starts, slices.Equal))
	if err == nil {
		err = spread.Apply(ctx, t.db, t.ks, at, places)
	}
	if err != nil {
		return t.withTableName(fmt.Errorf("spread: %w", err))
	}
	return nil
}
