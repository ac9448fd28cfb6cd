package command

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
	"pgregory.net/rapid"
)

// hinting is a Reader that may know which keys are plain, and says so now and
// then.
type hinting struct {
	*sorted
	count int
}

func (h *hinting) Plain(key []byte) bool {
	h.count++
	value, ok := h.rows[string(key)]
	if !ok {
		return h.count%2 == 0
	}
	row, err := DecodeRow([]byte(value))
	return err == nil && row.Kind == String && row.ExpiryMS == 0 && h.count%2 == 0
}

// run is one life of a store beside its model.
type run struct {
	t     *rapid.T
	store *sorted
	env   *Env
	model *model
	seq   uint64
}

func TestCommandsMeanWhatTheModelSays(t *testing.T) {
	rounds := 12 // of 100 lives each: the rarest bug seen here took 400
	switch {
	case os.Getenv("CLEAVE_SOAK") != "":
		rounds = 500
	case testing.Short():
		rounds = 2
	}
	for range rounds {
		rapid.Check(t, live)
		if t.Failed() {
			return
		}
	}
}

// live runs batches of commands, then sweeps up.
func live(t *rapid.T) {
	r := &run{t: t, store: newSorted(), model: newModel()}
	if rapid.Bool().Draw(t, "hints") {
		r.env = NewEnv(&hinting{sorted: r.store})
	} else {
		r.env = NewEnv(r.store)
	}
	for range rapid.IntRange(1, 20).Draw(t, "batches") {
		r.batch(rapid.IntRange(0, 10).Draw(t, "size"))
	}
	r.sweepAll()
}

// batch evaluates commands, compares each reply at once and all of them again
// at the end of the batch, then commits and compares the state.
func (r *run) batch(size int) {
	r.seq++
	r.model.now += rapid.Int64Range(0, 30).Draw(r.t, "ms")
	r.env.Begin(effect.Header{Seq: r.seq, ClockMS: r.model.now}, r.model.next)
	var got []Reply
	var want []string
	for range size {
		c := r.draw(1)
		before, version := r.env.Effects().Len(), r.env.NextVersion()
		expected, reply := r.model.do(c), r.env.Do(c)
		if _, ok := c.(*Sweep); ok {
			expected.Int, expected.More = reply.Int, reply.More // the model has no orphans
		}
		if show(reply) != show(expected) {
			r.t.Fatalf("%s:\ngot  %s\nwant %s", describe(c), show(reply), show(expected))
		}
		if reply.Err != nil && (r.env.Effects().Len() != before || r.env.NextVersion() != version) {
			r.t.Fatalf("%s failed and left something", describe(c))
		}
		got, want = append(got, reply), append(want, show(expected))
	}
	for i := range got {
		if show(got[i]) != want[i] {
			r.t.Fatalf("reply %d of the batch is now %s, was %s", i, show(got[i]), want[i])
		}
	}
	if r.env.NextVersion() != r.model.next {
		r.t.Fatalf("next version %d, want %d", r.env.NextVersion(), r.model.next)
	}
	r.store.apply(r.t, r.env.Effects().Bytes())
	r.compare()
}

// compare checks every row of the store against the model, and the invariants
// of the other tables.
func (r *run) compare() {
	rows, expiries, notes := r.store.table(effect.Rows), map[string]string{}, r.store.table(effect.Orphans)
	elements, generations := map[string]string{}, map[string]uint64{}
	keys := map[string]value{}
	for position, raw := range rows {
		row, err := DecodeRow([]byte(raw))
		if err != nil {
			r.t.Fatal(err)
		}
		if row.Kind == Element {
			elements[position] = raw
			continue
		}
		v := value{text: string(row.Payload), expiry: row.ExpiryMS, version: row.Version}
		if row.Kind == Hash {
			v.fields, generations[position] = map[string]string{}, row.Generation
		}
		if row.ExpiryMS != 0 {
			expiries[position] = string(fmt.Appendf(nil, "%d", row.ExpiryMS))
		}
		keys[position] = v
	}
	for position, raw := range elements {
		row, _ := DecodeRow([]byte(raw))
		key, element, err := space.Split(nil, partition.Position(position))
		if err != nil || len(element) == 0 || element[0] != elementTag {
			r.t.Fatalf("element at %q: %v", position, err)
		}
		owner := at(string(key))
		if generations[string(owner)] == row.Version {
			keys[string(owner)].fields[string(element[1:])] = string(row.Payload)
		} else if note, ok := notes[string(owner)]; !ok || string(element) <= note {
			r.t.Fatalf("the element %q is left behind and nobody will sweep it", position)
		}
	}
	if got, want := fmt.Sprint(keys), fmt.Sprint(r.model.keys); got != want {
		r.t.Fatalf("the store has\n%s\nwant\n%s", got, want)
	}
	for position, raw := range r.store.table(effect.Expiry) {
		ms, err := DecodeExpiry([]byte(raw))
		if err != nil || expiries[position] != fmt.Sprint(ms) {
			r.t.Fatalf("the expiry of %q is %d, the row's %s (%v)", position, ms, expiries[position], err)
		}
		delete(expiries, position)
	}
	if len(expiries) != 0 {
		r.t.Fatalf("the table of expiries lacks %v", expiries)
	}
}

// sweepAll removes all that was left behind, a little at a time.
func (r *run) sweepAll() {
	for notes := r.store.table(effect.Orphans); len(notes) > 0; notes = r.store.table(effect.Orphans) {
		r.seq++
		r.env.Begin(effect.Header{Seq: r.seq, ClockMS: r.model.now}, r.model.next)
		for _, position := range slices.Sorted(maps.Keys(notes)) {
			if reply := r.env.Do(&Sweep{Key: partition.Position(position), Limit: 2}); reply.Err != nil {
				r.t.Fatal(reply.Err)
			}
		}
		r.store.apply(r.t, r.env.Effects().Bytes())
	}
	r.compare() // without notes, so every element has its owner now
}

// show is a reply as text: what a caller can tell apart.
func show(r Reply) string {
	if r.Err != nil {
		for _, err := range []error{ErrWrongType, ErrNotInteger, ErrNotFloat, ErrOverflow, ErrConflict} {
			if errors.Is(r.Err, err) {
				return err.Error()
			}
		}
		return "unexpected: " + r.Err.Error()
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d %d %q more=%v version=%d", r.Kind, r.Int, r.Bytes, r.More, r.Version)
	for _, i := range r.Items {
		fmt.Fprintf(&b, " [%q=%q %v %v %d]", i.Field, i.Value, i.Found, i.Kind, i.Version)
	}
	return b.String()
}

func describe(c Command) string {
	switch c := c.(type) {
	case *Batch:
		s := "batch"
		for _, sub := range c.Commands {
			s += " / " + describe(sub)
		}
		return s
	case *Commit:
		return fmt.Sprintf("commit %v %v %s", c.Reads, c.Ranges, describe(&c.Writes))
	}
	return fmt.Sprintf("%T %+v", c, c)
}
