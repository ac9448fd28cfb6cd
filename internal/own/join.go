package own

import (
	"cmp"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/plant"
)

// Dropped in the attempt of a Foreign range tells that nothing is left of its rows.
const Dropped = 1

// Ranges that were given away stay, so that what comes late finds that it is late. As
// pieces come and go they would become ever more, so those that follow one another are
// joined when the jobs that made them have ended, with what lies between them.
//
// What is asked of such a range is whether it is exactly one that a job expects or has
// made, which only that job asks, and whether its job is before that of a command: a
// range may be taken anew by a later job only, and nothing at all by any. The first is
// not asked any more, or by commands that come late and that change nothing if the
// answer is no. To the second the answer for a position goes from yes to no for jobs up
// to the newer of the two that are joined. All of these have ended, so none of their
// commands matters; and for those of open jobs, and of jobs to come, which have higher
// numbers, it stays yes.

// spent tells whether nobody asks any more for a range as it is but to know that it is
// there: no rows are left, and its job, like all before floor, has ended. What no job
// has made, no job has left rows in.
func (r *Range) spent(floor Job) bool {
	return r.State == Foreign && (r.Attempt == Dropped || r.Job == 0) &&
		(r.Job < floor || plant.Bug("own-joined-before-the-end"))
}

// join returns what is to become of the ranges of a chunk that can be joined.
func (c *chunk) join(floor Job) (expect, become []Range) {
	for i := 0; i < len(c.ranges); {
		whole, n := *c.ranges[i], 1
		for ; i+n < len(c.ranges) && whole.spent(floor) && c.ranges[i+n].spent(floor); n++ {
			next := c.ranges[i+n]
			whole.Span.End = next.Span.End
			whole.Version = max(whole.Version, next.Version)
			if whole.Job = max(whole.Job, next.Job); plant.Bug("own-joined-as-older") {
				whole.Job = min(c.ranges[i].Job, next.Job)
			}
			whole.Attempt = Dropped
		}
		if n > 1 {
			for _, r := range c.ranges[i : i+n] {
				expect = append(expect, *r)
			}
			become = append(become, whole)
		}
		i += n
	}
	return expect, become
}

// join joins ranges of jobs before floor in two chunks: that of a range that has just
// changed, and another one, which its job chooses. A command adds a few ranges to a list
// at most, so to look at some hundred each time keeps up with them wherever they are.
func (s *Site) join(e *command.Env, floor Job, changed []Range) {
	for i := range 2 {
		where, _ := s.List.at(changed[0].Span.Start)
		if i > 0 {
			job := slices.MaxFunc(changed, func(a, b Range) int { return cmp.Compare(a.Job, b.Job) }).Job
			// Numbers that follow one another choose chunks that lie far apart.
			where.chunk = int((uint64(job) * 0x9E3779B97F4A7C15 >> 33) % uint64(len(s.List.chunks)))
		}
		if where.chunk >= len(s.List.chunks) {
			continue
		}
		expect, become := s.List.chunks[where.chunk].join(floor)
		if len(become) == 0 {
			continue
		}
		if next, _, err := s.List.change(expect, become); err == nil { // they were just there
			s.record(e, expect, become)
			s.List = next
		}
	}
}
