package group

import (
	"context"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/rows"
	"github.com/cleavekv/cleave/partition"
)

// Looker is a State that knows some rows without a look at the disk.
type Looker interface {
	// Look appends the value of a key to dst, if it is known.
	Look(key, dst []byte) (value []byte, found, known bool)
	// Seek begins to fetch what is known of a key from memory, and Near goes on with it.
	Seek(key []byte) (hint uint64)
	Near(hint uint64)
	// Knows tells whether a Look would know a key, and how long its value is. Warm lets it
	// know some.
	Knows(key []byte) (size int, known bool)
	Warm(keys ...[]byte)
	// GetMany is Get for several keys, in any order, until the visitor wants no more. A value
	// is his until he returns. Unmoved tells whether it is still the newest, or may say no.
	GetMany(keys [][]byte, visit func(i int, value []byte, ok bool, t rows.Ticket) (more bool)) error
	// GetNear is GetMany, but ends when it has waited for a disk.
	GetNear(keys [][]byte, visit func(i int, value []byte, ok bool, t rows.Ticket) (more bool)) error
	Unmoved(t rows.Ticket) bool
	// ScanNear is Scan, but ends when it has waited for a disk: then near is false.
	ScanNear(start, end []byte, reverse bool, visit func(key, value []byte) bool) (near bool, err error)
	// Sequence counts publications: it is odd while one is under way. Who finds the same even
	// number before and after several Gets has read one moment.
	Sequence() uint64
}

// RowKey is what a row is looked up by: what [BeginRowKey] appends, and the position.
type RowKey []byte

// BeginRowKey appends what comes before the position.
func BeginRowKey(dst []byte) []byte { return effect.Rows.AppendKey(dst, nil) }

// Position is where the row is.
func (k RowKey) Position() partition.Position { return partition.Position(k[1:]) }

// Glance is a Look that is prepared: who looks at several rows prepares all of them
// before the first, and waits for memory once.
type Glance struct {
	g    *Group
	key  RowKey
	hint uint64
}

// over is the context of those who do not wait.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Glance prepares a look at a row. The key is the glance's until it is done.
func (g *Group) Glance(key RowKey) Glance {
	if g.looker == nil {
		return Glance{g: g, key: key}
	}
	return Glance{g: g, key: key, hint: g.looker.Seek(key)}
}

// Near goes on with preparing.
func (l *Glance) Near() {
	if l.g.looker != nil {
		l.g.looker.Near(l.hint)
	}
}

// ahead is for how many commands rows are fetched from memory together.
const ahead = rows.TouchMost

// seek begins to fetch the rows of calls, ahead at most, from memory: executed one after the
// other, each would wait for its own.
func (x *executor) seek(calls []*call) {
	if x.looker == nil {
		return
	}
	blind := !x.reader.mixed.Load()
	var hints [ahead]uint64
	n := 0
	for _, c := range calls {
		if _, set := c.Command.(*command.Set); set && blind || len(c.Key) == 0 {
			continue // it does not look
		}
		x.scratch = effect.Rows.AppendKey(x.scratch[:0], c.Key)
		hints[n] = x.looker.Seek(x.scratch)
		n++
	}
	for _, h := range hints[:n] {
		x.looker.Near(h)
	}
}

// Look is Read for those who must not wait: it returns the row of a key if that is known
// in memory, and no lock or hand-over is in the way. Otherwise known is false: use Read.
// The value that the row is a part of is appended to dst, and returned too.
func (l *Glance) Look(dst []byte) (row command.Row, value []byte, found, known bool) {
	g := l.g
	if g.looker == nil || g.closed.Load() || g.log.ReadBarrier(over) != nil {
		return row, dst, false, false
	}
	p := l.key.Position()
	list := g.visible.list.Load()
	if !list.Reads(p) || g.visible.writer(p) != nil {
		return row, dst, false, false
	}
	row, value, found, known = g.look(l.key, dst)
	if found && row.ExpiryMS != 0 {
		if g.clock.short(0) {
			return row, value, false, false // somebody has to reserve time first
		}
		// The clock comes before the row that it judges: see readRow.
		now := g.NowMS()
		judge := g.visible.judgeMS(p, now)
		if row, value, found, known = g.look(l.key, value[:len(dst)]); found && !row.Alive(now) {
			known = known && !row.Alive(judge) // else it takes its turn: see keptRow
			row, found = command.Row{}, false
		}
	}
	return row, value, found, known && g.stillReads(list)
}

// Knows tells whether the row of a key is known in memory: a command on it does not wait
// for the disk to find it.
func (g *Group) Knows(key RowKey) (size int, known bool) {
	if g.looker == nil {
		return 0, true
	}
	return g.looker.Knows(key)
}

// Warm reads rows, so that they are known if there is room. It waits for the disk.
func (g *Group) Warm(keys ...[]byte) {
	if g.looker != nil {
		g.looker.Warm(keys...)
	}
}

