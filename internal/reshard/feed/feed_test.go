package feed

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// memoryLog is a log in memory: the entry of a number is behind the one before.
type memoryLog []effect.Batch

// Feed implements [Log].
func (l memoryLog) Feed(from wal.Position, visit func(store.FeedEntry) error) (wal.Position, error) {
	for ; int(from) < len(l); from++ {
		if err := visit(store.FeedEntry{Pos: from + 1, Batch: l[from]}); err != nil {
			return from, err
		}
	}
	return from, nil
}

// newEntry makes one with notes, and then rows.
func newEntry(t *testing.T, notes [][]byte, rows ...string) effect.Batch {
	var b effect.Builder
	b.Reset(effect.Header{})
	for _, n := range notes {
		b.Delete(n)
	}
	for _, row := range rows {
		b.Put(effect.Rows.AppendKey(nil, partition.Position(row)), []byte("value"))
	}
	batch, err := effect.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// readAndDeliver reads one store and delivers all of it.
func readAndDeliver(t *testing.T, r *Reader, from int, log Log) (rows []string) {
	t.Helper()
	batch, err := ReadBatch(r, from, log, func() error { return nil }, func(rows *[]string, op effect.Op) error {
		*rows = append(*rows, string(op.Key[1:]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	Deliver(r, from, batch, func(c *[]string) bool {
		rows = append(rows, *c...)
		return true
	})
	return rows
}

func TestThePastOfARangeComesBeforeWhatItsNewStoreDoes(t *testing.T) {
	logs := []memoryLog{
		{newEntry(t, nil, "a1"), newEntry(t, nil, "a2")},
		{newEntry(t, nil, "b1"), newEntry(t, [][]byte{Handover{Store: 0, Position: 2}.Key()}), newEntry(t, nil, "a3")},
	}
	r := &Reader{Positions: make([]wal.Position, 2), MaxCommits: 1, MaxBytes: 1 << 10}
	for _, step := range []struct {
		store int
		want  []string
	}{
		{1, []string{"b1"}}, {1, nil}, {0, []string{"a1"}}, {1, nil}, {0, []string{"a2"}},
		{1, nil}, {1, []string{"a3"}}, {1, nil}, // first the note alone, which no reader waits for
	} {
		if got := readAndDeliver(t, r, step.store, logs[step.store]); !slices.Equal(got, step.want) {
			t.Fatalf("store %d tells %q, not %q", step.store, got, step.want)
		}
	}

	// A reader that wants no more of the old store does not wait for it.
	r = &Reader{Positions: make([]wal.Position, 2), Until: []wal.Position{1, 3}, MaxCommits: 9, MaxBytes: 1 << 10}
	if got := readAndDeliver(t, r, 0, logs[0]); !slices.Equal(got, []string{"a1"}) || !r.IsStoreDone(0) || r.IsDone() {
		t.Errorf("up to a place it tells %q", got)
	}
	if got := readAndDeliver(t, r, 1, logs[1]); !slices.Equal(got, []string{"b1", "a3"}) || !r.IsDone() {
		t.Errorf("behind the end of another store it tells %q", got)
	}
}

// sparseLog is a log in which no commit ends at an odd place.
type sparseLog []effect.Batch

// Feed implements [Log].
func (l sparseLog) Feed(from wal.Position, visit func(store.FeedEntry) error) (wal.Position, error) {
	for n := int(from+1) / 2; n < len(l); n++ {
		if err := visit(store.FeedEntry{Pos: wal.Position(2*n + 2), Batch: l[n]}); err != nil {
			return wal.Position(2 * n), err
		}
	}
	return wal.Position(2 * len(l)), nil
}

func TestAReaderEndsAtAPlaceWhereNoCommitDoes(t *testing.T) {
	log := sparseLog{newEntry(t, nil, "a"), newEntry(t, nil, "b"), newEntry(t, nil, "c")}
	for to, want := range []string{"", "", "a", "a", "ab", "ab", "abc"} {
		r := &Reader{Positions: make([]wal.Position, 1), Until: []wal.Position{wal.Position(to)}, MaxCommits: 9, MaxBytes: 1 << 10}
		got := ""
		for range 2 { // the limit may be found only at the next read
			got += strings.Join(readAndDeliver(t, r, 0, log), "")
		}
		if got != want || !r.IsDone() || r.Positions[0] != r.Until[0] {
			t.Errorf("up to %d it tells %q and is at %v", to, got, r.Positions)
		}
	}
}

func TestRowsThatAJobHasCarriedAreNotTold(t *testing.T) {
	span := partition.Span{Start: partition.Position("b"), End: partition.Position("d")}
	log := memoryLog{newEntry(t, [][]byte{CopiedSpanKey(span)}, "a", "b", "c", "d"), newEntry(t, nil, "c")}
	r := &Reader{Positions: make([]wal.Position, 1), MaxCommits: 9, MaxBytes: 1 << 10}
	if got := readAndDeliver(t, r, 0, log); !slices.Equal(got, []string{"a", "d", "c"}) {
		t.Errorf("it tells %q", got)
	}
}

func TestWhatWasNotToldComesAgain(t *testing.T) {
	log := memoryLog{newEntry(t, nil, "a"), newEntry(t, nil, "b"), newEntry(t, nil, "c")}
	r := &Reader{Positions: make([]wal.Position, 1), MaxCommits: 9, MaxBytes: 1 << 10}
	bad := errors.New("no")
	batch, err := ReadBatch(r, 0, log, func() error { return nil }, func(rows *[]string, op effect.Op) error {
		if string(op.Key[1:]) == "c" {
			return bad
		}
		*rows = append(*rows, string(op.Key[1:]))
		return nil
	})
	if !errors.Is(err, bad) || len(batch) != 2 {
		t.Fatalf("before an error come %d commits, %v", len(batch), err)
	}
	if Deliver(r, 0, batch, func(*[]string) bool { return false }) || r.Positions[0] != 1 {
		t.Errorf("after the first it is at %v", r.Positions)
	}
	if got := readAndDeliver(t, r, 0, log); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("it goes on with %q", got)
	}
}

func TestNotesAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := partition.Span{Start: rapid.SliceOf(rapid.Byte()).Draw(t, "start"), End: rapid.SliceOf(rapid.Byte()).Draw(t, "end")}
		got, ok := ParseCopiedSpan(effect.Op{Key: CopiedSpanKey(s), Delete: true})
		if !ok || string(got.Start) != string(s.Start) || string(got.End) != string(s.End) {
			t.Fatalf("%q is read as %q, %v", s, got, ok)
		}
		h := Handover{Store: rapid.IntRange(0, 1<<30).Draw(t, "store"), Position: rapid.Uint64().Draw(t, "position")}
		if got, ok := ParseHandover(effect.Op{Key: h.Key(), Delete: true}); !ok || got != h {
			t.Fatalf("%+v is read as %+v, %v", h, got, ok)
		}
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		ParseCopiedSpan(effect.Op{Key: key, Delete: true}) // whatever is in a log, they do not fall over
		ParseHandover(effect.Op{Key: key, Delete: true})
	})
	for _, op := range []effect.Op{{}, {Key: CopiedSpanKey(partition.Span{})}, {Key: []byte{byte(effect.State)}, Delete: true}, {Key: []byte{byte(effect.State), copiedTag, 9}, Delete: true}} {
		if _, ok := ParseCopiedSpan(op); ok {
			t.Errorf("%+v is taken for a note", op)
		}
	}
	if _, ok := ParseHandover(effect.Op{Key: []byte{byte(effect.State), handoverTag}, Delete: true}); ok {
		t.Error("half a note is taken for one")
	}
}
