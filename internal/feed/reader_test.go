package feed

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// entries is a log in memory: the entry of a number is behind the one before.
type entries []effect.Batch

// Feed implements [Log].
func (l entries) Feed(from wal.Position, visit func(store.Committed) error) (wal.Position, error) {
	for ; int(from) < len(l); from++ {
		if err := visit(store.Committed{Pos: from + 1, Batch: l[from]}); err != nil {
			return from, err
		}
	}
	return from, nil
}

// entry makes one with notes, and then rows.
func entry(t *testing.T, notes [][]byte, rows ...string) effect.Batch {
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

// told reads one store and tells all of it.
func told(t *testing.T, r *Reader, from int, log Log) (rows []string) {
	t.Helper()
	batch, err := Read(r, from, log, func() error { return nil }, func(rows *[]string, op effect.Op) error {
		*rows = append(*rows, string(op.Key[1:]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	Tell(r, from, batch, func(c *[]string) bool {
		rows = append(rows, *c...)
		return true
	})
	return rows
}

func TestThePastOfARangeComesBeforeWhatItsNewStoreDoes(t *testing.T) {
	logs := []entries{
		{entry(t, nil, "a1"), entry(t, nil, "a2")},
		{entry(t, nil, "b1"), entry(t, [][]byte{Handed{Store: 0, Position: 2}.Key()}), entry(t, nil, "a3")},
	}
	r := &Reader{At: make([]wal.Position, 2), MaxCommits: 1, MaxBytes: 1 << 10}
	for _, step := range []struct {
		store int
		want  []string
	}{
		{1, []string{"b1"}}, {1, nil}, {0, []string{"a1"}}, {1, nil}, {0, []string{"a2"}},
		{1, nil}, {1, []string{"a3"}}, {1, nil}, // first the note alone, which nobody waits for
	} {
		if got := told(t, r, step.store, logs[step.store]); !slices.Equal(got, step.want) {
			t.Fatalf("store %d tells %q, not %q", step.store, got, step.want)
		}
	}

	// Who wants no more of the old store does not wait for it.
	r = &Reader{At: make([]wal.Position, 2), To: []wal.Position{1, 3}, MaxCommits: 9, MaxBytes: 1 << 10}
	if got := told(t, r, 0, logs[0]); !slices.Equal(got, []string{"a1"}) || !r.Ended(0) || r.AtEnd() {
		t.Errorf("up to a place it tells %q", got)
	}
	if got := told(t, r, 1, logs[1]); !slices.Equal(got, []string{"b1", "a3"}) || !r.AtEnd() {
		t.Errorf("behind the end of another store it tells %q", got)
	}
}

// holes is a log in which no commit ends at an odd place.
type holes []effect.Batch

// Feed implements [Log].
func (l holes) Feed(from wal.Position, visit func(store.Committed) error) (wal.Position, error) {
	for n := int(from+1) / 2; n < len(l); n++ {
		if err := visit(store.Committed{Pos: wal.Position(2*n + 2), Batch: l[n]}); err != nil {
			return wal.Position(2 * n), err
		}
	}
	return wal.Position(2 * len(l)), nil
}

func TestAReaderEndsAtAPlaceWhereNoCommitDoes(t *testing.T) {
	log := holes{entry(t, nil, "a"), entry(t, nil, "b"), entry(t, nil, "c")}
	for to, want := range []string{"", "", "a", "a", "ab", "ab", "abc"} {
		r := &Reader{At: make([]wal.Position, 1), To: []wal.Position{wal.Position(to)}, MaxCommits: 9, MaxBytes: 1 << 10}
		got := ""
		for range 2 { // it may be told so when it asks for more
			got += strings.Join(told(t, r, 0, log), "")
		}
		if got != want || !r.AtEnd() || r.At[0] != r.To[0] {
			t.Errorf("up to %d it tells %q and is at %v", to, got, r.At)
		}
	}
}

func TestRowsThatAJobHasCarriedAreNotTold(t *testing.T) {
	span := partition.Span{Start: partition.Position("b"), End: partition.Position("d")}
	log := entries{entry(t, [][]byte{CarriedKey(span)}, "a", "b", "c", "d"), entry(t, nil, "c")}
	r := &Reader{At: make([]wal.Position, 1), MaxCommits: 9, MaxBytes: 1 << 10}
	if got := told(t, r, 0, log); !slices.Equal(got, []string{"a", "d", "c"}) {
		t.Errorf("it tells %q", got)
	}
}

func TestWhatWasNotToldComesAgain(t *testing.T) {
	log := entries{entry(t, nil, "a"), entry(t, nil, "b"), entry(t, nil, "c")}
	r := &Reader{At: make([]wal.Position, 1), MaxCommits: 9, MaxBytes: 1 << 10}
	bad := errors.New("no")
	batch, err := Read(r, 0, log, func() error { return nil }, func(rows *[]string, op effect.Op) error {
		if string(op.Key[1:]) == "c" {
			return bad
		}
		*rows = append(*rows, string(op.Key[1:]))
		return nil
	})
	if !errors.Is(err, bad) || len(batch) != 2 {
		t.Fatalf("before an error come %d commits, %v", len(batch), err)
	}
	if Tell(r, 0, batch, func(*[]string) bool { return false }) || r.At[0] != 1 {
		t.Errorf("after the first it is at %v", r.At)
	}
	if got := told(t, r, 0, log); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("it goes on with %q", got)
	}
}
