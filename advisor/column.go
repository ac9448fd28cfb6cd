package advisor

import (
	"fmt"
	"strings"
	"time"

	"github.com/cleavekv/cleave/advisor/internal/sketch"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/key/ident"
)

// column is what is known about one column while records come.
type column struct {
	name  string // as the input has it
	ident string // as a layout can have it
	// values counts those that are not null. Rows without the column count as null.
	values   uint64
	bytes    uint64
	longest  int
	long     uint64 // values above maxKeptValue
	distinct *sketch.Distinct
	heavy    *sketch.HeavyHitters

	// types counts the types of the first typeRows values; after that typ is settled.
	types   [valueTypes]uint64
	settled bool
	typ     valueType
	// wrong counts values that are not of typ; firstOf is the first line of each type.
	wrong   uint64
	firstOf [valueTypes]int64

	// What finish finds in the sample.
	recognized ident.Recognition
	unit       epochUnit
}

func newColumn(name, identifier string) *column {
	return &column{name: name, ident: identifier, distinct: sketch.NewDistinct(), heavy: sketch.NewHeavyHitters()}
}

// add records a value that is not null.
func (c *column) add(kind ValueKind, text []byte, line int64) {
	c.values++
	c.bytes += uint64(len(text))
	c.longest = max(c.longest, len(text))
	if len(text) > maxKeptValue {
		c.long++
	}
	h := hash.XXH3(text).Uint64()
	c.distinct.Add(h)
	c.heavy.Add(h, text)
	if c.settled && c.typ == typeString {
		return
	}
	t := typeOf(kind, text)
	if c.firstOf[t] == 0 {
		c.firstOf[t] = line
	}
	if c.settled {
		if !t.fits(c.typ) {
			c.wrong++
		}
		return
	}
	c.types[t]++
	if c.values == typeRows {
		c.settleType()
	}
}

// settleType chooses the narrowest type that nearly all values have so far.
func (c *column) settleType() {
	c.settled = true
	for t := typeTime; t > typeString; t-- {
		fitting := c.types[t]
		if t == typeFloat {
			fitting += c.types[typeInt]
		}
		if fitting > 0 && float64(fitting) >= 0.95*float64(c.values) {
			c.typ, c.wrong = t, c.values-fitting
			return
		}
	}
}

// maxWrongShare is the share of values of another type above which a column is one of strings.
const maxWrongShare = 0.01

// finish settles what the last record decides. Sample holds values in the order of arrival.
func (c *column) finish(sample []string, now time.Time) error {
	if !c.settled {
		c.settleType()
	}
	if float64(c.wrong) > maxWrongShare*float64(c.values) {
		c.typ, c.wrong = typeString, 0
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
	return nil
}

// isTime reports whether values can be put into time buckets.
func (c *column) isTime() bool { return c.typ == typeTime || c.typ == typeInt && c.unit != 0 }

// timeOf reads a value as a time.
func (c *column) timeOf(text string) (time.Time, bool) {
	if c.typ == typeTime {
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
	if id == "" {
		id = "column"
	}
	for base, n := id, 2; taken[id]; n++ {
		id = fmt.Sprintf("%s_%d", base, n)
	}
	taken[id] = true
	return id
}
