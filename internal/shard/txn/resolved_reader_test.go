package txn

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// rowsOf lists what a reader shows of the rows, in either order, up to a limit.
func rowsOf(r command.Reader, s partition.Span, reverse bool, limit int) (rows []string) {
	from, to := effect.Rows.SpanBetween(s.Start, s.End)
	_ = r.Scan(from, to, reverse, func(key, value []byte) bool {
		rows = append(rows, fmt.Sprintf("%q=%q", key, value))
		return len(rows) < limit
	})
	return rows
}

func TestReadingThroughShowsWhatResolvingWouldDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newLonePeer()
		for range rapid.IntRange(0, 8).Draw(t, "rows") {
			p.evalOne(drawWrite(t))
		}
		committed := map[ID]bool{}
		for i := range rapid.IntRange(1, 4).Draw(t, "transactions") {
			c := newPrepare(byte(i+1), drawWrite(t), drawWrite(t))
			p.evalOne(c) // or it meets a lock
			committed[c.ID] = rapid.Bool().Draw(t, "committed")
		}
		through, err := NewResolvedReader(p.store, partition.Whole, func(id ID) bool { return committed[id] })
		if err != nil {
			t.Fatal(err)
		}
		before := rowsOf(p.store, partition.Whole, false, 1000)
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		span := partition.Span{Start: drawKey(t), End: drawEnd(t)}
		var got [][]string
		for _, reverse := range []bool{false, true} {
			got = append(got, rowsOf(through, partition.Whole, reverse, 1000), rowsOf(through, span, reverse, limit))
		}
		if !slices.Equal(before, rowsOf(p.store, partition.Whole, false, 1000)) {
			t.Fatal("reading has written")
		}
		for id, yes := range committed {
			p.evalOne(&Resolve{ID: id, Commit: yes, DeadlineMS: 2000})
		}
		for i, reverse := range []bool{false, true} {
			all, some := rowsOf(p.store, partition.Whole, reverse, 1000), rowsOf(p.store, span, reverse, limit)
			if !slices.Equal(got[2*i], all) || !slices.Equal(got[2*i+1], some) {
				t.Fatalf("reverse %v: through %v and %v\nresolved %v and %v", reverse, got[2*i], got[2*i+1], all, some)
			}
		}
		for _, key := range p.store.Keys {
			value, ok, err := through.Get([]byte(key), nil)
			if key[0] == 1 && (!ok || err != nil || string(value) != p.store.Rows[key]) {
				t.Fatalf("%q is %q, %v, %v through, %q resolved", key, value, ok, err, p.store.Rows[key])
			}
		}
	})
}

func drawWrite(t *rapid.T) command.Command {
	key := drawKey(t)
	switch rapid.IntRange(0, 3).Draw(t, "write") {
	case 0:
		return &command.Delete{Keys: []partition.Position{key}}
	case 1:
		field := []byte(rapid.SampledFrom([]string{"", "f", "\x00\x01"}).Draw(t, "field"))
		return &command.HSet{Key: key, Fields: []command.FieldValue{{Field: field, Value: []byte("v")}}}
	case 2:
		return &command.Set{Key: key, Value: []byte("x"), Expiry: command.ExpireIn(5000)}
	}
	return &command.Set{Key: key, Value: []byte(rapid.StringN(0, 3, 3).Draw(t, "value"))}
}
