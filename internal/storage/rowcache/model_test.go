package rowcache

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is the world around a small table: the log's publications and the state
// behind it. A nil value is an absent key.
type model struct {
	*rapid.T
	table   *Cache
	options Options

	newest     map[string][]byte // what a reader must see
	generation map[string]uint64 // of the key's last publication
	state      map[string][]byte // what has been applied
	gen        uint64            // of the publications now
	applied    uint64
	unapplied  []publication
	fills      []pendingFill
	pinned     map[string]bool
	serial     int

	startsComplete, dropped bool

	preload     *Preload
	toPreload   []string // keys that it has still to read
	preloadFill pendingFill
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

func (m *model) drawKey() string {
	n := rapid.IntRange(0, 250).Draw(m.T, "key")
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%0*d", 1+n%30, n)
}

// drawValue draws sizes for the same block, for blocks of their own and for rows
// that exceed what a stripe may cache.
func (m *model) drawValue() []byte {
	m.serial++
	size := rapid.SampledFrom([]int{0, 1, 17, 100, 101, 300, 400, 450, 450, 450, 700, 3000, 20000}).Draw(m.T, "size")
	return bytes.Repeat([]byte{byte(m.serial)}, size)
}

func (m *model) publishRow() {
	if rapid.IntRange(0, 9).Draw(m.T, "next generation") == 0 {
		m.gen++
	}
	k, v := m.drawKey(), m.drawValue()
	deleted := rapid.IntRange(0, 4).Draw(m.T, "deleted") == 0
	before := m.table.Metrics().Outgrown
	m.table.Publish(m.gen, []byte(k), v, deleted)
	if m.table.Metrics().Outgrown > before {
		if !m.pinned[k] {
			m.Fatalf("Publish(%q) of %d bytes let go of what was not held", k, len(v))
		}
		delete(m.pinned, k)
	}
	if deleted {
		v = nil
	}
	m.newest[k], m.generation[k] = v, m.gen
	m.unapplied = append(m.unapplied, publication{m.gen, k, v})
}

func (m *model) applyRows() {
	m.applied = rapid.Uint64Range(m.applied, m.gen).Draw(m.T, "applied")
	for len(m.unapplied) > 0 && m.unapplied[0].gen <= m.applied {
		m.state[m.unapplied[0].key] = m.unapplied[0].value
		m.unapplied = m.unapplied[1:]
	}
	m.table.SetApplied(m.applied)
	m.gen = max(m.gen, m.applied+1) // what comes is in the state later
}

// publishMany publishes and applies as much as the table holds, so that most of
// what was known before is evicted while readers are between their steps.
func (m *model) publishMany() {
	for range 100 {
		m.publishRow()
	}
	m.applyRows()
}

// checkGet reads a key and checks the answer against the newest value.
func (m *model) checkGet(k string) (State, []byte) {
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
		if m.pinned[k] {
			m.Fatalf("Get(%q) is unknown but held", k)
		}
		if m.mustBeComplete() {
			m.Fatalf("Get(%q) is unknown, but nothing went from a table that was whole", k)
		}
	}
	return state, v
}

// mustBeComplete reports whether the table has to know everything.
func (m *model) mustBeComplete() bool {
	return m.startsComplete && !m.dropped && m.table.Metrics().Evictions == 0
}

func (m *model) startFill() {
	k := m.drawKey()
	m.fills = append(m.fills, pendingFill{ticket: m.table.NewTicket([]byte(k)), key: k})
}

// continueFill lets one reader take its next step.
func (m *model) continueFill() {
	if len(m.fills) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.fills)-1).Draw(m.T, "reader")
	f := &m.fills[i]
	if !f.read {
		f.value, f.read = m.state[f.key], true
		return
	}
	before, _ := m.checkGet(f.key)
	count := m.table.Metrics().Rows
	filled := m.table.Fill(f.ticket, []byte(f.key), f.value, f.value != nil)
	after, _ := m.checkGet(f.key)
	if filled && before != Unknown && (before != Absent || f.value != nil) { // a whole table has no row for what it knows to be absent
		m.Fatalf("Fill(%q) replaced what was known", f.key)
	}
	less := before == Absent && after == Unknown // what was driven out may have been whole
	if !filled && (before != after && !less || m.table.Metrics().Rows > count) {
		m.Fatalf("a refused Fill(%q) changed %v to %v", f.key, before, after)
	}
	m.fills = append(m.fills[:i], m.fills[i+1:]...)
}

