// Package hashcells sets the hash functions against the standard library and
// other implementations of the same functions.
//
// Each contestant has its own loop, so that no indirect call stands between
// the clock and functions of a few nanoseconds.
package hashcells

import (
	"hash/crc64"
	"hash/fnv"
	"hash/maphash"

	oneofone "github.com/OneOfOne/xxhash"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/hash"
	"github.com/dgryski/go-metro"
	spaolacci "github.com/spaolacci/murmur3"
)

// The families: functions that promise the same are compared.
const (
	stable  = "stable"
	murmur  = "murmur3"
	seeded  = "seeded"
	flooded = "SipHash" // no peer: there is one implementation, and ours wraps it
	weak    = "FNV"
)

// ours returns the toolkit's functions over keys, whose number is a power of
// two.
func ours(keys [][]byte) []duel.Contestant {
	mask := len(keys) - 1
	table, sip := hash.NewMaphash(), hash.NewSipHash([16]byte{1})
	loop := func(name, family string, work func(ops int)) duel.Contestant {
		return duel.Contestant{Name: name, Family: family, Ours: true, Work: work}
	}
	return []duel.Contestant{
		loop("XXH3", stable, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += hash.XXH3(keys[i&mask]).Uint64()
			}
			workload.Sink = sum
		}),
		loop("XXHash64", stable, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += hash.XXHash64(keys[i&mask]).Uint64()
			}
			workload.Sink = sum
		}),
		loop("Murmur3", murmur, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += hash.Murmur3(keys[i&mask]).Uint64()
			}
			workload.Sink = sum
		}),
		loop("Maphash", seeded, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += table.Sum(keys[i&mask]).Uint64()
			}
			workload.Sink = sum
		}),
		loop("SipHash", flooded, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += sip.Sum(keys[i&mask]).Uint64()
			}
			workload.Sink = sum
		}),
		loop("FNV1a", weak, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += hash.FNV1a(keys[i&mask]).Uint64()
			}
			workload.Sink = sum
		}),
		loop("Fx", weak, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += hash.Fx(keys[i&mask]).Uint64()
			}
			workload.Sink = sum
		}),
	}
}

// peers returns the others.
func peers(keys [][]byte) []duel.Contestant {
	mask := len(keys) - 1
	seed, ecma := maphash.MakeSeed(), crc64.MakeTable(crc64.ECMA)
	loop := func(name, family string, work func(ops int)) duel.Contestant {
		return duel.Contestant{Name: name, Family: family, Work: work}
	}
	return []duel.Contestant{
		loop("hash/crc64", stable, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += crc64.Checksum(keys[i&mask], ecma)
			}
			workload.Sink = sum
		}),
		loop("OneOfOne/xxhash", stable, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += oneofone.Checksum64(keys[i&mask])
			}
			workload.Sink = sum
		}),
		loop("go-metro", stable, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += metro.Hash64(keys[i&mask], 0)
			}
			workload.Sink = sum
		}),
		loop("spaolacci/murmur3", murmur, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += spaolacci.Sum64(keys[i&mask])
			}
			workload.Sink = sum
		}),
		loop("hash/maphash", seeded, func(ops int) {
			sum := uint64(0)
			for i := range ops {
				sum += maphash.Bytes(seed, keys[i&mask])
			}
			workload.Sink = sum
		}),
		loop("hash/fnv", weak, func(ops int) {
			h := fnv.New64a()
			sum := uint64(0)
			for i := range ops {
				h.Reset()
				h.Write(keys[i&mask])
				sum += h.Sum64()
			}
			workload.Sink = sum
		}),
	}
}
