package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
)

// spectator is a watcher with what it makes of events.
type spectator struct {
	w      *Watcher
	target Target
	opts   Options
	copy   *mirror
}

// drain hears all up to a place.
func drain(t testing.TB, w *Watcher, end cleave.Cursor, hear func(Event)) {
	t.Helper()
	for deadline := time.Now().Add(hanging()); !w.Cursor().Covers(end); {
		c, cancel := context.WithTimeout(ctx, time.Millisecond)
		e, err := w.Next(c)
		cancel()
		switch {
		case err == nil:
			hear(e)
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatal(err)
		case time.Now().After(deadline):
			t.Fatalf("it stays at %s, and does not come to %s", w.Cursor(), end)
		}
	}
}

// A watcher, wherever it begins, how slow it is and how often it comes back, ends with what
// the store has.
func TestAWatcherEndsWithWhatTheStoreHas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ks, h := fresh(t, rapid.SampledFrom([]cleave.Kind{cleave.Hash, cleave.Range}).Draw(rt, "kind"))
		other, _ := fresh(t, cleave.Range)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		// pasts are places in the feed with what there was.
		type past struct {
			at   cleave.Cursor
			copy *mirror
		}
		var pasts []past
		var watching []*spectator
		defer func() {
			for _, s := range watching {
				s.w.Close()
			}
			if h.count != 0 || len(h.watchers) != 0 || h.stop != nil {
				rt.Errorf("the hub has %d watchers left", h.count)
			}
		}()
		begin := func(p past, target Target, o Options) *spectator {
			o.From = p.at
			w, err := h.Watch(target, o)
			must(t, err)
			return &spectator{w: w, target: w.target, opts: o, copy: p.copy.within(&w.target)}
		}
		hear := func(s *spectator, e Event) {
			if e.Kind == Lost {
				if s.opts.Every {
					rt.Fatal("one that is told everything has lost something")
				}
				now, _ := readAll(t, ks)
				s.copy = now.within(&s.target)
				return
			}
			if !s.target.has(e.Key) {
				rt.Fatalf("%s is not watched", e.Key)
			}
			if err := s.copy.apply(e); err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(rt, "writes") {
					must(t, write(ks, rng, 12))
					must(t, write(other, rng, 12))
				}
			},
			"note": func(rt *rapid.T) {
				m, at := readAll(t, ks)
				pasts = append(pasts, past{at, m})
			},
			"watch": func(rt *rapid.T) {
				target := Target{Keyspace: ks}
				switch rapid.IntRange(0, 4).Draw(rt, "target") {
				case 0:
					target.Keys = [][]byte{number(3)}
				case 1:
					target.Keys = [][]byte{number(9), number(3), number(9), number(77)}
				case 2:
					target.Prefix = []byte("000")
				case 3:
					target.Start, target.End = number(2), number(11)
				}
				o := Options{Every: rapid.Bool().Draw(rt, "every"), Buffer: []int{0, 1, 3}[rapid.IntRange(0, 2).Draw(rt, "buffer")]}
				m, at := readAll(t, ks)
				p := past{"", m}
				if rapid.Bool().Draw(rt, "at") {
					p.at = at
				}
				if len(pasts) > 0 && rapid.Bool().Draw(rt, "past") {
					p = pasts[rapid.IntRange(0, len(pasts)-1).Draw(rt, "which")]
				}
				watching = append(watching, begin(p, target, o))
			},
			"hear": func(rt *rapid.T) {
				if len(watching) == 0 {
					rt.Skip()
				}
				s := watching[rapid.IntRange(0, len(watching)-1).Draw(rt, "who")]
				for range rapid.IntRange(1, 5).Draw(rt, "events") {
					c, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
					e, err := s.w.Next(c)
					if cancel(); err != nil {
						refused(t, "next", err, context.DeadlineExceeded)
						return
					}
					hear(s, e)
				}
			},
			"leave and come back": func(rt *rapid.T) {
				if len(watching) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(watching)-1).Draw(rt, "who")
				s := watching[i]
				at := s.w.Cursor()
				s.w.Close()
				watching[i] = begin(past{at, s.copy}, s.target, s.opts)
			},
		})
		now, _ := readAll(t, ks)
		for _, s := range watching {
			drain(t, s.w, h.db.Now(), func(e Event) { hear(s, e) })
			if d := s.copy.differs(now.within(&s.target)); d != "" {
				rt.Fatalf("a watcher of %+v with %+v has %s", s.target, s.opts, d)
			}
		}
	})
}
