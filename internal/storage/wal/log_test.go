package wal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// recorder is a consumer that keeps what it is shown and gives chunks back.
type recorder struct {
	replayed, published []string
	sealed              []Position
	keep                bool // hold sealed chunks
	held                []*Chunk
}

func (r *recorder) newOptions(fs FS) Options {
	return Options{
		FS: fs, ID: [16]byte{7}, SegmentBytes: 8 * blockBytes,
		ManifestTick: make(chan time.Time), // faults are for others
		Publish: func(_ *Chunk, es []Entry) {
			for _, e := range es {
				r.published = append(r.published, string(e.Payload))
			}
		},
		Seal: func(c *Chunk) {
			r.sealed = append(r.sealed, c.End())
			if r.keep {
				r.held = append(r.held, c)
				return
			}
			c.Release()
		},
	}
}

func (r *recorder) onReplay(_ *Chunk, es []Entry) error {
	for _, e := range es {
		r.replayed = append(r.replayed, string(e.Payload))
	}
	return nil
}

// openLog opens a log that is closed with the test.
func (r *recorder) openLog(t *testing.T, o Options, from Position) *Log {
	t.Helper()
	l, err := Open(o, from, r.onReplay)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// mustAppend appends one entry that must be accepted.
func mustAppend(t *testing.T, l *Log, s string) Position {
	t.Helper()
	pos, err := l.Append(false, Entry{Group: 1, Payload: []byte(s)})
	if err != nil {
		t.Fatalf("append %.20q: %v", s, err)
	}
	return pos
}

func mustClose(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestEntriesAreReplayedInOrderOverManyOpens(t *testing.T) {
	for _, fs := range map[string]FS{"memory": newCrashDisk(1), "real": OS(t.TempDir())} {
		var want []string
		for round := range 4 {
			var r recorder
			l := r.openLog(t, r.newOptions(fs), 0)
			if !slices.Equal(r.replayed, want) {
				t.Fatalf("round %d: replayed %d entries, want %d", round, len(r.replayed), len(want))
			}
			for i := range 20 {
				want = append(want, fmt.Sprintf("round %d entry %d", round, i))
				mustAppend(t, l, want[len(want)-1])
			}
			if l.Committed() != l.Metrics().Durable {
				t.Errorf("committed up to %s, durable up to %s", l.Committed(), l.Metrics().Durable)
			}
			mustClose(t, l)
		}
	}
}

func TestReplayBeginsBehindFrom(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	l := r.openLog(t, r.newOptions(d), 0)
	var ends []Position
	for i := range 30 {
		ends = append(ends, mustAppend(t, l, fmt.Sprint(i)))
	}
	mustClose(t, l)
	for i, from := range ends {
		var r recorder
		mustClose(t, r.openLog(t, r.newOptions(d), from))
		if len(r.replayed) != len(ends)-1-i || len(r.replayed) > 0 && r.replayed[0] != fmt.Sprint(i+1) {
			t.Fatalf("behind entry %d: replayed %v", i, r.replayed)
		}
	}
}

func TestAnEntryLargerThanASegmentGetsItsOwn(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	l := r.openLog(t, r.newOptions(d), 0)
	big := string(bytes.Repeat([]byte("big"), 50_000))
	want := []string{"before", big, "after", big, big, "end"}
	for _, s := range want {
		mustAppend(t, l, s)
	}
	var feed []string
	if _, err := l.ReadFrom(0, func(e Entry) error { feed = append(feed, string(e.Payload)); return nil }); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	var again recorder
	mustClose(t, again.openLog(t, again.newOptions(d), 0))
	if !slices.Equal(feed, want) || !slices.Equal(again.replayed, want) || !slices.Equal(r.published, want) {
		t.Error("large entries are not what was appended")
	}
}

func TestTheFirstSegmentIsSmallUnlessItCannotBe(t *testing.T) {
	for _, size := range []int{10, 2 * firstSegmentBytes, 20 * firstSegmentBytes} {
		d := newCrashDisk(1)
		var r recorder
		o := r.newOptions(d)
		o.SegmentBytes = 8 * firstSegmentBytes
		l := r.openLog(t, o, 0)
		pos := mustAppend(t, l, string(make([]byte, size)))
		d.configure(func(d *crashDisk) {
			if n := len(d.names[segmentName(pos.sequence())].data); (n == firstSegmentBytes) != (size == 10) || n < size {
				t.Errorf("an entry of %d bytes is in a file of %d", size, n)
			}
		})
		mustAppend(t, l, "more")
		mustClose(t, l)
		var again recorder
		mustClose(t, again.openLog(t, o, 0))
	}
}

// A log of little takes little room, and one of much has segments that are worth their work. What
// was grown to is not forgotten by the next Open, whatever is left of the log.
func TestLog_SegmentsGrowWithTheLogAndStayLarge(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	o := r.newOptions(d)
	o.SegmentBytes = 8 * firstSegmentBytes
	o.Retain = -1
	largest := func() (largest, all int) {
		d.configure(func(d *crashDisk) {
			for _, f := range d.names {
				largest, all = max(largest, len(f.data)), all+len(f.data)
			}
		})
		return largest, all
	}
	l := r.openLog(t, o, 0)
	mustAppend(t, l, "first")
	eventually.Holds(t, "segments are ready", func() bool { return l.Metrics().Ready == 2 })
	if n, all := largest(); n != firstSegmentBytes || all > 4*firstSegmentBytes {
		t.Errorf("a new log takes %d bytes, with a segment of %d", all, n)
	}
	var want []string
	for i := range 100 {
		want = append(want, string(append(make([]byte, firstSegmentBytes/2), byte(i))))
		l.Recycle(mustAppend(t, l, want[i]))
	}
	last := mustAppend(t, l, "last")
	if n, _ := largest(); n != o.SegmentBytes {
		t.Errorf("a log of %d bytes has segments of %d", 50*firstSegmentBytes, n)
	}
	if !slices.Equal(r.published, slices.Concat([]string{"first"}, want, []string{"last"})) {
		t.Error("what was appended is not what was published")
	}
	l.Recycle(last)
	mustClose(t, l)
	l = r.openLog(t, o, last)
	for i := range 200 { // more than what was left behind has room for
		mustAppend(t, l, string(append(make([]byte, firstSegmentBytes/2), byte(i))))
	}
	l.mu.Lock()
	for _, s := range slices.Concat(l.segments, l.ready) {
		if s.bytes != o.SegmentBytes {
			t.Errorf("a segment of %d bytes is in a log that was opened again", s.bytes)
		}
	}
	l.mu.Unlock()
	mustClose(t, l)
}

func TestAClosedLogRefusesAndLeavesNothingRunning(t *testing.T) {
	var r recorder
	l := r.openLog(t, r.newOptions(newCrashDisk(1)), 0)
	mustAppend(t, l, "x")
	mustClose(t, l)
	mustClose(t, l)
	if _, err := l.Append(false, Entry{}); !errors.Is(err, ErrClosed) || errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if _, err := l.ReadFrom(0, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := l.Sync(); err != nil {
		t.Error(err) // everything is durable
	}
	if len(r.sealed) != 1 || r.sealed[0] != l.Committed() {
		t.Errorf("sealed %v, committed %s", r.sealed, l.Committed())
	}
	l.Recycle(l.Committed())
}

func TestOptionsAreCheckedTogether(t *testing.T) {
	_, err := Open(Options{SegmentBytes: 5000, Chunks: -1, Durability: 9, MinFree: -1}, 0, nil)
	for _, word := range []string{"FS", "SegmentBytes", "Chunks", "Durability(9)", "MinFree"} {
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(word)) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}
