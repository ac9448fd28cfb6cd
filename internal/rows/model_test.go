package rows

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is the world around a small table: the log's publications and the state
// behind it. A nil value is an absent key.
type model struct {
	*rapid.T
	table   *Table
	options Options

	newest     map[string][]byte // what a reader must see
	generation map[string]uint64 // of the key's last publication
	state      map[string][]byte // what has been applied
	gen        uint64            // of the publications now
	applied    uint64
	unapplied  []publication
	fills      []pendingFill
	held       map[string]bool
	serial     int

	wholeAtFirst, dropped bool

	gathering *Gathering
	toGather  []string // keys that it has still to read
	gathered  pendingFill
}

type publication struct {
	gen   uint64
	key   string
	value []byte
}

// pendingFill is a reader between its steps: it has its ticket, then it has
// read the state, then it fills in.
type pendingFill struct {
	ticket Ticket
	key    string
	value  []byte
	read   bool
}

func (m *model) key() string {
	n := rapid.IntRange(0, 250).Draw(m.T, "key")
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%0*d", 1+n%30, n)
}

// value draws sizes for the same block, for blocks of their own and for rows
// that exceed what a stripe may cache.
func (m *model) value() []byte {
	m.serial++
	size := rapid.SampledFrom([]int{0, 1, 17, 100, 101, 300, 400, 450, 450, 450, 700, 3000, 20000}).Draw(m.T, "size")
	return bytes.Repeat([]byte{byte(m.serial)}, size)
}

func (m *model) publish() {
	if rapid.IntRange(0, 9).Draw(m.T, "next generation") == 0 {
		m.gen++
	}
	k, v := m.key(), m.value()
	deleted := rapid.IntRange(0, 4).Draw(m.T, "deleted") == 0
	before := m.table.Metrics().Outgrown
	m.table.Publish(m.gen, []byte(k), v, deleted)
	if m.table.Metrics().Outgrown > before {
		if !m.held[k] {
			m.Fatalf("Publish(%q) of %d bytes let go of what was not held", k, len(v))
		}
		delete(m.held, k)
	}
	if deleted {
		v = nil
	}
	m.newest[k], m.generation[k] = v, m.gen
	m.unapplied = append(m.unapplied, publication{m.gen, k, v})
}

func (m *model) apply() {
	m.applied = rapid.Uint64Range(m.applied, m.gen).Draw(m.T, "applied")
	for len(m.unapplied) > 0 && m.unapplied[0].gen <= m.applied {
		m.state[m.unapplied[0].key] = m.unapplied[0].value
		m.unapplied = m.unapplied[1:]
	}
	m.table.Applied(m.applied)
	m.gen = max(m.gen, m.applied+1) // what comes is in the state later
}

// churn publishes and applies as much as the table holds, so that most of
// what was known before is evicted while readers are between their steps.
func (m *model) churn() {
	for range 100 {
		m.publish()
	}
	m.apply()
}

// get reads a key and checks the answer against the newest value.
func (m *model) get(k string) (State, []byte) {
	prefix := []byte("before ")
	out, state := m.table.Get([]byte(k), prefix[:len(prefix):len(prefix)])
	if !bytes.HasPrefix(out, prefix) {
		m.Fatalf("Get(%q) lost what dst held", k)
	}
	v, want := out[len(prefix):], m.newest[k]
	switch state {
	case Present:
		if want == nil || !bytes.Equal(v, want) {
			m.Fatalf("Get(%q) is stale: %d bytes of %.1q, want %d of %.1q", k, len(v), v, len(want), want)
		}
	case Absent:
		if want != nil || len(v) > 0 {
			m.Fatalf("Get(%q) is stale: absent, want %d bytes", k, len(want))
		}
	case Unknown:
		if m.generation[k] > m.applied {
			m.Fatalf("Get(%q) is unknown but pinned by generation %d, applied %d", k, m.generation[k], m.applied)
		}
		if m.held[k] {
			m.Fatalf("Get(%q) is unknown but held", k)
		}
		if m.whole() {
			m.Fatalf("Get(%q) is unknown, but nothing went from a table that was whole", k)
		}
	}
	return state, v
}

