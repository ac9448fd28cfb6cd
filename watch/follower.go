package watch

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/cleavekv/cleave"
)

// Follow yields what there is, and then what changes, with nothing missing in between: a
// Reset, all rows, Synced, changes. A hash comes as Created, and then its fields.
//
// If the feed no longer reaches back to where it is, because it was too slow or was away
// too long, it begins anew: a Reset, all rows, Synced. So a consumer that empties its copy at a Reset
// and applies all the rest has a copy that is right. With Options.From it begins with the
// changes behind that place, unless it has to begin anew.
//
// While rows are sent the copy is what their keys are at one moment, a later one with
// each page of rows, and has no other keys. Nothing is held up or kept open while the
// loop does its work. It ends with an error: that of ctx, or of the store.
func (h *Hub) Follow(ctx context.Context, t Target, o Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := followLoop{hub: h, ctx: ctx, opts: o, yield: yield}
		var err error
		if f.target, err = t.checkAndNormalize(h.db); err != nil {
			yield(Event{}, err)
			return
		}
		f.opts.readsOverflow = true
		for at := o.From; ; at = "" {
			err := f.runFrom(at)
			switch {
			case errors.Is(err, cleave.ErrGone):
				continue
			case !errors.Is(err, errStopped):
				yield(Event{}, err)
			}
			return
		}
	}
}

// errStopped means that the loop has ended.
var errStopped = errors.New("watch: the loop has ended")

// followLoop is one call of Follow.
type followLoop struct {
	hub    *Hub
	ctx    context.Context
	target Target // in its plain form
	opts   Options
	yield  func(Event, error) bool
}

func (f *followLoop) yieldEvent(e Event) error {
	if !f.yield(e, nil) {
		return errStopped
	}
	return nil
}

// runFrom sends the rows, unless it can go on from a place, and then changes.
func (f *followLoop) runFrom(at cleave.Cursor) (err error) {
	if at == "" {
		if at, err = f.sendRows(); err != nil {
			return err
		}
	}
	o := f.opts
	o.From = at
	w, err := f.hub.Watch(f.target, o)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		e, err := w.Next(f.ctx)
		if err == nil {
			err = f.yieldEvent(e)
		}
		if err != nil {
			return err
		}
	}
}

// maxPageRows is how many keys are read at one moment: few, so that they need little memory
// and their snapshot is soon given back.
const maxPageRows = 256

// sendRows sends all rows that there are, and returns the place behind them.
//
// They are read in pages, each at one moment. Before a page is sent, the changes up
// to its moment are sent of the keys of all pages before it, and of no other. So the copy
// is always what its keys were at the moment of the newest page, and no snapshot has to
// be kept while rows are sent.
func (f *followLoop) sendRows() (at cleave.Cursor, err error) {
	if err := f.yieldEvent(Event{Kind: Reset}); err != nil {
		return "", err
	}
	var next []byte // where the next page begins, in the order of scans
	for first := true; ; first = false {
		p, err := f.readPage(next)
		if err == nil && !first {
			err = f.catchUp(at, p.cursor, next)
		}
		for i := 0; i < len(p.events) && err == nil; i++ {
			err = f.yieldEvent(p.events[i])
		}
		if err != nil {
			return "", err
		}
		if at, next = p.cursor, p.next; next == nil {
			return at, f.yieldEvent(Event{Kind: Synced, After: at})
		}
	}
}

// catchUp sends what has changed between two places of keys that come before next.
func (f *followLoop) catchUp(from, to cleave.Cursor, next []byte) error {
	for c, err := range f.hub.feed.Feed(f.ctx, cleave.FeedOptions{From: from, Until: to}) {
		if err != nil {
			return err
		}
		for i := range c.Ops {
			op := &c.Ops[i]
			if !f.target.matchesOp(op) || f.opts.KeysOnly && op.Field != nil || bytes.Compare(f.scanOrderKey(op.Key), next) > 0 {
				continue
			}
			if err := f.yieldEvent(newEvent(op, f.opts.KeysOnly)); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanOrderKey returns bytes that are in the order in which rows are sent: that of scans, or
// that of the keys that are watched one by one.
func (f *followLoop) scanOrderKey(key []byte) []byte {
	if f.target.Keys != nil {
		return key
	}
	return f.target.Keyspace.After(key)
}

// rowPage is some rows, as of one moment.
type rowPage struct {
	events []Event
	cursor cleave.Cursor
	next   []byte // the last key, as order has it; nil if there are no more
}

// readPage reads the rows behind a key.
func (f *followLoop) readPage(after []byte) (p rowPage, err error) {
	ks := f.target.Keyspace
	err = f.hub.db.View(f.ctx, func(tx *cleave.Txn) (err error) {
		if p.cursor, err = tx.Cursor(); err != nil {
			return err
		}
		if f.target.Keys != nil {
			return f.readKeys(tx, &p, after)
		}
		o := cleave.ScanOptions{After: after, Limit: maxPageRows, KeysOnly: f.opts.KeysOnly}
		if ks.Options().Kind == cleave.Range {
			o.Start, o.End = f.target.Start, f.target.End
		}
		n := 0
		var last []byte
		for item, err := range tx.Scan(ks, o) {
			if err != nil {
				return err
			}
			n, last = n+1, item.Key
			if !f.target.hasKey(item.Key) { // of kind Hash: all are visited
				continue
			}
			if err := f.addRow(tx, &p, item); err != nil {
				return err
			}
		}
		if n == maxPageRows {
			p.next = ks.After(last)
		}
		return nil
	})
	return p, err
}

// readKeys reads keys that are watched one by one.
func (f *followLoop) readKeys(tx *cleave.Txn, p *rowPage, after []byte) error {
	at := 0
	if after != nil {
		at, _ = slices.BinarySearchFunc(f.target.Keys, after, bytes.Compare)
		at++
	}
	keys := f.target.Keys[at:]
	if len(keys) > maxPageRows {
		keys = keys[:maxPageRows]
		p.next = keys[maxPageRows-1]
	}
	for _, key := range keys {
		item, found, err := lookupKeyInTxn(tx, f.target.Keyspace, key)
		if err == nil && found {
			err = f.addRow(tx, p, item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addRow adds a row, and the fields of a hash.
func (f *followLoop) addRow(tx *cleave.Txn, p *rowPage, item cleave.Item) error {
	switch {
	case f.opts.KeysOnly:
		item.Value = nil
		p.events = append(p.events, Event{Kind: Set, Key: item.Key, Item: item})
		return nil
	case item.Value != nil:
		p.events = append(p.events, Event{Kind: Set, Key: item.Key, Item: item})
		return nil
	}
	p.events = append(p.events, Event{Kind: Created, Key: item.Key, Item: item})
	for after := []byte(nil); ; {
		fields, next, err := tx.HScanPage(f.target.Keyspace, item.Key, after, 0)
		if err != nil {
			return err
		}
		for _, field := range fields {
			p.events = append(p.events, Event{Kind: Set, Key: item.Key, Field: field.Name, Item: cleave.Item{Key: item.Key, Value: field.Value}})
		}
		if after = next; next == nil {
			return nil
		}
	}
}
