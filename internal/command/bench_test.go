package command

import (
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

const benchKeys = 1024

// warm returns an Env over a map of plain keys, and the keys.
func warm(tb testing.TB) (*Env, []partition.Position) {
	l := newLab(tb)
	keys := make([]partition.Position, benchKeys)
	for i := range keys {
		keys[i] = at(fmt.Sprintf("key:%012d", i))
		l.env.Do(&Set{Key: keys[i], Value: make([]byte, 64)})
	}
	l.commit()
	return l.env, keys
}

func TestPlainCommandsDoNotAllocateWhenWarm(t *testing.T) {
	e, keys := warm(t)
	value := make([]byte, 64)
	set, ttl, get, add, del := &Set{Value: value}, &Set{Value: value, Expiry: In(5)}, &Get{}, &Add{Delta: 1}, &Delete{}
	hset, hget := &HSet{Fields: []FieldValue{{[]byte("f"), value}}}, &HGet{Field: []byte("f")}
	all := []Command{set, ttl, get, add, del, hset, hset, hget}
	batch := func() {
		e.Begin(effect.Header{Seq: 1, ClockMS: 1}, 1)
		for i := range 64 {
			set.Key, ttl.Key, get.Key = keys[i], keys[100+i], keys[i+1]
			add.Key = keys[200+i] // not a number: it is taken back
			del.Keys = keys[300+i : 301+i]
			hset.Key, hget.Key = keys[300+i], keys[300+i]
			for _, c := range all {
				if r := e.Do(c); r.Err != nil && c != add {
					t.Fatal(r.Err)
				}
			}
		}
	}
	if n := testing.AllocsPerRun(20, batch); n != 0 {
		t.Errorf("%v allocations in a batch", n)
	}
}

func BenchmarkEnv(b *testing.B) {
	value := make([]byte, 64)
	for _, bm := range []struct {
		name string
		run  func(e *Env, key partition.Position)
	}{
		{"set", func() func(*Env, partition.Position) {
			c := &Set{Value: value}
			return func(e *Env, key partition.Position) { c.Key = key; e.Do(c) }
		}()},
		{"set-ttl", func() func(*Env, partition.Position) {
			c := &Set{Value: value, Expiry: In(1000)}
			return func(e *Env, key partition.Position) { c.Key = key; e.Do(c) }
		}()},
		{"get", func() func(*Env, partition.Position) {
			c := &Get{}
			return func(e *Env, key partition.Position) { c.Key = key; e.Do(c) }
		}()},
		{"hset", func() func(*Env, partition.Position) {
			c := &HSet{Fields: []FieldValue{{[]byte("field"), value}}}
			return func(e *Env, key partition.Position) { c.Key = key; e.Do(c) }
		}()},
	} {
		for _, size := range []int{1, 64} {
			b.Run(fmt.Sprintf("op=%s/batch=%d", bm.name, size), func(b *testing.B) {
				e, keys := warm(b)
				if bm.name == "hset" {
					for i := range keys {
						keys[i] = at(fmt.Sprintf("hash:%d", i))
					}
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if i%size == 0 {
						e.Begin(effect.Header{Seq: 1, ClockMS: 1}, 1)
					}
					bm.run(e, keys[i%benchKeys])
					i++
				}
			})
		}
	}
}
