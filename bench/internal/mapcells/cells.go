package mapcells

import (
	"encoding/binary"
	"fmt"
	"iter"
	"strconv"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// Config is the size of the comparison.
type Config struct {
	// Entries is how many entries a table holds.
	Entries int
	// StreamLength is how many steps are drawn. A power of two.
	StreamLength int
	// Cores is GOMAXPROCS.
	Cores int
}

// Cells yields the cells one after the other. Tables are built when their
// first cell is due and are garbage after their last, so that the subjects
// do not stand in each other's memory.
func Cells(cfg Config) iter.Seq[duel.Cell] {
	return func(yield func(duel.Cell) bool) {
		_ = numbers(cfg, yield) &&
			yield(texts().life(cfg)) && yield(texts().insert(cfg)) &&
			mixedOnly(texts(), cfg, yield) &&
			mixedOnly(wideValues(), cfg, yield) &&
			mixedOnly(wideKeys(), cfg, yield) &&
			yield(padding(cfg))
	}
}

// numbers is the shape of the targets: 8-byte keys and values.
func numbers(cfg Config, yield func(duel.Cell) bool) bool {
	s := &shape[uint64, uint64]{
		id: "u64-u64", title: "8-byte keys and values",
		makers: uint64Makers[uint64](),
		key:    func(i uint32) uint64 { return workload.Scramble(uint64(i)) },
	}
	if !yield(s.life(cfg)) || !yield(s.insert(cfg)) {
		return false
	}
	all := s.filled(cfg.Entries)
	for _, l := range []load{{workload.Uniform, 1}, {workload.Uniform, 8}, {workload.Zipf, 1}} {
		if !s.mixed(cfg, all, l, yield) {
			return false
		}
	}
	return yield(compute(s, cfg, all)) && yield(s.visit(cfg, all)) && yield(churn(s, cfg, all))
}

// mixedOnly yields reads and writes in all mixes, on all cores.
func mixedOnly[K comparable, V any](s *shape[K, V], cfg Config, yield func(duel.Cell) bool) bool {
	return s.mixed(cfg, s.filled(cfg.Entries), load{workload.Uniform, 1}, yield)
}

// texts has pointers in keys and values.
func texts() *shape[string, string] {
	s := &shape[string, string]{
		id: "string-string", title: "strings to strings",
		makers: stringMakers[string](),
		key:    func(i uint32) string { return "user:" + strconv.FormatUint(workload.Scramble(uint64(i)), 16) },
	}
	for i := range s.values {
		s.values[i] = fmt.Sprintf("value number %d", i)
	}
	return s
}

// wideValues fill a cache line by themselves.
func wideValues() *shape[uint64, [64]byte] {
	return &shape[uint64, [64]byte]{
		id: "u64-64B", title: "8-byte keys, 64-byte values",
		makers: uint64Makers[[64]byte](),
		key:    func(i uint32) uint64 { return workload.Scramble(uint64(i)) },
	}
}

func wideKeys() *shape[key16, uint64] {
	return &shape[key16, uint64]{
		id: "16B-u64", title: "16-byte keys, 8-byte values",
		makers: key16Makers[uint64](),
		key: func(i uint32) key16 {
			var k key16
			binary.LittleEndian.PutUint64(k[:], workload.Scramble(uint64(i)))
			binary.LittleEndian.PutUint64(k[8:], workload.Scramble(^uint64(i)))
			return k
		},
	}
}
