package wal_test

import (
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/wal"
)

func TestWhatWasAppendedIsReplayedInOrder(t *testing.T) {
	dir := wal.OS(t.TempDir())
	var want []string
	for round := range 3 {
		var got []string
		l, err := wal.Open(wal.Options{FS: dir, SegmentBytes: 64 << 10}, 0, func(_ *wal.Chunk, es []wal.Entry) error {
			for _, e := range es {
				got = append(got, string(e.Payload))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("round %d: replayed %d entries, want %d", round, len(got), len(want))
		}
		for i := range 50 {
			s := fmt.Sprintf("round %d entry %d", round, i)
			want = append(want, s)
			if _, err := l.Append(false, wal.Entry{Group: 1, Payload: []byte(s)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
