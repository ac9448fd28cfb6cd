package group

import (
	"context"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/rowcache"
	"github.com/cleavekv/cleave/partition"
)

// CachedState is a State that knows some rows without reading the disk.
type CachedState interface {
	// Lookup appends the value of a key to dst, if it is known.
	Lookup(key, dst []byte) (value []byte, found, known bool)
	// LookupView is Lookup, but a large value may be a view of memory that never changes.
	LookupView(key, dst []byte) (value []byte, found, known bool)
	// PrefetchIndex begins to fetch what is known of a key from memory, and PrefetchRow goes on with it.
	PrefetchIndex(key []byte) (hint uint64)
	PrefetchRow(hint uint64)
	// LookupSize reports whether a Lookup would know a key, and how long its value is. Prefetch lets it
	// know some.
	LookupSize(key []byte) (size int, known bool)
	Prefetch(keys ...[]byte)
	// GetMany is Get for several keys, in any order, until the visitor wants no more. A value is
	// the visitor's until it returns. IsCurrent reports whether it is still the newest, or may
	// return false. A non-blocking one ends when it has waited for a disk.
	GetMany(keys [][]byte, nonBlocking bool, visit func(i int, value []byte, ok bool, t rowcache.Ticket) (more bool)) error
	IsCurrent(t rowcache.Ticket) bool
	// ScanNonBlocking is Scan, but ends when it has waited for a disk: then fast is false.
	ScanNonBlocking(start, end []byte, reverse bool, visit func(key, value []byte) bool) (fast bool, err error)
	// Sequence counts publications: it is odd while one is under way. A reader that finds the
	// same even number before and after several Gets has read one moment.
	Sequence() uint64
}

// RowKey is what a row is looked up by: what [AppendRowKeyPrefix] appends, and the position.
type RowKey []byte

// AppendRowKeyPrefix appends what comes before the position.
func AppendRowKeyPrefix(dst []byte) []byte { return effect.Rows.AppendKey(dst, nil) }

// Position is where the row is.
func (k RowKey) Position() partition.Position { return partition.Position(k[1:]) }

// Lookup is a prepared read of a row: a caller that reads several rows prepares all of them
// before the first, and waits for memory once.
type Lookup struct {
	group *Group
	key   RowKey
	hint  uint64
}

// canceledCtx is the context of callers that do not wait.
var canceledCtx = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// NewLookup prepares a read of a row. The key belongs to the lookup until it is done.
func (g *Group) NewLookup(key RowKey) Lookup {
	if g.cached == nil {
		return Lookup{group: g, key: key}
	}
	return Lookup{group: g, key: key, hint: g.cached.PrefetchIndex(key)}
}

// PrefetchRow goes on with preparing.
func (l *Lookup) PrefetchRow() {
	if l.group.cached != nil {
		l.group.cached.PrefetchRow(l.hint)
	}
}

// prefetchRows begins to fetch the rows of calls, ahead at most, from memory: executed one after the
// other, each would wait for its own.
func (x *executor) prefetchRows(calls []*call) {
	if x.cached == nil {
		return
	}
	blind := !x.reader.mixed.Load()
	var hints [prefetchAhead]uint64
	n := 0
	for _, c := range calls {
		if _, set := c.Command.(*command.Set); set && blind || len(c.Key) == 0 {
			continue // it does not look
		}
		x.scratch = effect.Rows.AppendKey(x.scratch[:0], c.Key)
		hints[n] = x.cached.PrefetchIndex(x.scratch)
		n++
	}
	for _, h := range hints[:n] {
		x.cached.PrefetchRow(h)
	}
}

