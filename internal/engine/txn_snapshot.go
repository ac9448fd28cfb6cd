package engine

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// extendSnapshot takes the state of stores at their first use. One that only reads takes that
// of all at once, as nothing reports whether what it has read is still so; so does one
// that has failed before, to learn all that it touches, and one that is expected to
// need several.
func (tx *Txn) extendSnapshot(hosts ...*node.StoreHost) error {
	if tx.err != nil {
		return tx.err
	}
	if tx.snapshot != nil {
		hosts = slices.DeleteFunc(slices.Clone(hosts), tx.snapshot.HasStore)
		if len(hosts) == 0 {
			return nil
		}
		hosts = append(tx.snapshot.StoreHosts(), hosts...)
	} else if tx.allStores {
		hosts = tx.db.node.StoreHosts()
	}
	if err := tx.ctx.Err(); err != nil {
		return err
	}
	v, err := tx.db.node.Snapshot(tx.ctx, hosts...)
	if err != nil {
		return err
	}
	was := tx.snapshot
	if was != nil {
		tx.recordScans()
	}
	if tx.snapshot = v; was == nil {
		tx.env = command.NewEnv((*txnReader)(tx))
		tx.env.SetGuard((*txnGuard)(tx))
		tx.env.Begin(effect.Header{ClockMS: v.LatestMS()}, FirstTxnVersion)
		tx.beforeWrites = tx.env.Savepoint()
		return nil
	}
	was.Close()
	return tx.validateReads()
}

// validateReads reports whether all that was read is the same in a state that was taken later:
// then all of it is of that state.
func (tx *Txn) validateReads() error {
	for key, version := range tx.reads {
		now, err := tx.readVersion(partition.Position(key))
		if err != nil && !errors.Is(err, ownership.ErrWrongGroup) {
			return err
		}
		if err != nil || now != version {
			tx.err = errRetry
			return tx.err
		}
	}
	for _, r := range tx.rangeReads {
		s := partition.Span{Start: r.Start, End: r.End}
		err := tx.snapshot.CheckServed(s)
		var digest command.Digest
		if err == nil {
			digest, err = tx.digestSpan(s)
		}
		if err != nil && !errors.Is(err, ownership.ErrWrongGroup) {
			return err
		}
		if err != nil || digest != r.Digest {
			tx.err = errRetry
			return tx.err
		}
	}
	return nil
}

// readVersion returns the version of a key in the transaction's state, 0 if it is absent.
func (tx *Txn) readVersion(p partition.Position) (uint64, error) {
	nowMS, err := tx.snapshot.NowMS(p)
	if err != nil {
		return 0, err
	}
	value, ok, err := tx.snapshot.Get(effect.Rows.AppendKey(nil, p), nil)
	if err != nil || !ok {
		return 0, err
	}
	row, err := command.DecodeRow(value)
	if err != nil || !row.IsAlive(nowMS) {
		return 0, err
	}
	return row.Version, nil
}

// txnGuard judges keys by the groups that served them at the transaction's moment.
type txnGuard Txn

// CheckRead implements [command.Guard].
func (g *txnGuard) CheckRead(p partition.Position) error {
	_, err := g.snapshot.NowMS(p)
	return err
}

// CheckWrite implements [command.Guard].
func (g *txnGuard) CheckWrite(p partition.Position) error { return g.CheckRead(p) }

// CheckReadSpan implements [command.Guard].
func (g *txnGuard) CheckReadSpan(s partition.Span) error { return g.snapshot.CheckServed(s) }

// ExpiryCheckMS implements [command.Guard].
func (g *txnGuard) ExpiryCheckMS(p partition.Position, nowMS int64) int64 {
	if t, err := (*Txn)(g).nowMSAt(p); err == nil {
		return t
	}
	return nowMS
}

// nowMSAt is the time by which a key is judged.
func (tx *Txn) nowMSAt(p partition.Position) (int64, error) {
	if len(tx.expiryClocks) > 0 {
		if d, ok := tx.expiryClocks[string(p)]; ok {
			return d.nowMS, nil
		}
	}
	return tx.snapshot.NowMS(p)
}

// txnReader reads from the transaction's state, and notes what it read.
type txnReader Txn

// Get implements [command.Reader]. Elements need not be noted: the row of their
// collection has another version after each change of one.
func (r *txnReader) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok, err := r.snapshot.Get(key, dst)
	if err != nil || r.trackedKey == nil || key[0] != byte(effect.Rows) || !bytes.Equal(key[1:], r.trackedKey) {
		return value, ok, err
	}
	version := uint64(0)
	if ok {
		row, err := command.DecodeRow(value[len(dst):])
		if err != nil {
			return value, ok, err
		}
		if row.IsAlive((*txnGuard)(r).ExpiryCheckMS(r.trackedKey, r.env.NowMS())) {
			version = row.Version
		}
	}
	r.reads[string(r.trackedKey)] = version
	return value, ok, nil
}

// Scan implements [command.Reader]. What it visits belongs to a collection
// whose row was read.
func (r *txnReader) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	return r.snapshot.Scan(start, end, reverse, visit)
}

// crossStorePredictor reports whether the next transaction is likely to need several stores, by those
// before it. It may be wrong: a transaction that takes the state of one store too many has done some
// work in vain, and so has one that reads everything again when it comes to the
// second store.
type crossStorePredictor struct{ score atomic.Int32 }

// How sure a guess gets, and how many stores are looked at because of one.
const (
	maxCrossStoreScore = 8
	maxPredictedStores = 4
)

// record notes whether a transaction needed several stores.
func (g *crossStorePredictor) record(needed bool) {
	n := g.score.Load()
	switch {
	case needed && n < maxCrossStoreScore:
		g.score.Store(n + 1) // others may have noted theirs meanwhile: it is a guess
	case !needed && n > 0:
		g.score.Store(n - 1)
	}
}

func (g *crossStorePredictor) isLikely(n *node.Node) bool {
	return g.score.Load() > maxCrossStoreScore/2 && len(n.StoreHosts()) <= maxPredictedStores
}

// LogPositions returns the place in the feed behind the state that the transaction reads.
func (tx *Txn) LogPositions() ([]wal.Position, error) {
	if err := tx.extendSnapshot(tx.db.node.StoreHosts()...); err != nil {
		return nil, err
	}
	return tx.snapshot.LogPositions(), nil
}
