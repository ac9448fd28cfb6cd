package cleave

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestProgressReachesEveryPlaceOfNow(t *testing.T) {
	db := small(t, 2)
	c, cancel := context.WithTimeout(ctx, hanging())
	defer cancel()
	from := db.Now()
	for i := range 40 {
		// Half of the commits are the store's own, which the feed does not tell of.
		if i%2 == 0 {
			rangeSpace(t, db, fmt.Sprint("space", i))
		} else {
			must(t, db.Default().Set(ctx, number(i), []byte("value")))
		}
		now := db.Now()
		seen := 0
		for change, err := range db.Progress(c, from) {
			if err != nil {
				t.Fatalf("commit %d: at %s, waiting for %s: %v", i, from, now, err)
			}
			if !change.After.Covers(from) {
				t.Fatalf("the place went back from %s to %s", from, change.After)
			}
			from, seen = change.After, seen+len(change.Ops)
			if from.Covers(now) {
				break
			}
		}
		if seen != i%2 {
			t.Fatalf("commit %d: %d ops were told, want %d", i, seen, i%2)
		}
	}
}

func TestACursorCoversWhatIsBeforeItInEveryStore(t *testing.T) {
	for _, test := range []struct {
		have, want Cursor
		covers     bool
	}{
		{"", "", true},
		{"0123abcd-1-2", "", true},
		{"", "0123abcd-1-2", false},
		{"0123abcd-1-2", "0123abcd-1-2", true},
		{"0123abcd-ff-2", "0123abcd-1-2", true},
		{"0123abcd-10-2", "0123abcd-9-2", true}, // as numbers, not as text
		{"0123abcd-9-3", "0123abcd-10-2", false},
		{"0123abcd-9-1", "0123abcd-1-2", false},
		{"0123abcd-9-9", "0123abce-1-1", false},
		{"0123abcd-9", "0123abcd-9-0", false},
		{"0123abcd-x-9", "0123abcd-1-1", false},
		{"0123abcd-9-9", "0123abcd-y-1", false},
	} {
		if got := test.have.Covers(test.want); got != test.covers {
			t.Errorf("%q covers %q: %v", test.have, test.want, got)
		}
	}
	for _, strange := range []Cursor{"", "0123abce-1-1", "0123abcd-1", "0123abcd-1-x", "x"} {
		const here = Cursor("0123abcd-9-9")
		if got := here.Join(strange); got != here {
			t.Errorf("%q with %q is %q", here, strange, got)
		}
	}
	for range 1000 {
		a, b := rand.Uint64N(20), rand.Uint64N(20)
		c, d := rand.Uint64N(20), rand.Uint64N(20)
		have, want := Cursor(fmt.Sprintf("0123abcd-%x-%x", a, b)), Cursor(fmt.Sprintf("0123abcd-%x-%x", c, d))
		if got := have.Covers(want); got != (a >= c && b >= d) {
			t.Fatalf("%q covers %q: %v", have, want, got)
		}
		if got := have.Join(want); got != Cursor(fmt.Sprintf("0123abcd-%x-%x", max(a, c), max(b, d))) {
			t.Fatalf("%q and %q are %q", have, want, got)
		}
	}
}