// Get is Read for callers that must not wait: it returns the row of a key if that is known in
// memory, and no lock or handover is in the way. Otherwise known is false: use Read. The value
// that the row is a part of is appended to dst, and returned too.
func (l *Lookup) Get(dst []byte) (row command.Row, value []byte, found, known bool) {
	g := l.group
	if g.cached == nil || g.closed.Load() || g.log.ReadBarrier(canceledCtx) != nil {
		return row, dst, false, false
	}
	p := l.key.Position()
	list := g.published.table.Load()
	if !list.CanRead(p) || g.published.findWriteLock(p) != nil {
		return row, dst, false, false
	}
	row, value, found, known = g.lookupRow(l.key, dst)
	if found && row.ExpiryMS != 0 {
		// The clock is read before the row whose expiry it decides: see readRow.
		now, latest := g.NowMS(), g.clock.latestMS()
		judge := g.published.expiryCheckMS(p, now)
		if row, value, found, known = g.lookupRow(l.key, value[:len(dst)]); found && !row.IsAlive(now) {
			known = known && !row.IsAlive(judge) // else it takes its turn: see readRowInTurn
			row, found = command.Row{}, false
		} else if found && !row.IsAlive(latest) {
			known = false // time has to be reserved first
		}
	}
	return row, value, found, known && g.isTableCurrent(list)
}

// LookupSize reports whether the row of a key is known in memory: a command on it does not wait
// for the disk to find it.
func (g *Group) LookupSize(key RowKey) (size int, known bool) {
	if g.cached == nil {
		return 0, true
	}
	return g.cached.LookupSize(key)
}

// RowBuffer is a list of rows that are read together, and what was found out about them. Their groups share
// a state. It keeps its memory: reset it and use it again.
type RowBuffer struct {
	// Rows are those that Read has read, in the order in which they were added.
	Rows []ReadRow

	keys   [][]byte
	checks []rowCheck // of the keys
	views  []groupView
	values []byte
}

// groupView is what reads of a group are judged by.
type groupView struct {
	group           *Group
	table           *ownership.Table // nil if nothing of the group can be read
	nowMS, latestMS int64
}

// rowCheck is what is known of a row before it is read.
type rowCheck struct {
	view          int  // of its group
	readable      bool // nothing is in the way of a read
	expiryCheckMS int64
}

// Add appends a row of a group. The key belongs to the buffer until it is reset.
func (r *RowBuffer) Add(g *Group, key RowKey) {
	r.keys, r.checks = append(r.keys, key), append(r.checks, rowCheck{view: r.viewOf(g)})
}

// viewOf is the index of the view of a group.
func (r *RowBuffer) viewOf(g *Group) int {
	for i := range r.views {
		if r.views[i].group == g {
			return i
		}
	}
	r.views = append(r.views, groupView{group: g})
	return len(r.views) - 1
}

// Reset empties the buffer: what was read is gone.
func (r *RowBuffer) Reset() {
	clear(r.Rows)
	clear(r.keys)
	clear(r.views)
	r.Rows, r.keys, r.checks, r.views = r.Rows[:0], r.keys[:0], r.checks[:0], r.views[:0]
	if r.values = r.values[:0]; cap(r.values) > maxKeptValueBytes {
		r.values = nil
	}
}

// ReadRow is what a RowBuffer has found out about a row.
type ReadRow struct {
	Row command.Row
	// Found reports whether there is one, and Known whether that is known.
	Found, Known bool

	group    *Group
	position partition.Position
	table    *ownership.Table
	ticket   rowcache.Ticket
}

// IsCurrent reports whether the row is now as it was read. If those of several are, asked one after
// the other, none is older than the one before it. It may return false though it is so.
func (r *ReadRow) IsCurrent() bool {
	g := r.group
	if r.Found && r.Row.ExpiryMS != 0 {
		if !r.Row.IsAlive(g.clock.latestMS()) {
			return false // nothing is published when a row expires
		}
	}
	return r.Known && g.published.findWriteLock(r.position) == nil && g.cached.IsCurrent(r.ticket) && g.isTableCurrent(r.table)
}