// stepPreload begins to gather, or takes the next step: a ticket, a read, a fill. At the end the
// table may be whole.
func (m *model) stepPreload() {
	switch f := &m.preloadFill; {
	case m.preload == nil:
		m.preload = m.table.BeginPreload()
		for k, v := range m.state {
			if v != nil {
				m.toPreload = append(m.toPreload, k)
			}
		}
		slices.Sort(m.toPreload)
	case len(m.toPreload) == 0:
		m.preload.End()
		m.preload = nil
		m.checkCache()
	case !f.read:
		for ; !f.read && len(m.toPreload) > 0; m.toPreload = m.toPreload[:len(m.toPreload)-1] { // most steps of a run would go by
			k := m.toPreload[len(m.toPreload)-1]
			*f = pendingFill{ticket: m.table.NewTicket([]byte(k)), key: k}
			f.value, f.read = m.state[k], true
			if rapid.IntRange(0, 20).Draw(m.T, "pause") > 0 {
				m.fillPreloaded()
			}
		}
	default:
		m.fillPreloaded()
	}
}

func (m *model) fillPreloaded() {
	f := &m.preloadFill
	if f.value != nil && m.preload.Fill(f.ticket, []byte(f.key), f.value) == Superseded {
		m.preload.MarkIncomplete([]byte(f.key))
	}
	f.read = false
	m.checkGet(f.key)
}

// pinRow holds a row, which it brings in if it is not known, as a store does.
func (m *model) pinRow() {
	k := m.drawKey()
	known, err := m.table.PinRow([]byte(k))
	if !known {
		known, err = m.table.FillPinned(m.table.NewTicket([]byte(k)), []byte(k), m.state[k], m.state[k] != nil)
	}
	switch {
	case err == nil && known:
		m.pinned[k] = true
	case m.pinned[k]:
		m.Fatalf("Hold(%q) is refused, but it is held: %v", k, err)
	case !errors.Is(err, ErrNoRoom):
		m.Fatalf("Hold(%q): %v", k, err)
	case len(m.newest[k]) < 10_000 && m.table.Metrics().PinnedBytes < int64(minStripeBytes/maxPinnedDivisor-4000):
		m.Fatalf("Hold(%q) of %d bytes: %v, but %d bytes are held", k, len(m.newest[k]), err, m.table.Metrics().PinnedBytes)
	}
}

func (m *model) unpinRow() {
	k := m.drawKey()
	m.table.UnpinRow([]byte(k))
	delete(m.pinned, k)
}

func (m *model) dropRange() {
	start, end := []byte(m.drawKey()), []byte(m.drawKey())
	if rapid.Bool().Draw(m.T, "no end") {
		end = nil
	}
	m.table.DropRange(start, end)
	m.dropped = true
	for k := range m.pinned {
		if k >= string(start) && (end == nil || k < string(end)) && m.generation[k] <= m.applied {
			delete(m.pinned, k) // it goes too
		}
	}
	for k := range m.newest {
		inside := k >= string(start) && (end == nil || k < string(end))
		if state, _ := m.checkGet(k); inside && state != Unknown && m.generation[k] <= m.applied {
			m.Fatalf("Drop(%q, %q) left %q", start, end, k)
		}
	}
}

// trimAndCheck also checks the memory: within Bytes and what is pinned, and the slack.
func (m *model) trimAndCheck() {
	m.table.Trim()
	checkMemory(m.T, m.table, m.options)
}

func checkMemory(t interface{ Fatalf(string, ...any) }, table *Cache, o Options) {
	got := table.Metrics()
	o = o.withDefaults()
	if got.PinnedBytes > o.Bytes/maxPinnedDivisor {
		t.Fatalf("%d bytes are held, more than half of %d", got.PinnedBytes, o.Bytes)
	}
	slack := got.UnappliedBytes/2 + 2*int64(o.Stripes*chooseBlockBytes(int(o.Bytes)/o.Stripes))
	if got.Bytes > o.Bytes+got.UnappliedBytes+slack {
		t.Fatalf("%d bytes in use, more than %d + %d pinned + %d slack", got.Bytes, o.Bytes, got.UnappliedBytes, slack)
	}
}

// stepNames names steps as often as they should come up. Drop is rare: it empties
// what the other steps need.
var stepNames = slices.Concat(
	slices.Repeat([]string{"publish"}, 12), slices.Repeat([]string{"get"}, 6), slices.Repeat([]string{"apply"}, 3),
	slices.Repeat([]string{"hold"}, 4), slices.Repeat([]string{"release"}, 2),
	slices.Repeat([]string{"ticket"}, 6), slices.Repeat([]string{"fill"}, 8), slices.Repeat([]string{"trim"}, 2), slices.Repeat([]string{"gather"}, 4), []string{"drop", "churn"},
)

func TestPinnedRowsAreNeverLostAndNoRowIsEverStale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stripes := rapid.SampledFrom([]int{1, 1, 2, 8}).Draw(t, "stripes")
		m := &model{
			T: t, options: Options{Bytes: int64(stripes) * minStripeBytes, Stripes: stripes, ClassOf: classByLength}, gen: 1,
			newest: map[string][]byte{}, generation: map[string]uint64{}, state: map[string][]byte{}, pinned: map[string]bool{},
		}
		m.table = New(m.options)
		if m.startsComplete = rapid.Bool().Draw(t, "whole"); m.startsComplete {
			m.table.MarkComplete()
		}
		steps := map[string]func(){
			"publish": m.publishRow, "apply": m.applyRows, "get": func() { m.checkGet(m.drawKey()) },
			"ticket": m.startFill, "fill": m.continueFill, "hold": m.pinRow, "release": m.unpinRow, "trim": m.trimAndCheck, "drop": m.dropRange, "churn": m.publishMany, "gather": m.stepPreload,
		}
		for i := range rapid.IntRange(1, 400).Draw(t, "steps") {
			steps[rapid.SampledFrom(stepNames).Draw(t, "step")]()
			if i%100 == 99 {
				m.checkCache()
			}
		}
		m.checkCache()
		m.applyRows()
		m.trimAndCheck()
	})
}

