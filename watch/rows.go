package watch

import (
	"bytes"
	"slices"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
)

// pageRows is how many keys are read at one moment: few, so that they need little memory
// and their snapshot is soon given back.
const pageRows = 256

// rows tells all rows that there are, and returns the place behind them.
//
// They are read in pages, each at one moment. Before a page is told, what has changed up
// to its moment is told of the keys of all pages before it, and of no other. So the copy
// is always what its keys were at the moment of the newest page, and no snapshot has to
// be kept while rows are told.
func (f *follower) rows() (at cleave.Cursor, err error) {
	if err := f.tell(Event{Kind: Reset}); err != nil {
		return "", err
	}
	var next []byte // where the next page begins, in the order of scans
	for first := true; ; first = false {
		p, err := f.page(next)
		if err == nil && !first && !plant.Bug("watch-pages-not-aligned") {
			err = f.catchUp(at, p.at, next)
		}
		for i := 0; i < len(p.events) && err == nil; i++ {
			err = f.tell(p.events[i])
		}
		if err != nil {
			return "", err
		}
		if at, next = p.at, p.next; next == nil {
			return at, f.tell(Event{Kind: Synced, After: at})
		}
	}
}

// catchUp tells what has changed between two places of keys that come before next.
func (f *follower) catchUp(from, to cleave.Cursor, next []byte) error {
	for c, err := range f.hub.feed.FeedUntil(f.ctx, from, to) {
		if err != nil {
			return err
		}
		for i := range c.Ops {
			op := &c.Ops[i]
			if !f.target.matches(op) || f.opts.KeysOnly && op.Field != nil || bytes.Compare(f.order(op.Key), next) > 0 {
				continue
			}
			if err := f.tell(eventOf(op, f.opts.KeysOnly)); err != nil {
				return err
			}
		}
	}
	return nil
}

// order returns bytes that are in the order in which rows are told: that of scans, or
// that of the keys that are watched one by one.
func (f *follower) order(key []byte) []byte {
	if f.target.Keys != nil {
		return key
	}
	return f.target.Keyspace.After(key)
}

// page is some rows, as of one moment.
type page struct {
	events []Event
	at     cleave.Cursor
	next   []byte // the last key, as order has it; nil if there are no more
}

// page reads the rows behind a key.
func (f *follower) page(after []byte) (p page, err error) {
	ks := f.target.Keyspace
	err = f.hub.db.View(f.ctx, func(tx *cleave.Txn) (err error) {
		if p.at, err = tx.Cursor(); err != nil {
			return err
		}
		if f.target.Keys != nil {
			return f.someKeys(tx, &p, after)
		}
		o := cleave.ScanOptions{After: after, Limit: pageRows, KeysOnly: f.opts.KeysOnly}
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
			if !f.target.has(item.Key) { // of kind Hash: all are visited
				continue
			}
			if err := f.add(tx, &p, item); err != nil {
				return err
			}
		}
		if n == pageRows {
			p.next = ks.After(last)
		}
		return nil
	})
	return p, err
}

// someKeys reads keys that are watched one by one.
func (f *follower) someKeys(tx *cleave.Txn, p *page, after []byte) error {
	at := 0
	if after != nil {
		at, _ = slices.BinarySearchFunc(f.target.Keys, after, bytes.Compare)
		at++
	}
	keys := f.target.Keys[at:]
	if len(keys) > pageRows {
		keys = keys[:pageRows]
		p.next = keys[pageRows-1]
	}
	for _, key := range keys {
		item, found, err := lookIn(tx, f.target.Keyspace, key)
		if err == nil && found {
			err = f.add(tx, p, item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds a row, and the fields of a hash.
func (f *follower) add(tx *cleave.Txn, p *page, item cleave.Item) error {
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
		fields, next, err := tx.HScan(f.target.Keyspace, item.Key, after, 0)
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
