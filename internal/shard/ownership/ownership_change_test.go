package ownership

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/partition"
)

// drawRanges draws ranges side by side with gaps, in all states.
func drawRanges(t *rapid.T, n int) (ranges sliceTable) {
	for i := range n {
		if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
			continue
		}
		r := Range{
			Span: spanOf(fmt.Sprintf("k%04d", i), fmt.Sprintf("k%04d", i+1)), Version: partition.Version(rapid.IntRange(1, 9).Draw(t, "version")),
			State: Foreign, Job: JobID(rapid.IntRange(0, 9).Draw(t, "job")), Attempt: AttemptDropped,
		}
		switch rapid.IntRange(0, 9).Draw(t, "form") {
		case 0:
			r.State = State(rapid.IntRange(1, 3).Draw(t, "state"))
		case 1:
			r.Attempt = 0
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// No request that matters gets another answer.
func TestOnlyWhatEndedJobsHaveLeftIsJoined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawRanges(t, rapid.SampledFrom([]int{3, 12, 40}).Draw(t, "ranges"))
		s, site := memoryState{}, &Site{Group: 1, Table: &Table{}}
		if err := evalChange(t, s, site, &ChangeOwnership{Become: before}); len(before) == 0 || err != nil {
			t.Skip(err)
		}
		floor := JobID(rapid.IntRange(1, 10).Draw(t, "floor"))
		if err := evalChange(t, s, site, &ChangeOwnership{Become: []Range{{Span: spanOf("z", ""), State: Serving, Job: 12}}, JobFloor: floor}); err != nil {
			t.Fatal(err)
		}
		after := sliceTable(slices.Collect(site.Table.All()))
		for _, r := range before {
			now, ok := site.Table.Find(r.Span.Start)
			switch {
			case !ok || now.State != r.State || now.Job < r.Job || now.Version < r.Version:
				t.Fatalf("%+v has become %+v", r, now)
			case !now.equal(&r) && (!r.isMergeable(floor) || now.Job >= floor || now.Attempt != AttemptDropped):
				t.Fatalf("%+v was joined before %d, and is %+v", r, floor, now)
			}
		}
		for i := range len(after) - 1 {
			a, b := &after[i], &after[i+1]
			if a.isMergeable(floor) && b.isMergeable(floor) {
				t.Fatalf("%v and %v are left apart", a, b)
			}
		}
		for _, r := range after[:len(after)-1] {
			if _, ok := site.Table.FindContaining(r.Span); !ok || !slices.ContainsFunc(before, func(b Range) bool { return b.Span.Contains(r.Span.Start) }) {
				t.Fatalf("%v was not there before", r)
			}
		}
		loaded, err := LoadTable(s, 1)
		if err != nil || !slices.EqualFunc(slices.Collect(loaded.All()), after, equalRanges) {
			t.Fatalf("the records say %v, %v", loaded, err)
		}
	})
}

// However many there are: each command looks at a part of them.
func TestWhatIsLeftIsJoinedInTime(t *testing.T) {
	var ranges []Range
	for i := range 5_000 {
		ranges = append(ranges, Range{
			Span: spanOf(fmt.Sprintf("k%06d", i), fmt.Sprintf("k%06d", i+1)), State: Foreign, Job: JobID(i%100 + 1), Attempt: AttemptDropped,
		})
	}
	s, site := memoryState{}, &Site{Group: 1, Table: &Table{}}
	serving := Range{Span: spanOf("z", ""), State: Serving}
	if err := evalChange(t, s, site, &ChangeOwnership{Become: append(ranges, serving)}); err != nil {
		t.Fatal(err)
	}
	for job := JobID(101); job <= 400; job++ {
		next := serving
		next.Job = job
		before := site.Table.Len()
		if err := evalChange(t, s, site, &ChangeOwnership{Expect: []Range{serving}, Become: []Range{next}, JobFloor: 101}); err != nil {
			t.Fatal(err)
		}
		if before-site.Table.Len() > 2*maxChunkRanges {
			t.Fatalf("one command joins %d ranges", before-site.Table.Len())
		}
		serving = next
	}
	if n := site.Table.Len(); n > 3 {
		t.Errorf("of 5,000 ranges that were given away %d are left", n)
	}
}
