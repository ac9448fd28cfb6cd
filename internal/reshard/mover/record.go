package mover

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// recordFormat is the first byte of a record. Numbers are varints in the order
// of fields, signed ones in zigzag, and bytes follow their length. DESIGN.md has
// the list. Records of firstFormat are read, and have no MarkedGroups.
const (
	firstFormat  = 1
	recordFormat = 2
)

// recordCoder writes a record, or reads one. The fields are named once for both, so
// that neither can forget what the other knows. When it writes, it only looks:
// others may read the same job.
type recordCoder struct {
	buf        []byte
	format     byte
	isDecoding bool
	isDamaged  bool
}

// codeUint writes n, or returns what was read.
func (c *recordCoder) codeUint(n uint64) uint64 {
	if !c.isDecoding {
		c.buf = binary.AppendUvarint(c.buf, n)
		return n
	}
	n, size := binary.Uvarint(c.buf)
	if c.isDamaged = c.isDamaged || size <= 0; c.isDamaged {
		return 0
	}
	c.buf = c.buf[size:]
	return n
}

func codeNumber[T ~uint64](c *recordCoder, n *T) {
	if u := c.codeUint(uint64(*n)); c.isDecoding {
		*n = T(u)
	}
}

// codeSmall is a number that has less room than it might be written with.
func codeSmall[T ~uint8 | ~uint32 | ~int](c *recordCoder, n *T) {
	if u := c.codeUint(uint64(*n)); c.isDecoding {
		*n = T(u)
		c.isDamaged = c.isDamaged || uint64(*n) != u
	}
}

func (c *recordCoder) codeSigned(n *int64) {
	if u := c.codeUint(uint64(*n)<<1 ^ uint64(*n>>63)); c.isDecoding {
		*n = int64(u>>1) ^ -int64(u&1)
	}
}

func (c *recordCoder) codeBool(f *bool) {
	n := uint64(0)
	if *f {
		n = 1
	}
	if n = c.codeUint(n); c.isDecoding {
		*f = n == 1
	}
}

func (c *recordCoder) codeFloat(f *float64) {
	if n := c.codeUint(math.Float64bits(*f)); c.isDecoding {
		*f = math.Float64frombits(n)
	}
}

// codeCount is how many of something follow. Each takes a byte at least.
func (c *recordCoder) codeCount(n int) int {
	u := c.codeUint(uint64(n))
	if c.isDamaged = c.isDamaged || c.isDecoding && u > uint64(len(c.buf)); c.isDamaged {
		return 0
	}
	return int(u)
}

// codeBytes is bytes. Empty ones are read as nil.
func (c *recordCoder) codeBytes(p *[]byte) {
	n := c.codeCount(len(*p))
	if !c.isDecoding {
		c.buf = append(c.buf, *p...)
		return
	}
	if *p = nil; n > 0 {
		*p, c.buf = bytes.Clone(c.buf[:n]), c.buf[n:]
	}
}

func (c *recordCoder) codeString(s *string) {
	b := []byte(*s)
	if c.codeBytes(&b); c.isDecoding {
		*s = string(b)
	}
}

func codeList[T any](c *recordCoder, of *[]T, each func(*T)) {
	n := c.codeCount(len(*of))
	if c.isDecoding {
		*of = nil
		if n > 0 {
			*of = make([]T, n)
		}
	}
	for i := range *of {
		each(&(*of)[i])
	}
}

func (c *recordCoder) codePosition(p *partition.Position) { c.codeBytes((*[]byte)(p)) }

func (c *recordCoder) codeSpan(s *partition.Span) {
	c.codePosition(&s.Start)
	c.codePosition(&s.End)
}

func (c *recordCoder) codeRange(r *ownership.Range) {
	c.codeSpan(&r.Span)
	codeNumber(c, &r.Version)
	codeSmall(c, &r.State)
	codeNumber(c, &r.Job)
	codeNumber(c, &r.Attempt)
	codeNumber(c, &r.CopiedUpTo)
}

func (c *recordCoder) codeKeyspace(k **partition.Keyspace) {
	has := *k != nil
	if c.codeBool(&has); !has {
		return
	}
	if c.isDecoding {
		*k = new(partition.Keyspace)
	}
	ks := *k
	codeSmall(c, &ks.ID)
	c.codeString(&ks.Name)
	codeSmall(c, &ks.Kind)
	codeSmall(c, &ks.Slots)
	c.codeString(&ks.Layout)
}

func (c *recordCoder) codeGroups(ids *[]partition.GroupID) {
	codeList(c, ids, func(g *partition.GroupID) { codeNumber(c, g) })
}

func (c *recordCoder) codeLabels(l *partition.Labels) {
	s := l.String()
	c.codeString(&s)
	if c.isDecoding {
		var err error
		*l, err = partition.ParseLabels(s)
		c.isDamaged = c.isDamaged || err != nil
	}
}

// AppendRecord appends the record of the job to dst.
func (j *Job) AppendRecord(dst []byte) []byte { return j.appendFormat(dst, recordFormat) }

