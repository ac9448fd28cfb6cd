package check

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
)

// scenes are what a broken store does once, in the midst of a history that is
// right otherwise and goes on over what the scene left. The transactions of a
// scene run from instant 0 to 9 of it.
var scenes = []struct {
	name  string
	play  func(*stage)
	found func(*Report) bool
}{
	{"aborted read", func(s *stage) {
		a := s.element()
		s.note(failed(0, 9, Append("k0", a)))
		s.note(at(0, 9, Read("k0", s.with("k0", a)...)))
	}, has(G1a)},
	{"intermediate read", func(s *stage) {
		a, b := s.element(), s.element()
		s.note(at(0, 9, Append("k0", a), Append("k0", b)))
		s.note(at(0, 9, Read("k0", s.with("k0", a)...)))
		s.write("k0", a, b)
	}, has(G1b)},
	{"duplicate", func(s *stage) {
		a := s.element()
		s.note(at(0, 9, Append("k0", a)))
		s.write("k0", a, a)
		s.note(at(0, 9, Read("k0", s.with("k0")...)))
	}, has(Duplicate)},
	{"reordered list", func(s *stage) {
		a, b := s.element(), s.element()
		s.note(at(0, 9, Append("k0", a)))
		s.note(at(0, 9, Append("k0", b)))
		s.note(at(0, 9, Read("k0", s.with("k0", b, a)...)))
		s.write("k0", a, b)
		s.note(at(0, 9, Read("k0", s.with("k0")...)))
	}, has(Forked)},
	{"lost append", func(s *stage) {
		s.note(at(0, 5, Append("k0", s.element())))
		s.note(at(6, 9, Read("k0", s.with("k0")...)))
	}, has(Lost)},
	{"lost update", func(s *stage) {
		a, b := s.element(), s.element()
		s.note(at(0, 9, Read("k0", s.with("k0")...), Append("k0", a)))
		s.note(at(0, 9, Read("k0", s.with("k0")...), Append("k0", b)))
		s.write("k0", a, b)
	}, named("lost update")},
	{"write skew", func(s *stage) {
		a, b := s.element(), s.element()
		s.note(at(0, 9, Read("k0", s.with("k0")...), Append("k1", a)))
		s.note(at(0, 9, Read("k1", s.with("k1")...), Append("k0", b)))
		s.write("k1", a)
		s.write("k0", b)
	}, named("write skew")},
	{"fractured read", func(s *stage) {
		a, b := s.element(), s.element()
		s.note(at(0, 9, Append("k0", a), Append("k1", b)))
		s.note(at(0, 9, Read("k0", s.with("k0", a)...), Read("k1", s.with("k1")...)))
		s.write("k0", a)
		s.write("k1", b)
	}, named("fractured read")},
	{"long fork", func(s *stage) {
		a, b := s.element(), s.element()
		s.note(at(0, 9, Append("k0", a)))
		s.note(at(0, 9, Append("k1", b)))
		s.note(at(0, 9, Read("k0", s.with("k0", a)...), Read("k1", s.with("k1")...)))
		s.note(at(0, 9, Read("k0", s.with("k0")...), Read("k1", s.with("k1", b)...)))
		s.write("k0", a)
		s.write("k1", b)
	}, named("long fork")},
	{"stale read", func(s *stage) {
		a := s.element()
		s.note(at(0, 5, Append("k0", a)))
		s.note(at(6, 9, Read("k0", s.with("k0")...)))
		s.write("k0", a)
	}, named("stale read")},
	{"stale read of an open append", func(s *stage) {
		a := s.element()
		s.note(open(0, Append("k0", a)))
		s.note(at(0, 5, Read("k0", s.with("k0", a)...)))
		s.note(at(6, 9, Read("k0", s.with("k0")...)))
		s.write("k0", a)
	}, named("stale read")},
}

func has(k Kind) func(*Report) bool           { return func(r *Report) bool { return r.Has(k) } }
func named(name string) func(*Report) bool    { return func(r *Report) bool { return r.Named(name) } }
func (s *stage) element() uint64              { s.g.element++; return s.g.element }
func (s *stage) write(k string, es ...uint64) { s.g.lists[k] = s.with(k, es...) }

// stage is where a scene plays.
type stage struct {
	g    *generator
	from int64
}

// with returns the list of a key with elements behind it.
func (s *stage) with(k string, more ...uint64) []uint64 {
	return slices.Concat(s.g.lists[k], more)
}

// note adds a transaction to the history.
func (s *stage) note(t Txn) {
	t.Client = -1
	t.Invoke += s.from
	t.Return += s.from
	s.g.history = append(s.g.history, t)
}

func TestPlantedAnomaliesAreFoundAndNamed(t *testing.T) {
	var counts tally.Counts
	trials(t, 150, func(rng *rand.Rand) {
		for _, scene := range scenes {
			g := generator{
				rng:  rng,
				Txns: 1 + rng.IntN(200), Clients: 1 + rng.IntN(8), Keys: 2 + rng.IntN(4), Steps: 1 + rng.IntN(4),
				Faulty: rng.IntN(10), Scene: scene.play,
			}
			g.SceneAt = rng.IntN(g.Txns)
			h := g.run()
			r := Lists(h)
			if !scene.found(r) {
				t.Errorf("%s not found: %v\n%s", scene.name, r, show(h))
			}
			if err := sound(h, r); err != nil {
				t.Error(err)
			}
			counts.Add("planted anomalies", 1)
		}
	})
	finish(t, &counts, "planted anomalies")
}
