package wal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// readFeed reads the feed once.
func readFeed(l *Log, pos Position) (got []string, end Position, err error) {
	end, err = l.ReadFrom(pos, func(e Entry) error {
		got = append(got, string(e.Payload))
		return nil
	})
	return got, end, err
}

func TestTheFeedResumesAfterAnyEntry(t *testing.T) {
	d := newCrashDisk(1)
	var want []string
	var ends []Position
	for range 3 { // lives, each with segments of its own
		var r recorder
		l := r.openLog(t, r.newOptions(d), 0)
		for range 15 {
			want = append(want, fmt.Sprint(len(want)))
			ends = append(ends, mustAppend(t, l, want[len(want)-1]))
		}
		for i, pos := range ends {
			got, end, err := readFeed(l, pos)
			if err != nil || end != l.Committed() || !slices.Equal(got, want[i+1:]) {
				t.Fatalf("after %s: %v up to %s, %v", pos, got, end, err)
			}
		}
		if got, _, err := readFeed(l, 0); err != nil || !slices.Equal(got, want) {
			t.Fatalf("from the start: %v, %v", got, err)
		}
		mustClose(t, l)
	}
}

func TestAReaderThatStopsReadsTheFrameAgain(t *testing.T) {
	var r recorder
	l := r.openLog(t, r.newOptions(newCrashDisk(1)), 0)
	first := mustAppend(t, l, "1")
	if _, err := l.Append(false, Entry{Payload: []byte("2")}, Entry{Payload: []byte("3")}); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	pos, err := l.ReadFrom(0, func(e Entry) error {
		if string(e.Payload) == "3" {
			return enough
		}
		return nil
	})
	if pos != first || err != enough {
		t.Fatalf("stopped at %s with %v", pos, err)
	}
	if got, _, _ := readFeed(l, pos); !slices.Equal(got, []string{"2", "3"}) {
		t.Error(got)
	}
}

func TestTheFeedSaysWhatIsGone(t *testing.T) {
	var r recorder
	o := r.newOptions(newCrashDisk(1))
	o.Retain = 2 * int64(o.SegmentBytes)
	l := r.openLog(t, o, 0)
	var ends []Position
	for i := range 60 {
		ends = append(ends, mustAppend(t, l, fmt.Sprint(i)))
	}
	if got, _, err := readFeed(l, 0); len(got) != 60 || err != nil {
		t.Fatalf("before anything is recycled: %d, %v", len(got), err)
	}
	l.Recycle(ends[50])
	if _, _, err := readFeed(l, ends[0]); !errors.Is(err, ErrGone) {
		t.Errorf("recycled: %v", err)
	}
	if _, _, err := readFeed(l, 0); !errors.Is(err, ErrGone) {
		t.Errorf("from the start: %v", err)
	}
	if _, _, err := readFeed(l, l.Committed()+1<<32); !errors.Is(err, ErrGone) {
		t.Errorf("from the future: %v", err)
	}
	m := l.Metrics()
	if m.Retained != 2 || m.Recycled != ends[50] {
		t.Errorf("%d segments retained, recycled up to %s", m.Retained, m.Recycled)
	}
	// Two segments of six frames each, and those that were not given back.
	for i, pos := range ends {
		got, _, err := readFeed(l, pos)
		if gone := i < 35; gone != errors.Is(err, ErrGone) || !gone && len(got) != 59-i {
			t.Errorf("after entry %d: %d entries, %v", i, len(got), err)
		}
	}
}

func TestReadingKeepsASegmentAndAppendingGoesOn(t *testing.T) {
	var r recorder
	o := r.newOptions(newCrashDisk(1))
	o.Retain = -1
	l := r.openLog(t, o, 0)
	for i := range 12 {
		mustAppend(t, l, fmt.Sprint(i))
	}
	n := 0
	_, err := l.ReadFrom(0, func(e Entry) error {
		if string(e.Payload) != fmt.Sprint(n) {
			return fmt.Errorf("entry %d is %q", n, e.Payload)
		}
		n++
		for range 5 {
			mustAppend(t, l, "more")
		}
		l.Recycle(l.Committed())
		return nil
	})
	// The first segment stays while it is read; the second was given back meanwhile.
	if n != 6 || !errors.Is(err, ErrGone) {
		t.Errorf("read %d entries: %v", n, err)
	}
}

func TestTheFeedFollowsWriters(t *testing.T) {
	for _, fs := range []FS{newCrashDisk(3), OS(t.TempDir())} {
		var r recorder
		l := r.openLog(t, r.newOptions(fs), 0)
		var writers sync.WaitGroup
		for range 3 {
			writers.Go(func() {
				for i := range 60 {
					if _, err := l.Append(false, Entry{Payload: []byte(strings.Repeat("x", i*7))}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		var got []string
		var pos Position
		for len(got) < 180 {
			more, next, err := readFeed(l, pos)
			if err != nil {
				t.Fatal(err)
			}
			got, pos = append(got, more...), next
		}
		writers.Wait()
		if !slices.Equal(got, r.published) {
			t.Error("the feed is not what was published")
		}
	}
}

func TestTheFeedReportsDamage(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	l := r.openLog(t, r.newOptions(d), 0)
	first := mustAppend(t, l, "1")
	second := mustAppend(t, l, "2")
	d.configure(func(d *crashDisk) {
		d.names[segmentName(second.sequence())].data[second.offset()&^(blockBytes-1)+45] ^= 1
	})
	got, pos, err := readFeed(l, 0)
	if !errors.Is(err, ErrCorrupt) || pos != first || len(got) != 1 {
		t.Errorf("%v up to %s: %v", got, pos, err)
	}
}

func TestTheFeedPassesSegmentsThatACrashLeftEmpty(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	l := r.openLog(t, r.newOptions(d), 0)
	at := mustAppend(t, l, "one")
	d = d.crash(0)
	for range 2 {
		l = r.openLog(t, r.newOptions(d), 0)
		if got, _, err := readFeed(l, at); err != nil || len(got) > 0 {
			t.Errorf("after a crash: %v, %v", got, err)
		}
		torn := mustAppend(t, l, "torn")
		d = d.crash(0)
		clear(d.names[segmentName(torn.sequence())].data[blockBytes:]) // the header alone got to the disk
	}
	l = r.openLog(t, r.newOptions(d), 0)
	if got, to, err := readFeed(l, at); err != nil || len(got) > 0 || to != at {
		t.Errorf("with nothing new: %v up to %s, %v", got, to, err)
	}
	mustAppend(t, l, "two")
	if got, _, err := readFeed(l, at); err != nil || len(got) != 1 || got[0] != "two" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAPlaceThatIsNoEndOfAFrameIsGone(t *testing.T) {
	var r recorder
	l := r.openLog(t, r.newOptions(newCrashDisk(1)), 0)
	mustAppend(t, l, strings.Repeat("x", 200))
	last := mustAppend(t, l, "2")
	for _, pos := range []Position{last - 8, last - 1, last - blockBytes + 16} {
		if _, _, err := readFeed(l, pos); !errors.Is(err, ErrGone) {
			t.Errorf("from %s: %v, want ErrGone", pos, err)
		}
	}
	mustClose(t, l)
}