// whole tells whether the table has to know everything.
func (m *model) whole() bool {
	return m.wholeAtFirst && !m.dropped && m.table.Metrics().Evictions == 0
}

func (m *model) startFill() {
	k := m.key()
	m.fills = append(m.fills, pendingFill{ticket: m.table.Ticket([]byte(k)), key: k})
}

// goOnFilling lets one reader take its next step.
func (m *model) goOnFilling() {
	if len(m.fills) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.fills)-1).Draw(m.T, "reader")
	f := &m.fills[i]
	if !f.read {
		f.value, f.read = m.state[f.key], true
		return
	}
	before, _ := m.get(f.key)
	count := m.table.Metrics().Rows
	filled := m.table.Fill(f.ticket, []byte(f.key), f.value, f.value != nil)
	after, _ := m.get(f.key)
	if filled && before != Unknown && (before != Absent || f.value != nil) { // a whole table has no row for what it knows to be absent
		m.Fatalf("Fill(%q) replaced what was known", f.key)
	}
	less := before == Absent && after == Unknown // what was driven out may have been whole
	if !filled && (before != after && !less || m.table.Metrics().Rows > count) {
		m.Fatalf("a refused Fill(%q) changed %v to %v", f.key, before, after)
	}
	m.fills = append(m.fills[:i], m.fills[i+1:]...)
}

// gather begins to gather, or takes the next step: a ticket, a read, a fill. At the end the
// table may be whole.
func (m *model) gather() {
	switch f := &m.gathered; {
	case m.gathering == nil:
		m.gathering = m.table.Gather()
		for k, v := range m.state {
			if v != nil {
				m.toGather = append(m.toGather, k)
			}
		}
		slices.Sort(m.toGather)
	case len(m.toGather) == 0:
		m.gathering.End()
		m.gathering = nil
		m.check()
	case !f.read:
		for ; !f.read && len(m.toGather) > 0; m.toGather = m.toGather[:len(m.toGather)-1] { // most steps of a run would go by
			k := m.toGather[len(m.toGather)-1]
			*f = pendingFill{ticket: m.table.Ticket([]byte(k)), key: k}
			f.value, f.read = m.state[k], true
			if rapid.IntRange(0, 20).Draw(m.T, "pause") > 0 {
				m.fillGathered()
			}
		}
	default:
		m.fillGathered()
	}
}

func (m *model) fillGathered() {
	f := &m.gathered
	if f.value != nil && m.gathering.Fill(f.ticket, []byte(f.key), f.value) == Overtaken {
		m.gathering.Miss([]byte(f.key))
	}
	f.read = false
	m.get(f.key)
}

// hold holds a row, which it brings in if it is not known, as a store does.
func (m *model) hold() {
	k := m.key()
	known, err := m.table.Hold([]byte(k))
	if !known {
		known, err = m.table.FillHeld(m.table.Ticket([]byte(k)), []byte(k), m.state[k], m.state[k] != nil)
	}
	switch {
	case err == nil && known:
		m.held[k] = true
	case m.held[k]:
		m.Fatalf("Hold(%q) is refused, but it is held: %v", k, err)
	case !errors.Is(err, ErrNoRoom):
		m.Fatalf("Hold(%q): %v", k, err)
	case len(m.newest[k]) < 10_000 && m.table.Metrics().HeldBytes < int64(leastShare/heldShare-4000):
		m.Fatalf("Hold(%q) of %d bytes: %v, but %d bytes are held", k, len(m.newest[k]), err, m.table.Metrics().HeldBytes)
	}
}

func (m *model) release() {
	k := m.key()
	m.table.Release([]byte(k))
	delete(m.held, k)
}

