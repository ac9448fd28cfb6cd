package mover

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// recordFormat is the first byte of a record. Numbers are varints in the order
// of fields, signed ones in zigzag, and bytes follow their length. DESIGN.md has
// the list. Records of firstFormat are read, and have no Marked.
const (
	firstFormat  = 1
	recordFormat = 2
)

// coder writes a record, or reads one. The fields are named once for both, so
// that neither can forget what the other knows. When it writes, it only looks:
// others may look at the same job.
type coder struct {
	b       []byte
	format  byte
	reading bool
	bad     bool
}

// uint writes n, or returns what was read.
func (c *coder) uint(n uint64) uint64 {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, n)
		return n
	}
	n, size := binary.Uvarint(c.b)
	if c.bad = c.bad || size <= 0; c.bad {
		return 0
	}
	c.b = c.b[size:]
	return n
}

func number[T ~uint64](c *coder, n *T) {
	if u := c.uint(uint64(*n)); c.reading {
		*n = T(u)
	}
}

// small is a number that has less room than it might be written with.
func small[T ~uint8 | ~uint32 | ~int](c *coder, n *T) {
	if u := c.uint(uint64(*n)); c.reading {
		*n = T(u)
		c.bad = c.bad || uint64(*n) != u
	}
}

func (c *coder) signed(n *int64) {
	if u := c.uint(uint64(*n)<<1 ^ uint64(*n>>63)); c.reading {
		*n = int64(u>>1) ^ -int64(u&1)
	}
}

func (c *coder) flag(f *bool) {
	n := uint64(0)
	if *f {
		n = 1
	}
	if n = c.uint(n); c.reading {
		*f = n == 1
	}
}

func (c *coder) float(f *float64) {
	if n := c.uint(math.Float64bits(*f)); c.reading {
		*f = math.Float64frombits(n)
	}
}

// count is how many of something follow. Each takes a byte at least.
func (c *coder) count(n int) int {
	u := c.uint(uint64(n))
	if c.bad = c.bad || c.reading && u > uint64(len(c.b)); c.bad {
		return 0
	}
	return int(u)
}

// data is bytes. Empty ones are read as nil.
func (c *coder) data(p *[]byte) {
	n := c.count(len(*p))
	if !c.reading {
		c.b = append(c.b, *p...)
		return
	}
	if *p = nil; n > 0 {
		*p, c.b = bytes.Clone(c.b[:n]), c.b[n:]
	}
}

func (c *coder) text(s *string) {
	b := []byte(*s)
	if c.data(&b); c.reading {
		*s = string(b)
	}
}

func list[T any](c *coder, of *[]T, each func(*T)) {
	n := c.count(len(*of))
	if c.reading {
		*of = nil
		if n > 0 {
			*of = make([]T, n)
		}
	}
	for i := range *of {
		each(&(*of)[i])
	}
}

func (c *coder) position(p *partition.Position) { c.data((*[]byte)(p)) }

func (c *coder) span(s *partition.Span) {
	c.position(&s.Start)
	c.position(&s.End)
}

func (c *coder) ownRange(r *own.Range) {
	c.span(&r.Span)
	number(c, &r.Version)
	small(c, &r.State)
	number(c, &r.Job)
	number(c, &r.Attempt)
	number(c, &r.Upto)
}

func (c *coder) keyspace(k **partition.Keyspace) {
	has := *k != nil
	if c.flag(&has); !has {
		return
	}
	if c.reading {
		*k = new(partition.Keyspace)
	}
	ks := *k
	small(c, &ks.ID)
	c.text(&ks.Name)
	small(c, &ks.Kind)
	small(c, &ks.Slots)
	c.text(&ks.Layout)
}

func (c *coder) groups(ids *[]partition.GroupID) {
	list(c, ids, func(g *partition.GroupID) { number(c, g) })
}

func (c *coder) labels(l *partition.Labels) {
	s := l.String()
	c.text(&s)
	if c.reading {
		var err error
		*l, err = partition.ParseLabels(s)
		c.bad = c.bad || err != nil
	}
}

// Append appends the record of the job to dst.
func (j *Job) Append(dst []byte) []byte { return j.append(dst, recordFormat) }

func (j *Job) append(dst []byte, format byte) []byte {
	c := coder{b: append(dst, format), format: format}
	c.job(j)
	return c.b
}

