package rowtable

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/effect"
)

func TestTable_AfterAnyChanges_IsAnOrderedMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s, want := New(), map[string]string{}
	for range 500 {
		key, value := []byte{byte(rng.IntN(3)), byte(rng.IntN(20))}, []byte{byte(rng.IntN(256))}
		if rng.IntN(3) == 0 {
			s.Apply(effect.Op{Key: key, Delete: true})
			delete(want, string(key))
		} else {
			s.Apply(effect.Op{Key: key, Value: value})
			want[string(key)] = string(value)
		}
		first := byte(rng.IntN(3))
		for _, reverse := range []bool{false, true} {
			var keys []string
			if err := s.Scan([]byte{first}, []byte{first + 1}, reverse, func(key, value []byte) bool {
				if got, ok, err := s.Get(key, nil); !ok || err != nil || string(got) != want[string(key)] || string(value) != string(got) {
					t.Fatalf("%x is %x when it is read, and %x in a scan; want %x", key, got, value, want[string(key)])
				}
				keys = append(keys, string(key))
				return true
			}); err != nil {
				t.Fatal(err)
			}
			if reverse {
				slices.Reverse(keys)
			}
			if !slices.IsSorted(keys) || len(keys) != s.Count(effect.Table(first)) || len(s.Keys) != len(want) {
				t.Fatalf("a scan finds %x of %x", keys, s.Keys)
			}
		}
	}
	copied := s.Clone()
	s.Apply(effect.Op{Key: []byte("new")})
	if len(copied.Keys) == len(s.Keys) || len(copied.Rows) == len(s.Rows) {
		t.Error("a copy changes with its original")
	}
}