func (j *Job) appendFormat(dst []byte, format byte) []byte {
	c := recordCoder{buf: append(dst, format), format: format}
	c.codeJob(j)
	return c.buf
}

// DecodeRecord reads a record. It takes exactly what Append writes, or wrote.
func DecodeRecord(b []byte) (Job, error) {
	var j Job
	if len(b) == 0 || b[0] < firstFormat || b[0] > recordFormat {
		return Job{}, fmt.Errorf("%w: %d bytes", ErrBadRecord, len(b))
	}
	c := recordCoder{buf: b[1:], format: b[0], isDecoding: true}
	c.codeJob(&j)
	if c.isDamaged || len(c.buf) > 0 || !j.isConsistent() || !bytes.Equal(j.appendFormat(nil, c.format), b) {
		return Job{}, fmt.Errorf("%w: a job of %d bytes", ErrBadRecord, len(b))
	}
	if c.format == firstFormat && j.Version != 0 && len(j.Labels) == 0 {
		j.MarkedGroups = j.Groups // at least one of them is marked, and it is unknown which
	}
	return j, nil
}

// isConsistent reports whether the phase has what it needs: what is read is acted upon.
func (j *Job) isConsistent() bool {
	_, known := phaseNames[j.Phase]
	if !known || j.Kind < Split || j.Kind > Undrain {
		return false
	}
	for _, r := range j.SourceRanges {
		if r.State != ownership.Serving {
			return false
		}
	}
	held := 1
	if j.Kind == Merge {
		held = 2
	}
	remote := j.IsRemote()
	switch {
	case j.Phase.IsFinal():
		return true
	case j.Kind.isComposite():
		return j.Phase >= Marking
	case j.Phase == Planned:
		return j.Version == 0
	case j.Phase >= Marking || len(j.SourceRanges) != held || j.Phase.isDecided() != (j.Version != 0):
		return false
	case j.Phase == Deciding || j.Phase == Releasing || j.Phase == Publishing:
		return !remote || j.Freezes > 0 && j.Attempt > 0
	case j.Phase.IsFrozen():
		return remote && j.Freezes > 0 && j.Attempt > 0
	}
	return remote && j.Attempt > 0
}

// codeJob is all fields, in the order in which they are written.
func (c *recordCoder) codeJob(j *Job) {
	codeNumber(c, &j.ID)
	codeSmall(c, &j.Kind)
	codeSmall(c, &j.Phase)
	codeNumber(c, &j.Rev)
	codeNumber(c, &j.Round)
	codeNumber(c, &j.Parent)
	codeNumber(c, &j.JobFloor)
	codeNumber(c, &j.Shard)
	codeNumber(c, &j.Right)
	codeNumber(c, &j.Expect)
	codeNumber(c, &j.ExpectRight)
	c.codeSpan(&j.Span)
	c.codeKeyspace(&j.In)
	codeList(c, &j.At, c.codePosition)
	codeNumber(c, &j.From)
	codeNumber(c, &j.To)
	c.codeBool(&j.Local)
	codeNumber(c, &j.Version)
	codeList(c, &j.SourceRanges, c.codeRange)
	for _, n := range []*uint64{&j.Attempt, &j.Freezes, &j.BasePosition, &j.CopiedUpTo, &j.VerifiedUpTo, &j.EndPosition} {
		codeNumber(c, n)
	}
	c.codeBytes(&j.Cursor)
	codeNumber(c, &j.VersionFloor)
	c.codeSigned(&j.ClockFloorMS)
	c.codeGroups(&j.Groups)
	codeList(c, &j.Labels, c.codeLabels)
	codeSmall(c, &j.TargetGroups)
	codeSmall(c, &j.Parallel)
	c.codeBool(&j.Paused)
	c.codeBool(&j.Undo)
	c.codeBool(&j.Recopy)
	codeNumber(c, &j.Throttle)
	c.codeSigned(&j.NotBeforeMS)
	c.codeString(&j.Reason)
	c.codePrice(&j.Plan)
	for _, n := range []*uint64{&j.Cost.Rows, &j.Cost.Bytes, &j.Cost.DroppedRows, &j.Cost.CatchUpRounds, &j.Cost.Children, &j.Cost.Splits} {
		codeNumber(c, n)
	}
	for _, n := range []*int64{&j.Cost.PauseMS, &j.Cost.LongestPauseMS, &j.CreatedMS, &j.ChangedMS, &j.EndedMS, &j.FrozenMS} {
		c.codeSigned(n)
	}
	if c.format > firstFormat {
		c.codeGroups(&j.MarkedGroups)
	}
}

func (c *recordCoder) codePrice(p *Price) {
	codeNumber(c, &p.Rows)
	codeNumber(c, &p.Bytes)
	codeSmall(c, &p.Moves)
	codeSmall(c, &p.Splits)
	c.codeSigned(&p.DurationMS)
	c.codeSigned(&p.PauseMS)
	for _, f := range []*float64{&p.Before.Bytes, &p.Before.Heat, &p.After.Bytes, &p.After.Heat} {
		c.codeFloat(f)
	}
}
