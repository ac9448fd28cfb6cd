package advisor

import (
	"fmt"
	"math"
	"strings"

	"github.com/cleavekv/cleave/advisor/internal/sketch"
)

// Tenant is a value that has so many more rows than others that it is worth a place of its own.
type Tenant struct {
	// Column and Value name it.
	Column string `json:"column"`
	Value  string `json:"value"`
	// Share of all rows. The bounds are certain.
	Share Interval `json:"share"`
	// TimesMedian is how many times the rows of the value in the middle it has.
	TimesMedian float64 `json:"times_median"`
	// Shards is how many shards of its own hold its rows, so that none has more than the mean.
	Shards int `json:"shards"`
	// Split is the command that gives it these shards, where a range keyspace has a key that begins
	// with the column; empty if the value is too long to be named.
	Split string `json:"split"`
}

// maxTenants is how many tenants are named. Half of the mean of a shard is the least that is worth a
// place: smaller ones share shards without harm.
const (
	maxTenants       = 20
	leastTenantShare = 0.5
)

// findTenants names the values that have more than 100 times the rows of the median: from there on a
// directory of tenants pays for itself.
func (a *analysis) findTenants() (found []Tenant) {
	for i, c := range a.columns {
		distinct := c.distinct.Count().Value
		if c.isTime() || c.typ == typeFloat || c.typ == typeBool || distinct <= float64(a.options.Shards) {
			continue
		}
		median := c.distinct.Repeats()
		for _, h := range c.heavy.Top(maxTenants) {
			share := float64(h.Count) / float64(a.rows)
			if float64(h.Count) <= dominantOverMid*median.High || share*float64(a.options.Shards) < leastTenantShare || len(found) == maxTenants {
				break
			}
			t := Tenant{
				Column: c.ident, Value: h.Text, Share: a.shareOf(h),
				TimesMedian: float64(h.Count) / median.Value,
				Shards:      int(math.Ceil(share * float64(a.options.Shards))),
			}
			if start, ok := c.appendElement(nil, element{column: i}, h.Text); ok && len(h.Text) < sketch.MaxKeptText {
				t.Split = "cleave shard split --keyspace NAME --key '" + quoteKey(start) + "' --key '" + quoteKey(nextPrefix(start)) + "'"
			}
			found = append(found, t)
		}
	}
	return found
}

// shareOf returns the share of all rows that a frequent value has.
func (a *analysis) shareOf(h sketch.Heavy) Interval {
	rows := float64(a.rows)
	share, missed := float64(h.Count)/rows, float64(h.Missed)/rows
	return Interval{share, share + missed/2, share + missed}
}

// nextPrefix returns the first key that is above all that begin with a prefix.
func nextPrefix(prefix []byte) []byte {
	next := append([]byte(nil), prefix...)
	for n := len(next); n > 0; n-- {
		if next[n-1] < 0xff {
			next[n-1]++
			return next[:n]
		}
	}
	return nil
}

// quoteKey writes a key as the command line takes it, in single quotes.
func quoteKey(k []byte) string {
	var b strings.Builder
	for _, c := range k {
		if c < ' ' || c >= 0x7f || c == '\'' || c == '\\' {
			fmt.Fprintf(&b, `\x%02x`, c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
