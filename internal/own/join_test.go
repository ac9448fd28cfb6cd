package own

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/partition"
)

// drawRow draws ranges side by side with gaps, in all states.
func drawRow(t *rapid.T, n int) (ranges plain) {
	for i := range n {
		if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
			continue
		}
		r := Range{
			Span: span(fmt.Sprintf("k%04d", i), fmt.Sprintf("k%04d", i+1)), Version: partition.Version(rapid.IntRange(1, 9).Draw(t, "version")),
			State: Foreign, Job: Job(rapid.IntRange(0, 9).Draw(t, "job")), Attempt: Dropped,
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

// Nobody who asks for something that matters gets another answer.
func TestOnlyWhatEndedJobsHaveLeftIsJoined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawRow(t, rapid.SampledFrom([]int{3, 12, 40}).Draw(t, "ranges"))
		s, site := state{}, &Site{Group: 1, List: &List{}}
		if err := do(t, s, site, &Reown{Become: before}); len(before) == 0 || err != nil {
			t.Skip(err)
		}
		floor := Job(rapid.IntRange(1, 10).Draw(t, "floor"))
		if err := do(t, s, site, &Reown{Become: []Range{{Span: span("z", ""), State: Serving, Job: 12}}, Floor: floor}); err != nil {
			t.Fatal(err)
		}
		after := plain(slices.Collect(site.List.All()))
		for _, r := range before {
			now, ok := site.List.Find(r.Span.Start)
			switch {
			case !ok || now.State != r.State || now.Job < r.Job || now.Version < r.Version:
				t.Fatalf("%+v has become %+v", r, now)
			case !now.equal(&r) && (!r.spent(floor) || now.Job >= floor || now.Attempt != Dropped):
				t.Fatalf("%+v was joined before %d, and is %+v", r, floor, now)
			}
		}
		for i := range len(after) - 1 {
			a, b := &after[i], &after[i+1]
			if a.spent(floor) && b.spent(floor) {
				t.Fatalf("%v and %v are left apart", a, b)
			}
		}
		for _, r := range after[:len(after)-1] {
			if _, ok := site.List.One(r.Span); !ok || !slices.ContainsFunc(before, func(b Range) bool { return b.Span.Contains(r.Span.Start) }) {
				t.Fatalf("%v was not there before", r)
			}
		}
		loaded, err := Load(s, 1)
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
			Span: span(fmt.Sprintf("k%06d", i), fmt.Sprintf("k%06d", i+1)), State: Foreign, Job: Job(i%100 + 1), Attempt: Dropped,
		})
	}
	s, site := state{}, &Site{Group: 1, List: &List{}}
	serving := Range{Span: span("z", ""), State: Serving}
	if err := do(t, s, site, &Reown{Become: append(ranges, serving)}); err != nil {
		t.Fatal(err)
	}
	for job := Job(101); job <= 400; job++ {
		next := serving
		next.Job = job
		before := site.List.Len()
		if err := do(t, s, site, &Reown{Expect: []Range{serving}, Become: []Range{next}, Floor: 101}); err != nil {
			t.Fatal(err)
		}
		if before-site.List.Len() > 2*maxChunk {
			t.Fatalf("one command joins %d ranges", before-site.List.Len())
		}
		serving = next
	}
	if n := site.List.Len(); n > 3 {
		t.Errorf("of 5,000 ranges that were given away %d are left", n)
	}
}