// classByLength makes a few classes.
func classByLength(key []byte) uint32 { return uint32(len(key) % 7) }

// checkCache reads every key and verifies the table's own books.
func (m *model) checkCache() {
	for k := range m.newest {
		m.checkGet(k)
	}
	if n := m.table.Metrics().PinnedRows; n != len(m.pinned) {
		m.Fatalf("%d rows are held, want %d", n, len(m.pinned))
	}
	for i := range m.table.stripes {
		if err := m.table.stripes[i].auditStripe(); err != nil {
			m.Fatalf("stripe %d: %v", i, err)
		}
	}
}

// auditStripe compares a stripe's counters, lists and index with what lies in its
// blocks: the invariants of DESIGN.md.
func (s *stripe) auditStripe() error {
	live, pinned, total := 0, 0, len(s.blocks.spare)
	classes := map[uint32]*ClassMetrics{}
	sawHead := s.blocks.head == 0
	previous := uint32(0)
	for n := s.blocks.entries[0].newer; n != 0; n = s.blocks.entries[n].newer {
		b := &s.blocks.entries[n]
		if b.older != previous {
			return fmt.Errorf("block %d: older is %d, want %d", n, b.older, previous)
		}
		previous, sawHead = n, sawHead || n == s.blocks.head
		total += len(b.data)
		rows, held, weights, err := s.auditBlock(n, classes)
		if err != nil {
			return err
		}
		if held != b.liveBytes {
			return fmt.Errorf("block %d: %d bytes live, counted %d", n, held, b.liveBytes)
		}
		live += rows
		pinned += weights
	}
	switch {
	case !sawHead:
		return fmt.Errorf("head %d is not in the list", s.blocks.head)
	case total != s.blocks.totalBytes:
		return fmt.Errorf("%d bytes of blocks, counted %d", total, s.blocks.totalBytes)
	case live != s.index.count:
		return fmt.Errorf("%d rows in blocks, %d in the index", live, s.index.count)
	case pinned != s.unapplied.totalBytes:
		return fmt.Errorf("%d bytes pinned, counted %d", pinned, s.unapplied.totalBytes)
	}
	return s.auditCounts(classes)
}

// auditCounts compares what is counted by class, and held, with what there is.
func (s *stripe) auditCounts(classes map[uint32]*ClassMetrics) error {
	held := 0
	for class := range uint32(len(s.counts.dense)) {
		got, want := s.counts.dense[class], classes[class]
		if want == nil {
			want = new(ClassMetrics)
		}
		if got.Rows != want.Rows || got.RowBytes != want.RowBytes || got.PinnedRows != want.PinnedRows || got.PinnedBytes != want.PinnedBytes {
			return fmt.Errorf("class %d: %+v, counted %+v", class, got, *want)
		}
		held += int(got.PinnedBytes)
	}
	if held != s.pinnedBytes {
		return fmt.Errorf("%d bytes are held, counted %d", s.pinnedBytes, held)
	}
	return nil
}

func (s *stripe) auditBlock(n uint32, classes map[uint32]*ClassMetrics) (rows, live, pinned int, err error) {
	b := &s.blocks.entries[n]
	at := 0
	for at < b.usedBytes {
		r := row(b.data[at:])
		if !r.hasFlag(flagDead) {
			rows++
			class := s.cache.classOf(r.key())
			if classes[class] == nil {
				classes[class] = new(ClassMetrics)
			}
			c := classes[class]
			if c.addRow(r.sizeBytes()); r.hasFlag(flagPinned) {
				c.PinnedRows, c.PinnedBytes = c.PinnedRows+1, c.PinnedBytes+int64(weightOfRow(r.sizeBytes()))
			}
			live += r.sizeBytes()
			if r.generation() > s.unapplied.appliedGen {
				pinned += weightOfRow(r.sizeBytes())
			}
			hash := maphash.Bytes(s.cache.seed, r.key())
			if _, place, _ := s.find(hash, r.key()); place != s.blocks.placeOf(n, at) {
				return 0, 0, 0, fmt.Errorf("row %q at %d.%d: the index says %#x", r.key(), n, at, place)
			}
		}
		at += r.sizeBytes()
	}
	if at != b.usedBytes {
		return 0, 0, 0, fmt.Errorf("block %d: rows end at %d, not %d", n, at, b.usedBytes)
	}
	return rows, live, pinned, nil
}
