package cleave

import (
	"context"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// walker turns rows into items.
type walker struct {
	k     *Keyspace
	ctx   context.Context
	o     *ScanOptions
	left  int // 0 for no limit
	yield func(Item, error) bool
	done  bool

	judge node.Judge
	still func() bool // if set, must still be so at the first row
	moved bool        // it was not
	seen  int
	key   []byte // room for the key of a row
	kind  command.Kind
	own   arena
	err   error
}

// walk visits the rows of a span.
func (w *walker) walk(span partition.Span, from source) {
	for attempt := 0; ; attempt++ {
		version := w.k.db.node.Map().Version()
		err := from(w, span)
		if errors.Is(err, own.ErrWrongGroup) {
			if err = w.k.db.node.Reroute(w.ctx, version, attempt); err == nil {
				continue
			}
		}
		if err == nil {
			err = w.err
		}
		if err != nil && !w.done {
			w.fail(err)
		}
		return
	}
}

// fail ends the scan with an error.
func (w *walker) fail(err error) {
	w.yield(Item{}, public(err))
	w.done = true
}

// alive tells whether a key that expires has not yet.
func (w *walker) alive(p partition.Position, row *command.Row) bool {
	nowMS, err := w.judge(p)
	if err != nil {
		w.err = err
		return false
	}
	return row.Alive(nowMS)
}

// there tells whether the keyspace was there when the state was taken: the rows of one that was
// dropped go piece by piece.
func (w *walker) there() bool {
	w.err = w.k.space.Check()
	return w.err == nil
}

// visit looks at a row and goes on unless the scan is over.
func (w *walker) visit(key, value []byte) bool {
	if w.still != nil {
		if w.moved = !w.still(); w.moved {
			return false
		}
		w.still = nil
	}
	if w.seen == 0 && !w.there() {
		return false
	}
	if w.seen++; w.seen%256 == 0 { // rows that are passed over count too
		if w.err = w.ctx.Err(); w.err != nil {
			return false
		}
	}
	row, err := command.DecodeRow(value)
	if err != nil {
		w.err = err
		return false
	}
	if row.Kind == command.Element || row.ExpiryMS != 0 && !w.alive(key[1:], &row) {
		return w.err == nil
	}
	if w.key, _, w.err = w.k.space.Split(w.key[:0], key[1:]); w.err != nil {
		return false
	}
	w.kind = row.Kind
	item := Item{Key: w.own.clone(w.key), Version: row.Version}
	if row.ExpiryMS != 0 {
		item.Expires = expiryTime(row.ExpiryMS)
	}
	if row.Kind == command.String && !w.o.KeysOnly {
		item.Value = w.own.clone(row.Payload)
	}
	if !w.yield(item, nil) {
		w.done = true
		return false
	}
	if w.left > 0 {
		w.left--
		w.done = w.left == 0
	}
	return !w.done
}

// source hands the rows of a span as of one moment to w.visit. It says how to judge
// them before it hands over the first. If it returns own.ErrWrongGroup it has handed
// over nothing.
type source func(w *walker, s partition.Span) error

// patience is how often newest looks before it takes a snapshot.
const patience = 3

// newest is the source of what is committed.
func newest(w *walker, s partition.Span) error {
	n := w.k.db.node
	hosts := w.k.db.hostsOf(s)
	if len(hosts) == 1 {
		if done, err := w.glance(hosts[0], s); done || err != nil {
			return err
		}
	}
	v, err := n.View(w.ctx, hosts...)
	if err != nil {
		return err
	}
	defer v.Close()
	return w.scan(v, v, v.NowMS, s)
}

// hostsOf returns the stores that have a span.
func (db *DB) hostsOf(s partition.Span) (hosts []*node.Host) {
	if all := db.node.Hosts(); len(all) == 1 {
		return all
	}
	for _, run := range db.node.Runs(s) {
		if !slices.Contains(hosts, run.Host) {
			hosts = append(hosts, run.Host)
		}
	}
	return hosts
}

// glance visits the rows of a span of one store without a snapshot, if it can. The
// clocks are looked at before and after the rows are taken, because what expires in
// between would belong to another moment than the rest.
func (w *walker) glance(h *node.Host, s partition.Span) (done bool, err error) {
	if err := h.Ready(w.ctx); err != nil {
		return false, err
	}
	for range patience {
		m := h.Moment()
		if m.Locked() {
			return false, nil // what is about to be written may have happened
		}
		if err := m.Serves(s); err != nil {
			return false, err
		}
		w.judge, w.still = m.NowMS, m.Still
		err := w.rows(h.Store, s)
		if w.still != nil { // there was no row to look at
			w.moved, w.still = !m.Still(), nil
		}
		if err != nil || !w.moved {
			return true, err
		}
		w.moved = false
	}
	return false, nil
}

// scan visits the rows of a span in a view, as a reader of it shows them.
func (w *walker) scan(v *node.View, from command.Reader, judge node.Judge, s partition.Span) error {
	if err := v.Serves(s); err != nil {
		return err
	}
	w.judge = judge
	return w.rows(from, s)
}

// rows visits the rows of a span.
func (w *walker) rows(from command.Reader, s partition.Span) error {
	return from.Scan(effect.Rows.AppendKey(nil, s.Start), effect.Rows.AppendKey(nil, s.End), w.o.Reverse, w.visit)
}
