package key

import (
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// history is one entity's records: their times, oldest first.
type history []time.Time

// readPiece answers like a store with one partition per span would: newest first,
// and it notes which partitions were opened.
func (h history) readPiece(opened *[]Span, p Piece, want int) iter.Seq2[time.Time, error] {
	*opened = append(*opened, p.Span)
	return func(yield func(time.Time, error) bool) {
		for _, t := range slices.Backward(h) {
			if t.Before(p.From) || !t.Before(p.To) || !p.Span.Contains(t) {
				continue
			}
			if want--; want < 0 {
				panic("asked for more than was wanted")
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}

// latestByScan is the answer by brute force over the whole history.
func (h history) latestByScan(w Backward, n int) []time.Time {
	var all []time.Time
	for _, t := range slices.Backward(h) {
		if !t.Before(w.Since) && t.Before(w.Before) && len(all) < n {
			all = append(all, t)
		}
	}
	return all
}

func drawHistory(t *rapid.T, b Bucket, base time.Time) history {
	// Steps around the border lengths, so that records sit on both sides of
	// borders and whole buckets stay empty.
	width := time.Duration(longestSeconds(b)) * time.Second
	steps := rapid.SliceOfN(rapid.OneOf(
		rapid.Int64Range(0, int64(width)/8),
		rapid.Int64Range(0, 4*int64(width)),
		rapid.Just(int64(0)),
	), 0, 40).Draw(t, "steps")
	h := history{}
	at := base
	for _, s := range steps {
		at = at.Add(time.Duration(s))
		h = append(h, at)
	}
	return h
}

func TestLatestEqualsBruteForceAndOpensNoBucketInVain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SampledFrom([]Bucket{Hour, Day, Month, 15 * 60}).Draw(t, "bucket")
		// Starts near a leap day and a year's end.
		base := rapid.SampledFrom([]time.Time{
			time.Date(2024, 2, 28, 22, 0, 0, 0, time.UTC),
			time.Date(2025, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
			time.Date(2100, 2, 28, 0, 0, 0, 0, time.UTC),
			time.Date(1969, 11, 30, 0, 0, 0, 1, time.UTC),
		}).Draw(t, "base")
		h := drawHistory(t, b, base)
		w := Backward{Bucket: b, Since: base.Add(-1), Before: base.Add(1)}
		if len(h) > 0 {
			i := rapid.IntRange(0, len(h)-1).Draw(t, "since")
			j := rapid.IntRange(i, len(h)-1).Draw(t, "before")
			w.Since, w.Before = h[i], h[j].Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "past")))
		}
		n := rapid.IntRange(1, 45).Draw(t, "n")
		want := h.latestByScan(w, n)

		var opened []Span
		got, err := Latest(w, n, func(p Piece, want int) iter.Seq2[time.Time, error] { return h.readPiece(&opened, p, want) })
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Items, want) {
			t.Fatalf("got %v, want %v", got.Items, want)
		}
		if got.Buckets != len(opened) {
			t.Fatalf("reports %d buckets, opened %d", got.Buckets, len(opened))
		}
		checkOpened(t, w, n, want, opened, got.Stop)
	})
}

// checkOpened states what a frugal walk may open: from the bucket of the last
// instant down to that of the oldest record needed, or of the floor.
func checkOpened(t *rapid.T, w Backward, n int, want []time.Time, opened []Span, stop Stop) {
	t.Helper()
	if w.Before.Equal(w.Since) {
		if len(opened) > 0 {
			t.Fatalf("opened %v for an empty window", opened)
		}
		return
	}
	oldest, wantStop := w.Since, StopFloor
	if len(want) == n {
		oldest, wantStop = want[n-1], StopEnough
	}
	if stop != wantStop {
		t.Fatalf("stopped by %v, want %v", stop, wantStop)
	}
	last, _ := w.Bucket.Of(oldest)
	s, _ := w.Bucket.Of(w.Before.Add(-1))
	for i := 0; ; i++ {
		if i >= len(opened) || opened[i] != s {
			t.Fatalf("opened %v; want %v at %d", opened, s, i)
		}
		if s == last {
			if len(opened) != i+1 {
				t.Fatalf("opened %v, needed only %d", opened, i+1)
			}
			return
		}
		s = s.Prev()
	}
}

func TestPiecesTileTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SampledFrom([]Bucket{Hour, Day, Month, 90 * 60}).Draw(t, "bucket")
		since := anyTime().Filter(func(x time.Time) bool { return x.Year() < 9998 && !x.IsZero() }).Draw(t, "since")
		// At most twenty buckets wide.
		length := rapid.Int64Range(0, 20*int64(longestSeconds(b))).Draw(t, "length")
		w := Backward{Bucket: b, Since: since, Before: since.Add(time.Duration(length) * time.Second), MaxEmpty: 1}
		pieces, err := w.Pieces()
		if err != nil {
			t.Fatal(err)
		}
		edge := w.Before
		for p := range pieces {
			if !p.To.Equal(edge) || !p.From.Before(p.To) {
				t.Fatalf("piece [%v, %v) does not end at %v", p.From, p.To, edge)
			}
			if !p.Span.Contains(p.From) || p.To.After(p.Span.End()) {
				t.Fatalf("piece [%v, %v) leaves its span %v", p.From, p.To, p.Span)
			}
			edge = p.From
		}
		if !edge.Equal(w.Since) {
			t.Fatalf("the pieces end at %v, want %v", edge, w.Since)
		}
	})
}

func TestLatestStopsAfterEmptyBucketsAndCanContinue(t *testing.T) {
	now := parseTime(t, "2026-03-02T12:00:00Z")
	h := history{now.AddDate(0, 0, -9), now.AddDate(0, 0, -1)}
	w := Backward{Bucket: Day, Before: now, MaxEmpty: 3}
	var opened []Span
	read := func(p Piece, want int) iter.Seq2[time.Time, error] { return h.readPiece(&opened, p, want) }

	first, err := Latest(w, 5, read)
	if err != nil || first.Stop != StopEmpty || len(first.Items) != 1 || first.Buckets != 5 {
		t.Fatalf("got %+v, %v; want one record after 5 buckets", first, err)
	}
	// Feb 26 to 28 were empty.
	if want := parseTime(t, "2026-02-26T00:00:00Z"); !first.Reached.Equal(want) {
		t.Fatalf("reached %v, want %v", first.Reached, want)
	}
	w.Before, w.MaxEmpty = first.Reached, 5
	second, err := Latest(w, 1, read)
	if err != nil || second.Stop != StopEnough || !second.Items[0].Equal(h[0]) || second.Buckets != 5 {
		t.Fatalf("continued to %+v, %v; want the older record", second, err)
	}
	seen := map[Span]bool{}
	for _, s := range opened {
		if seen[s] {
			t.Errorf("%v was opened twice", s)
		}
		seen[s] = true
	}
}

func TestLatestReturnsTheErrorAndWhatItHad(t *testing.T) {
	now := parseTime(t, "2026-01-01T00:30:00Z")
	boom := errors.New("boom")
	calls := 0
	got, err := Latest(Backward{Bucket: Hour, Before: now, MaxEmpty: 9}, 5, func(Piece, int) iter.Seq2[int, error] {
		calls++
		return func(yield func(int, error) bool) {
			if calls == 1 {
				yield(7, nil)
				return
			}
			if yield(0, boom) {
				t.Error("read on after the error")
			}
		}
	})
	if !errors.Is(err, boom) || err.Error() != "key: read hour 2025-12-31T23: boom" {
		t.Errorf("got error %v", err)
	}
	if !slices.Equal(got.Items, []int{7}) || got.Buckets != 2 || got.Stop != StopError {
		t.Errorf("got %+v", got)
	}
}

func TestLatestRefusesAWalkWithoutEnd(t *testing.T) {
	now := parseTime(t, "2026-01-01T00:30:00Z")
	none := func(Piece, int) iter.Seq2[int, error] { return nil }
	good := Backward{Bucket: Day, Before: now, Since: now.AddDate(0, -1, 0)}
	if got, err := Latest(good, 1, none); err != nil || got.Stop != StopFloor || got.Buckets != 32 {
		t.Fatalf("an empty month gave %+v, %v", got, err)
	}
	good.MaxEmpty = 32
	if got, err := Latest(good, 1, none); err != nil || got.Stop != StopFloor {
		t.Errorf("the floor and the limit at once gave %+v, %v; want the floor, since nothing is left", got, err)
	}
	for name, w := range map[string]Backward{
		"no bucket":     {Before: now, MaxEmpty: 1},
		"no floor":      {Bucket: Day, Before: now},
		"no time":       {Bucket: Day, MaxEmpty: 1},
		"swapped":       {Bucket: Day, Before: good.Since, Since: now},
		"negative":      {Bucket: Day, Before: now, Since: good.Since, MaxEmpty: -1},
		"year 10000":    {Bucket: Day, Before: time.Unix(maxUnix+2, 0), MaxEmpty: 1},
		"before year 1": {Bucket: Day, Before: now, Since: time.Unix(minUnix-1, 0)},
	} {
		if _, err := Latest(w, 1, none); !errors.Is(err, ErrBucket) {
			t.Errorf("%s: got %v, want ErrBucket", name, err)
		}
	}
	if _, err := Latest(good, 0, none); !errors.Is(err, ErrBucket) {
		t.Errorf("n = 0: got %v", err)
	}
	if _, err := Latest[int](good, 1, nil); !errors.Is(err, ErrBucket) {
		t.Errorf("no read: got %v", err)
	}
}