// Reading is rows that ReadMany reads. It may be used again: then what was read before is
// gone.
type Reading struct {
	Rows []ReadRow // in the order of the keys

	plain   []bool  // nothing is in the way of a read
	judgeMS []int64 // when those that expire are judged
	values  []byte
}

const (
	// keepValues is how much memory for values is used again.
	keepValues = 64 << 10
	// mostValues is how many bytes of values are read together, and nearValues by one who
	// must not wait: those that are more stay unknown.
	mostValues = 1 << 20
	nearValues = 256 << 10
)

// begin makes room for so many rows.
func (r *Reading) begin(n int) {
	clear(r.Rows)
	r.Rows = slices.Grow(r.Rows[:0], n)[:n]
	r.plain = slices.Grow(r.plain[:0], n)[:n]
	r.judgeMS = slices.Grow(r.judgeMS[:0], n)[:n]
	if r.values = r.values[:0]; cap(r.values) > keepValues {
		r.values = nil
	}
	r.values = slices.Grow(r.values, 128*n) // enough for most
}

// ReadRow is what ReadMany has found out about a row.
type ReadRow struct {
	Row command.Row
	// Found tells whether there is one, and Known whether that is known.
	Found, Known bool

	group  *Group
	at     partition.Position
	list   *own.List
	ticket rows.Ticket
}

// Still tells whether the row is now as it was read. If those of several are, asked one after
// the other, none is older than the one before it. It may say no though it is so.
func (r *ReadRow) Still() bool {
	g := r.group
	if r.Found && r.Row.ExpiryMS != 0 && !plant.Bug("group-still-though-expired") {
		if g.clock.short(0) || !r.Row.Alive(g.NowMS()) {
			return false // nothing is published when a row expires
		}
	}
	return r.Known && g.visible.writer(r.at) == nil && g.looker.Unmoved(r.ticket) && g.stillReads(r.list)
}

// ReadMany is Read for several rows, which the disk is asked for together, in any order: see
// [ReadRow.Still]. What is not as simple as most rows, for a transaction or a group that has to
// reserve time first, stays unknown: use Read. So do those behind the end of ctx or of the room
// for values, and all after an error.
func (g *Group) ReadMany(ctx context.Context, r *Reading, keys [][]byte) {
	g.readMany(ctx, r, keys, false)
}

// ReadNear is ReadMany for one who must not wait for a disk: it does so once at most, and then
// not again for a while. What comes behind that stays unknown.
func (g *Group) ReadNear(ctx context.Context, r *Reading, keys [][]byte) {
	g.readMany(ctx, r, keys, true)
}

func (g *Group) readMany(ctx context.Context, r *Reading, keys [][]byte, near bool) {
	r.begin(len(keys))
	if g.looker == nil || g.closed.Load() || g.log.ReadBarrier(over) != nil {
		return
	}
	get, most := g.looker.GetMany, mostValues
	if near {
		get, most = g.looker.GetNear, nearValues
	}
	list := g.visible.list.Load()
	// The clock comes before the rows that it judges: see readRow.
	timely, nowMS := !g.clock.short(0), g.NowMS()
	for i, k := range keys { // before the rows are read
		p := RowKey(k).Position()
		r.plain[i] = list.Reads(p) && g.visible.writer(p) == nil
		if r.judgeMS[i] = nowMS; !plant.Bug("group-many-judged-alone") {
			r.judgeMS[i] = g.visible.judgeMS(p, nowMS)
		}
	}
	err := get(keys, func(i int, value []byte, ok bool, t rows.Ticket) bool {
		start := len(r.values)
		if ctx.Err() != nil || start > 0 && start+len(value) > most {
			return false
		}
		read := &r.Rows[i]
		*read = ReadRow{Known: r.plain[i], group: g, at: RowKey(keys[i]).Position(), list: list, ticket: t}
		if !ok || !read.Known {
			return true
		}
		r.values = append(r.values, value...)
		row, err := command.DecodeRow(r.values[start:len(r.values):len(r.values)])
		read.Known = err == nil && (row.ExpiryMS == 0 || timely)
		switch {
		case !read.Known:
		case row.Alive(nowMS):
			read.Row, read.Found = row, true
		default: // what only a lock keeps alive takes its turn: see keptRow
			read.Known = !row.Alive(r.judgeMS[i])
		}
		return true
	})
	if err != nil || !g.stillReads(list) {
		clear(r.Rows)
	}
}

// Blind tells whether a plain Set is executed without a look at the row that it replaces.
func (g *Group) Blind() bool { return !g.reader.mixed.Load() }

// stillReads tells whether the list is the one that a reader has begun with: a range that
// was given away meanwhile may have been changed by its new owner.
func (g *Group) stillReads(list *own.List) bool { return g.visible.list.Load() == list }

// look returns a row, dead or alive, if it is known.
func (g *Group) look(key RowKey, dst []byte) (row command.Row, value []byte, found, known bool) {
	value, found, known = g.looker.Look(key, dst)
	if !found || !known {
		return row, value, false, known
	}
	row, err := command.DecodeRow(value[len(dst):])
	return row, value, err == nil, err == nil
}