// Decode reads a record. It takes exactly what Append writes, or wrote.
func Decode(b []byte) (Job, error) {
	var j Job
	if len(b) == 0 || b[0] < firstFormat || b[0] > recordFormat {
		return Job{}, fmt.Errorf("%w: %d bytes", ErrRecord, len(b))
	}
	c := coder{b: b[1:], format: b[0], reading: true}
	c.job(&j)
	if c.bad || len(c.b) > 0 || !j.sound() || !bytes.Equal(j.append(nil, c.format), b) {
		return Job{}, fmt.Errorf("%w: a job of %d bytes", ErrRecord, len(b))
	}
	if c.format == firstFormat && j.Version != 0 && len(j.Labels) == 0 {
		j.Marked = j.Groups // one of them at least, and nobody knows which
	}
	return j, nil
}

// sound tells whether the phase has what it needs: what is read is acted upon.
func (j *Job) sound() bool {
	_, known := phaseNames[j.Phase]
	if !known || j.Kind < Split || j.Kind > Undrain {
		return false
	}
	for _, r := range j.Held {
		if r.State != own.Serving {
			return false
		}
	}
	held := 1
	if j.Kind == Merge {
		held = 2
	}
	remote := j.Remote()
	switch {
	case j.Phase.Final():
		return true
	case j.Kind.composite():
		return j.Phase >= Marking
	case j.Phase == Planned:
		return j.Version == 0
	case j.Phase >= Marking || len(j.Held) != held || j.Phase.decided() != (j.Version != 0):
		return false
	case j.Phase == Deciding || j.Phase == Releasing || j.Phase == Publishing:
		return !remote || j.Freezes > 0 && j.Attempt > 0
	case j.Phase.Frozen():
		return remote && j.Freezes > 0 && j.Attempt > 0
	}
	return remote && j.Attempt > 0
}

// job is all fields, in the order in which they are written.
func (c *coder) job(j *Job) {
	number(c, &j.ID)
	small(c, &j.Kind)
	small(c, &j.Phase)
	number(c, &j.Rev)
	number(c, &j.Round)
	number(c, &j.Parent)
	number(c, &j.Floor)
	number(c, &j.Shard)
	number(c, &j.Right)
	number(c, &j.Expect)
	number(c, &j.ExpectRight)
	c.span(&j.Span)
	c.keyspace(&j.In)
	list(c, &j.At, c.position)
	number(c, &j.From)
	number(c, &j.To)
	c.flag(&j.Local)
	number(c, &j.Version)
	list(c, &j.Held, c.ownRange)
	for _, n := range []*uint64{&j.Attempt, &j.Freezes, &j.Base, &j.Upto, &j.Verified, &j.End} {
		number(c, n)
	}
	c.data(&j.Cursor)
	number(c, &j.VersionFloor)
	c.signed(&j.ClockFloorMS)
	c.groups(&j.Groups)
	list(c, &j.Labels, c.labels)
	small(c, &j.Want)
	small(c, &j.Parallel)
	c.flag(&j.Paused)
	c.flag(&j.Undo)
	c.flag(&j.Again)
	number(c, &j.Throttle)
	c.signed(&j.NotBeforeMS)
	c.text(&j.Why)
	c.price(&j.Plan)
	for _, n := range []*uint64{&j.Cost.Rows, &j.Cost.Bytes, &j.Cost.Dropped, &j.Cost.Rounds, &j.Cost.Children, &j.Cost.Splits} {
		number(c, n)
	}
	for _, n := range []*int64{&j.Cost.PauseMS, &j.Cost.LongestMS, &j.CreatedMS, &j.ChangedMS, &j.EndedMS, &j.FrozenMS} {
		c.signed(n)
	}
	if c.format > firstFormat {
		c.groups(&j.Marked)
	}
}

func (c *coder) price(p *Price) {
	number(c, &p.Rows)
	number(c, &p.Bytes)
	small(c, &p.Moves)
	small(c, &p.Splits)
	c.signed(&p.DurationMS)
	c.signed(&p.PauseMS)
	for _, f := range []*float64{&p.Before.Bytes, &p.Before.Heat, &p.After.Bytes, &p.After.Heat} {
		c.float(f)
	}
}