// Read is [Group.Read] of all rows, which the disk is asked for together, in any order: see
// [ReadRow.IsCurrent]. What is not as simple as most rows, for a transaction or a group that has to
// reserve time first, stays unknown: use Group.Read. So do those behind the end of ctx or of the room
// for values, and all after an error. A caller that must not wait for a disk does so once at most, and
// then not again for a while: what comes behind that stays unknown.
func (r *RowBuffer) Read(ctx context.Context, nonBlocking bool) {
	clear(r.Rows)
	r.Rows = slices.Grow(r.Rows[:0], len(r.keys))[:len(r.keys)]
	r.values = slices.Grow(r.values[:0], 128*len(r.keys)) // enough for most
	state := r.beginViews()
	if state == nil {
		return
	}
	for i, k := range r.keys { // before the rows are read
		c, p := &r.checks[i], RowKey(k).Position()
		v := &r.views[c.view]
		if c.readable = v.table != nil && v.table.CanRead(p) && v.group.published.findWriteLock(p) == nil; c.readable {
			c.expiryCheckMS = v.group.published.expiryCheckMS(p, v.nowMS)
		}
	}
	most := maxValueBytes
	if nonBlocking {
		most = maxNonBlockingValueBytes
	}
	err := state.GetMany(r.keys, nonBlocking, func(i int, value []byte, ok bool, t rowcache.Ticket) bool {
		start := len(r.values)
		if ctx.Err() != nil || start > 0 && start+len(value) > most {
			return false
		}
		r.recordRow(i, value, ok, t)
		return true
	})
	if err != nil {
		clear(r.Rows)
		return
	}
	for i := range r.Rows {
		if v := &r.views[r.checks[i].view]; v.table != nil && !v.group.isTableCurrent(v.table) {
			r.Rows[i] = ReadRow{}
		}
	}
}

// beginViews looks at the groups, and returns their state, nil if nothing can be read. The clock is read before the
// rows whose expiry it decides: see readRow.
func (r *RowBuffer) beginViews() (state CachedState) {
	for i := range r.views {
		g := r.views[i].group
		r.views[i] = groupView{group: g}
		if g.cached == nil || g.closed.Load() || g.log.ReadBarrier(canceledCtx) != nil {
			continue
		}
		state = g.cached
		table := g.published.table.Load()
		r.views[i] = groupView{g, table, g.NowMS(), g.clock.latestMS()}
	}
	return state
}

// recordRow notes what was read of a row.
func (r *RowBuffer) recordRow(i int, value []byte, ok bool, t rowcache.Ticket) {
	read, c := &r.Rows[i], &r.checks[i]
	v := &r.views[c.view]
	*read = ReadRow{Known: c.readable, group: v.group, position: RowKey(r.keys[i]).Position(), table: v.table, ticket: t}
	if !ok || !read.Known {
		return
	}
	start := len(r.values)
	r.values = append(r.values, value...)
	row, err := command.DecodeRow(r.values[start:len(r.values):len(r.values)])
	read.Known = err == nil && row.Kind != command.Chunked && (row.IsAlive(v.latestMS) || !row.IsAlive(v.nowMS)) // else time has to be reserved first
	switch {
	case !read.Known:
	case row.IsAlive(v.nowMS):
		read.Row, read.Found = row, true
	default: // what only a lock keeps alive takes its turn: see readRowInTurn
		read.Known = !row.IsAlive(c.expiryCheckMS)
	}
}

// CanSetBlindly reports whether a plain Set is executed without reading the row that it replaces.
func (g *Group) CanSetBlindly() bool { return !g.reader.mixed.Load() }

// isTableCurrent reports whether the table is the one that a reader has begun with: a range that
// was given away meanwhile may have been changed by its new owner.
func (g *Group) isTableCurrent(list *ownership.Table) bool { return g.published.table.Load() == list }

// lookupRow returns a row, dead or alive, if it is known.
func (g *Group) lookupRow(key RowKey, dst []byte) (row command.Row, value []byte, found, known bool) {
	value, found, known = g.cached.Lookup(key, dst)
	if !found || !known {
		return row, value, false, known
	}
	row, err := command.DecodeRow(value[len(dst):])
	known = err == nil && row.Kind != command.Chunked // the chunks are not of this look
	return row, value, known, known
}
