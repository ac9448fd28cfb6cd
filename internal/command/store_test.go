package command

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// sorted is a Reader: the smallest thing that keeps rows in order.
type sorted struct{ rows map[string]string }

func newSorted() *sorted { return &sorted{map[string]string{}} }

func (s *sorted) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok := s.rows[string(key)]
	return append(dst, value...), ok, nil
}

func (s *sorted) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	keys := slices.Sorted(maps.Keys(s.rows))
	if reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if key >= string(start) && key < string(end) && !visit([]byte(key), []byte(s.rows[key])) {
			return nil
		}
	}
	return nil
}

// fatal is what a test and a run of a property have in common.
type fatal interface {
	Helper()
	Fatal(args ...any)
}

// apply brings a batch in, as a replica would: from its bytes.
func (s *sorted) apply(t fatal, effects []byte) {
	t.Helper()
	batch, err := effect.Parse(bytes.Clone(effects))
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range batch.All() {
		if op.Delete {
			delete(s.rows, string(op.Key))
		} else {
			s.rows[string(op.Key)] = string(op.Value)
		}
	}
}

// table returns the rows of a table by position.
func (s *sorted) table(table effect.Table) map[string]string {
	rows := map[string]string{}
	for key, value := range s.rows {
		if key[0] == byte(table) {
			rows[key[1:]] = value
		}
	}
	return rows
}

var space = partition.Keyspace{ID: 1, Name: "test", Kind: partition.Range}

func at(key string) partition.Position { return space.AppendPosition(nil, []byte(key)) }

// lab is an Env over a map that commits a batch at a time.
type lab struct {
	t     testing.TB
	store *sorted
	env   *Env
	seq   uint64
	clock int64
	next  uint64
}

func newLab(t testing.TB) *lab {
	store := newSorted()
	l := &lab{t: t, store: store, env: NewEnv(store), clock: 1000, next: 1}
	l.begin()
	return l
}

func (l *lab) begin() {
	l.seq++
	l.env.Begin(effect.Header{Seq: l.seq, ClockMS: l.clock}, l.next)
}

// batch is what the batch at hand has written.
func (l *lab) batch() effect.Batch {
	batch, err := effect.Parse(l.env.Effects().Bytes())
	if err != nil {
		l.t.Fatal(err)
	}
	return batch
}

// commit applies the batch at hand and begins the next one.
func (l *lab) commit() {
	l.t.Helper()
	l.store.apply(l.t, l.env.Effects().Bytes())
	l.next = l.env.NextVersion()
	l.begin()
}

// advance commits and lets time pass.
func (l *lab) advance(ms int64) {
	l.t.Helper()
	l.clock += ms
	l.commit()
}
