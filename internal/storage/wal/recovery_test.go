package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// frameLocation is where a frame is on the disk.
type frameLocation struct {
	name       string
	start, end int
}

// writeTestLog returns a disk with a log of some segments, and the places of all headers
// and frames in order.
func writeTestLog(t *testing.T, clean bool, d Durability) (*crashDisk, []frameLocation) {
	t.Helper()
	dk := newCrashDisk(1)
	var r recorder
	o := r.newOptions(dk)
	o.Durability = d
	l := r.openLog(t, o, 0)
	var places []frameLocation
	var last string
	for i := range 27 {
		pos := mustAppend(t, l, strings.Repeat(fmt.Sprint(i, " "), 10))
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		name := segmentName(pos.sequence())
		if name != last {
			places = append(places, frameLocation{name, 0, headerBytes})
		}
		last = name
		start := pos.offset() &^ (blockBytes - 1) // what was synced is followed by a new block
		dk.configure(func(d *crashDisk) {
			f, _ := parseFrame(d.names[name].data[start:], l.salt)
			places = append(places, frameLocation{name, start, start + f.bytes})
		})
	}
	if clean {
		mustClose(t, l)
		return dk, places
	}
	return dk.crash(0), places
}

func TestDamageToDurableFramesIsReported(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	flips := 0
	for _, class := range []Durability{Always, EverySec, Never} {
		for _, clean := range []bool{true, false} {
			_, places := writeTestLog(t, clean, class)
			if !clean {
				places = places[:len(places)-1] // the last frame looks like a torn one
			}
			for _, p := range places {
				at := p.start + rng.IntN(p.end-p.start)
				d, _ := writeTestLog(t, clean, class)
				d.names[p.name].data[at] ^= 1 << rng.IntN(8)
				var r recorder
				_, err := Open(r.newOptions(d), 0, r.onReplay)
				var detail *CorruptError
				if !errors.Is(err, ErrCorrupt) || !errors.As(err, &detail) || detail.Segment != p.name {
					t.Errorf("%s, clean %v: byte %d of %s, frame at %d: %v", class, clean, at, p.name, p.start, err)
				}
				flips++
			}
		}
	}
	t.Logf("%d flipped bits", flips)
}

func TestALostHeaderOfTheOnlySegmentIsReported(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	l := r.openLog(t, r.newOptions(d), 0)
	name := segmentName(mustAppend(t, l, "1").sequence())
	mustAppend(t, l, "2") // says that the first was durable
	after := d.crash(0)
	after.names[name].data[20] ^= 1
	_, err := Open(r.newOptions(after), 0, r.onReplay)
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) || len(r.replayed) > 0 {
		t.Errorf("replayed %v: %v", r.replayed, err)
	}
}

func TestAFileUnderAnotherNameIsReported(t *testing.T) {
	d, places := writeTestLog(t, true, Always)
	n := d.names[places[0].name]
	delete(d.names, places[0].name)
	d.names[segmentName(0)] = n
	var r recorder
	if _, err := Open(r.newOptions(d), 0, r.onReplay); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

func TestAMissingSegmentIsAGap(t *testing.T) {
	d, places := writeTestLog(t, true, Always)
	seen := map[string]bool{}
	for _, p := range places[:len(places)-1] {
		if seen[p.name] || p.name == places[len(places)-1].name {
			continue
		}
		seen[p.name] = true
		node := d.names[p.name]
		delete(d.names, p.name)
		var r recorder
		if _, err := Open(r.newOptions(d), 0, r.onReplay); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "missing") {
			t.Errorf("without %s: %v", p.name, err)
		}
		d.names[p.name] = node
	}
	if len(seen) < 2 {
		t.Fatal("too few segments to say anything")
	}
}

func TestALogThatEndsBeforeWhatWasAppliedIsRefused(t *testing.T) {
	d, _ := writeTestLog(t, true, Always)
	end := makePosition(0xffff, blockBytes)
	var r recorder
	if _, err := Open(r.newOptions(d), end, r.onReplay); !errors.Is(err, ErrCorrupt) {
		t.Errorf("applied up to %s: %v", end, err)
	}
	if _, err := Open(r.newOptions(newCrashDisk(1)), end, r.onReplay); !errors.Is(err, ErrCorrupt) {
		t.Errorf("no log at all: %v", err)
	}
	o := r.newOptions(newCrashDisk(1))
	o.Restored = true
	l := r.openLog(t, o, end)
	if pos := mustAppend(t, l, "x"); pos <= end {
		t.Errorf("a restored log goes on at %s, not behind %s", pos, end)
	}
	mustClose(t, l)
	var again recorder
	mustClose(t, again.openLog(t, o, end))
	if len(again.replayed) != 1 {
		t.Errorf("replayed %v", again.replayed)
	}
}

func TestSegmentsOfAnotherStoreOrFormatAreRefused(t *testing.T) {
	d, places := writeTestLog(t, true, Always)
	var r recorder
	o := r.newOptions(d)
	o.ID = [16]byte{8}
	if _, err := Open(o, 0, r.onReplay); !errors.Is(err, ErrForeign) {
		t.Errorf("another store: %v", err)
	}
	block := d.names[places[0].name].data
	block[8] = formatVersion + 1
	fixHeaderChecksum(block)
	if _, err := Open(r.newOptions(d), 0, r.onReplay); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), places[0].name) {
		t.Errorf("newer format: %v", err)
	}
}

func TestATornLastFrameIsDroppedAndTheLogGoesOn(t *testing.T) {
	d, places := writeTestLog(t, false, Always)
	last := places[len(places)-1]
	d.names[last.name].data[last.end-1] ^= 1
	for round := range 3 {
		var r recorder
		l := r.openLog(t, r.newOptions(d), 0)
		if len(r.replayed) != 26+round {
			t.Fatalf("round %d: replayed %d entries", round, len(r.replayed))
		}
		mustAppend(t, l, "more")
		mustClose(t, l)
	}
}

func TestALostHeaderBehindACleanCloseIsReported(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	l := r.openLog(t, r.newOptions(d), 0)
	mustAppend(t, l, "1")
	mustClose(t, l)
	l = r.openLog(t, r.newOptions(d), 0)
	name := segmentName(mustAppend(t, l, "2").sequence())
	mustAppend(t, l, "3") // says that the one before was durable
	after := d.crash(0)
	after.names[name].data[20] ^= 1
	_, err := Open(r.newOptions(after), 0, nil)
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Errorf("two entries are gone, and Open says: %v", err)
	}
}
