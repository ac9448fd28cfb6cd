package advisor

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleavekv/cleave/advisor/internal/sketch"
	"github.com/cleavekv/cleave/key/ident"
)

// column is what is known about one column while records come.
type column struct {
	name  string // as the input has it
	id    string // of the registry
	ident string // as a layout can have it
	// number is its place among the columns of the collector; -1 before it has one.
	number int
	// heavy is added to in the order of the input, because that makes a difference to it.
	heavy *sketch.HeavyHitters

	// mu guards the counts, which workers add to in any order.
	mu sync.Mutex
	columnCounts
	distinct *sketch.Distinct

	// What finish finds.
	typ        valueType
	wrong      uint64 // values that are not of typ
	recognized ident.Recognition
	unit       epochUnit
	form       localForm // empty if times begin with the year
	purpose    purpose
	asked      bool // queries or transactions name it
}

// columnCounts are sums over the values of a column.
type columnCounts struct {
	// values counts those that are not null. Rows without the column count as null.
	values  uint64
	bytes   uint64
	longest int
	long    uint64 // values above maxKeptValue
	// types counts values by their narrowest type, and firstOf is the first line of each type.
	types   [valueTypes]uint64
	firstOf [valueTypes]int64
}

// add adds the counts of another part of the input.
func (c *columnCounts) add(part *columnCounts) {
	c.values += part.values
	c.bytes += part.bytes
	c.longest = max(c.longest, part.longest)
	c.long += part.long
	for t, n := range part.types {
		c.types[t] += n
		if first := part.firstOf[t]; first != 0 && (c.firstOf[t] == 0 || first < c.firstOf[t]) {
			c.firstOf[t] = first
		}
	}
}

func newColumn(name string) *column {
	return &column{name: name, number: -1, distinct: sketch.NewDistinct(), heavy: sketch.NewHeavyHitters()}
}

// maxWrongShare is the share of values of another type above which a column is one of strings.
const maxWrongShare = 0.01

// settleType chooses the narrowest type that nearly all values have.
func (c *column) settleType() {
	for t := typeTime; t > typeString; t-- {
		fitting := c.types[t]
		if t == typeFloat {
			fitting += c.types[typeInt]
		}
		if wrong := c.values - fitting; fitting > 0 && float64(wrong) <= maxWrongShare*float64(c.values) {
			c.typ, c.wrong = t, wrong
			return
		}
	}
}

// finish settles what the last record decides. Sample holds values in the order of arrival.
func (c *column) finish(sample []string, now time.Time) error {
	c.settleType()
	if c.typ == typeTime && slices.ContainsFunc(sample, func(v string) bool { return isLocalTime([]byte(v)) }) {
		var known bool
		if c.form, known = localFormOf(sample); !known {
			c.form, c.typ, c.wrong = localForm{}, typeString, 0 // 03/04/2026 is a day of March or of April
		}
		sample = c.standardTimes(sample)
	}
	if len(sample) > 0 {
		var err error
		if c.recognized, err = ident.Recognise(sample, now, ident.Options{}); err != nil {
			return fmt.Errorf("advise: column %s: %w", c.name, err)
		}
	}
	c.unit = map[ident.Kind]epochUnit{
		ident.UnixSeconds: unitSeconds, ident.UnixMillis: unitMillis, ident.UnixMicros: unitMicros, ident.UnixNanos: unitNanos,
	}[c.recognized.Kind]
	c.purpose = c.purposeOf(sample)
	return nil
}

// standardTimes writes times as package key/ident reads them.
func (c *column) standardTimes(values []string) []string {
	standard := make([]string, len(values))
	for i, v := range values {
		standard[i] = v
		if t, ok := c.timeOf(v); ok {
			standard[i] = t.Format(timeLayouts[1])
			if len(v) == len(time.DateOnly) {
				standard[i] = t.Format(time.DateOnly)
			}
		}
	}
	return standard
}

// isTime reports whether values can be put into time buckets.
func (c *column) isTime() bool { return c.typ == typeTime || c.typ == typeInt && c.unit != 0 }

// timeOf reads a value as a time.
func (c *column) timeOf(text string) (time.Time, bool) {
	switch {
	case c.typ == typeTime && c.form != localForm{} && isLocalTime([]byte(text)):
		return c.form.parse(text)
	case c.typ == typeTime:
		return parseTime(text)
	}
	return c.unit.timeOf(text)
}

// wrongLine returns the first line with a value of another type.
func (c *column) wrongLine() (line int64) {
	for t, first := range c.firstOf {
		if first != 0 && !valueType(t).fits(c.typ) && (line == 0 || first < line) {
			line = first
		}
	}
	return line
}

// identifierOf makes a name of a layout out of that of a column. Taken has those that are in use.
func identifierOf(name string, taken map[string]bool) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' && b.Len() > 0:
			b.WriteRune(r)
		case r >= '0' && r <= '9':
			b.WriteString("c")
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
		if b.Len() >= 64 {
			break
		}
	}
	id := b.String()
	if strings.Trim(id, "_") == "" { // nothing is left to know it by
		id = fmt.Sprint("column", len(taken)+1)
	}
	for base, n := id, 2; taken[id]; n++ {
		id = fmt.Sprintf("%s_%d", base, n)
	}
	taken[id] = true
	return id
}
