package watchbuffer

import (
	"testing"

	"pgregory.net/rapid"
)

// testCursor is a place in a feed of one store.
type testCursor int

// Covers implements [Cursor].
func (n testCursor) Covers(m testCursor) bool { return n >= m }

// Join implements [Cursor].
func (n testCursor) Join(m testCursor) testCursor { return max(n, m) }

// A watcher that stops anywhere, and goes on from its place, receives the newest of
// every key.
func TestWhatIsBehindThePlaceMakesUpForWhatWasNotTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Buffer[testCursor, int]
		keys := rapid.SliceOfN(rapid.IntRange(0, 30), 1, 60).Draw(t, "changes") // the nth change is behind place n
		newest, copied := map[int]int{}, map[int]int{}
		at, told := testCursor(0), testCursor(0)
		for n, key := range keys {
			q.GetOrAdd([]byte{byte(key)}, testCursor(n)).Value = n
			newest[key] = n
			for told = testCursor(n + 1); q.Len() > 0 && rapid.Bool().Draw(t, "take"); {
				e, after := q.Pop(told)
				copied[int(e.Key[0])] = e.Value
				at = after
			}
		}
		for n := int(at); n < len(keys); n++ {
			copied[keys[n]] = n
		}
		for key, n := range newest {
			if copied[key] != n {
				t.Fatalf("of key %d it has %d, not %d", key, copied[key], n)
			}
		}
	})
}

func TestWhoJoinsReadsWhatIsBetween(t *testing.T) {
	for _, c := range []struct {
		at, there, known testCursor
		skip, own        bool
	}{{3, 3, 3, false, false}, {3, 5, 5, false, true}, {5, 3, 5, true, false}} {
		if known, skip, own := PlanJoin(c.at, c.there); known != c.known || skip != c.skip || own != c.own {
			t.Errorf("at %d, with one who is at %d: knows %d, skips %v, reads %v", c.at, c.there, known, skip, own)
		}
	}
}
