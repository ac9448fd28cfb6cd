package command

import (
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// countingStore counts the lookups of a store.
type countingStore struct {
	*memoryStore
	lookups int
}

func (s *countingStore) Get(key, dst []byte) ([]byte, bool, error) {
	s.lookups++
	return s.memoryStore.Get(key, dst)
}

// A hash that the batch has created has no field in the committed state, so a command after the one
// that has created it looks for none there: see what RENAME and COPY of a large hash do.
func TestHSet_OfHashThatBatchCreated_ReadsNoCommittedFields(t *testing.T) {
	store := &countingStore{memoryStore: newMemoryStore()}
	env := NewEnv(store)
	env.Begin(effect.Header{Seq: 1, ClockMS: 1000}, 1)
	fill := func(from, to int) *HSet {
		c := &HSet{Key: positionOf("h")}
		for i := from; i < to; i++ {
			c.Fields = append(c.Fields, FieldValue{fmt.Appendf(nil, "f%d", i), []byte("v")})
		}
		return c
	}
	wantNew := func(c Command, want int64) {
		t.Helper()
		if r := env.Do(c); r.Err != nil || r.Int != want {
			t.Fatalf("%d new fields, want %d: %v", r.Int, want, r.Err)
		}
	}
	wantNew(fill(0, 10), 10)
	before := store.lookups
	wantNew(fill(10, 20), 10)
	wantNew(fill(5, 25), 5) // those of the batch are found all the same
	if n := store.lookups - before; n > 2 {
		t.Errorf("%d lookups in the committed state for 30 fields of a hash that is not in it", n)
	}
	store.applyEffects(t, env.Effects().Bytes())

	// What was committed is looked for, also by a batch that has created another hash or has gone back.
	env.Begin(effect.Header{Seq: 2, ClockMS: 1000}, env.NextVersion())
	mark := env.Savepoint()
	wantNew(&HSet{Key: positionOf("other"), Fields: fill(0, 3).Fields}, 3)
	wantNew(fill(20, 30), 5)
	env.RollbackTo(mark)
	wantNew(fill(20, 30), 5)
	wantNew(&Delete{Keys: []partition.Position{positionOf("h")}}, 1)
	wantNew(fill(0, 3), 3)
	wantNew(fill(0, 4), 1)
}

// BenchmarkHSet_NewHashInSeveralCommands writes a hash of 10,000 fields by ten commands of a batch.
func BenchmarkHSet_NewHashInSeveralCommands(b *testing.B) {
	var commands []*HSet
	for i := range 10 {
		c := &HSet{Key: positionOf("h")}
		for j := range 1000 {
			c.Fields = append(c.Fields, FieldValue{fmt.Appendf(nil, "field%d", 1000*i+j), []byte("value")})
		}
		commands = append(commands, c)
	}
	store := &countingStore{memoryStore: newMemoryStore()}
	env := NewEnv(store)
	for b.Loop() {
		env.Begin(effect.Header{Seq: 1, ClockMS: 1000}, 1)
		for _, c := range commands {
			if r := env.Do(c); r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	b.ReportMetric(float64(store.lookups)/float64(b.N), "lookups/op")
}