func (m *model) drop() {
	start, end := []byte(m.key()), []byte(m.key())
	if rapid.Bool().Draw(m.T, "no end") {
		end = nil
	}
	m.table.Drop(start, end)
	m.dropped = true
	for k := range m.held {
		if k >= string(start) && (end == nil || k < string(end)) && m.generation[k] <= m.applied {
			delete(m.held, k) // it goes too
		}
	}
	for k := range m.newest {
		inside := k >= string(start) && (end == nil || k < string(end))
		if state, _ := m.get(k); inside && state != Unknown && m.generation[k] <= m.applied {
			m.Fatalf("Drop(%q, %q) left %q", start, end, k)
		}
	}
}

// trim also checks the memory: within Bytes and what is pinned, and the slack.
func (m *model) trim() {
	m.table.Trim()
	checkMemory(m.T, m.table, m.options)
}

func checkMemory(t interface{ Fatalf(string, ...any) }, table *Table, o Options) {
	got := table.Metrics()
	o = o.withDefaults()
	if got.HeldBytes > o.Bytes/heldShare {
		t.Fatalf("%d bytes are held, more than half of %d", got.HeldBytes, o.Bytes)
	}
	slack := got.PinnedBytes/2 + 2*int64(o.Stripes*blockSize(int(o.Bytes)/o.Stripes))
	if got.Bytes > o.Bytes+got.PinnedBytes+slack {
		t.Fatalf("%d bytes in use, more than %d + %d pinned + %d slack", got.Bytes, o.Bytes, got.PinnedBytes, slack)
	}
}

// likely names steps as often as they should come up. Drop is rare: it empties
// what the other steps need.
var likely = slices.Concat(
	slices.Repeat([]string{"publish"}, 12), slices.Repeat([]string{"get"}, 6), slices.Repeat([]string{"apply"}, 3),
	slices.Repeat([]string{"hold"}, 4), slices.Repeat([]string{"release"}, 2),
	slices.Repeat([]string{"ticket"}, 6), slices.Repeat([]string{"fill"}, 8), slices.Repeat([]string{"trim"}, 2), slices.Repeat([]string{"gather"}, 4), []string{"drop", "churn"},
)

func TestPinnedRowsAreNeverLostAndNoRowIsEverStale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stripes := rapid.SampledFrom([]int{1, 1, 2, 8}).Draw(t, "stripes")
		m := &model{
			T: t, options: Options{Bytes: int64(stripes) * leastShare, Stripes: stripes, Class: byLength}, gen: 1,
			newest: map[string][]byte{}, generation: map[string]uint64{}, state: map[string][]byte{}, held: map[string]bool{},
		}
		m.table = New(m.options)
		if m.wholeAtFirst = rapid.Bool().Draw(t, "whole"); m.wholeAtFirst {
			m.table.Whole()
		}
		steps := map[string]func(){
			"publish": m.publish, "apply": m.apply, "get": func() { m.get(m.key()) },
			"ticket": m.startFill, "fill": m.goOnFilling, "hold": m.hold, "release": m.release, "trim": m.trim, "drop": m.drop, "churn": m.churn, "gather": m.gather,
		}
		for i := range rapid.IntRange(1, 400).Draw(t, "steps") {
			steps[rapid.SampledFrom(likely).Draw(t, "step")]()
			if i%100 == 99 {
				m.check()
			}
		}
		m.check()
		m.apply()
		m.trim()
	})
}

// byLength makes a few classes.
func byLength(key []byte) uint32 { return uint32(len(key) % 7) }

// check reads every key and verifies the table's own books.
func (m *model) check() {
	for k := range m.newest {
		m.get(k)
	}
	if n := m.table.Metrics().Held; n != len(m.held) {
		m.Fatalf("%d rows are held, want %d", n, len(m.held))
	}
	for i := range m.table.stripes {
		if err := m.table.stripes[i].audit(); err != nil {
			m.Fatalf("stripe %d: %v", i, err)
		}
	}
}
