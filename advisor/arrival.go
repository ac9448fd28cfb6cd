package advisor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cleavekv/cleave/key/ident"
)

// arrival is how the order is known in which rows were written, by which the writes of a moment are judged.
type arrival struct {
	// by is the column that rows were put in the order of; nil if theirs was kept.
	by *column
	// sorted is the column that the input is sorted by though it says nothing of time, so that the
	// writes of a moment are not known; nil if there is none.
	sorted *column
	// shown means that a time or a counter follows the order of the input, or was chosen to.
	shown bool
}

// inOrder is the least correlation of ranks at which a column follows the order of the input: rows that come
// late by a tenth of the time that the input spans still do.
const inOrder = 0.9

// orderRows finds out whether rows came in the order in which they were written, and puts them into it if a time or an
// identifier that grows says that they did not: an export is often sorted by something else, or by nothing.
func (a *analysis) orderRows() error {
	if a.rows < minRows {
		a.arrival.shown = true
		return nil // there is no verdict on so few
	}
	var grows []*column // columns that were given when the row was written
	for _, c := range a.columns {
		counts := c.isCounter(a.valuesOf(c.number, maxSampleRows)) && c.isUnique()
		if !c.isTime() && !c.carriesOrder() && !counts {
			continue
		}
		if math.Abs(a.orderOf(c)) >= inOrder {
			a.arrival.shown = true
			return nil
		}
		if 10*c.values >= 9*a.rows && c.orderRank(a.options.Now) > 0 {
			grows = append(grows, c)
		}
	}
	slices.SortStableFunc(grows, func(x, y *column) int { return cmp.Compare(y.orderRank(a.options.Now), x.orderRank(a.options.Now)) })
	if len(grows) > 0 {
		a.arrival = arrival{by: grows[0], shown: true}
		a.reorder(grows[0])
		for i, c := range a.columns { // a counter shows now
			if err := c.finish(a.valuesOf(i, identValues), a.options.Now); err != nil {
				return err
			}
		}
		return nil
	}
	for _, c := range a.columns {
		if c.distinct.Count().Value < 2 || c.values == 0 || math.Abs(a.orderOf(c)) < 0.999 {
			continue
		}
		if c.typ == typeString && c.recognized.AppendUnsafe && c.isUnique() && haveOneLength(a.valuesOf(c.number, identValues)) {
			a.arrival.shown = true // such as ORD-000123; names in order have several lengths
			continue
		}
		if c.isCounter(a.valuesOf(c.number, maxSampleRows)) {
			a.arrival.shown = true // several rows have one number, such as the lines of an invoice
			c.recognized.AppendUnsafe = true
			continue
		}
		a.arrival.sorted = c
	}
	if a.arrival.shown {
		a.arrival.sorted = nil
	}
	if a.arrival.sorted != nil {
		a.collector.bursts = nil
	}
	return nil
}

// isUnique reports whether nearly all values come once.
func (c *column) isUnique() bool { return c.distinct.Count().Value > 0.9*float64(c.values) }

// denseShare is how many of the numbers between the least and the greatest a counter has used at least. Of numbers that are
// picked at random and hardly ever twice, a fifth is used.
const denseShare = 0.5

// isCounter reports whether values are nearly all the integers of a range, each given once to a thing. Values are a sample.
func (c *column) isCounter(values []string) bool {
	if c.typ != typeInt || c.isTime() || c.purpose == purposeAttribute || len(values) < minRows {
		return false
	}
	least, greatest := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			least, greatest = min(least, float64(n)), max(greatest, float64(n))
		}
	}
	return c.distinct.Count().Value >= max(minRows, denseShare*(greatest-least+1))
}

// carriesOrder reports whether values grow with time by how they are made.
func (c *column) carriesOrder() bool {
	switch c.recognized.Kind {
	case ident.Unknown, ident.Mixed, ident.LowCardinality, ident.RandomInt, ident.UUIDv4, ident.UUIDOther, ident.Opaque:
		return false
	}
	return c.recognized.AppendUnsafe && c.isUnique()
}

// orderRank is how surely a column has the order in which rows were written; 0 means not at all. Identifiers that
// begin with the time do, and times whose name says so; a time of birth or of departure does not, nor one to come.
func (c *column) orderRank(now time.Time) int {
	switch {
	case c.isTime():
	case c.carriesOrder():
		return 4
	default:
		return 2 // a counter, by its values alone
	}
	words := wordsOf(c.name)
	has := func(list string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return containsWord(list, w) })
	}
	switch {
	case c.recognized.Newest.After(now.AddDate(0, 0, 1)):
		return 0
	case has("birth birthday birthdate dob born due expires expiry expiration valid until deadline start end starts ends from to departure arrival scheduled planned delivery deleted last"):
		return 0
	case has("created inserted recorded logged received ingested occurred registered ordered placed ts timestamp"):
		return 3
	case has("updated modified changed"):
		return 1
	}
	return 2
}

// orderOf returns the correlation of ranks (Spearman 1904) of values and places in the input: 1 for values that
// rise, -1 for values that fall, 0 for any order.
func (a *analysis) orderOf(c *column) float64 {
	values := a.valuesOf(c.number, identValues)
	if len(values) < minRows {
		return 0 // too few to tell
	}
	places := make([]int, len(values))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(x, y int) int { return c.compare(values[x], values[y]) })
	ranks := make([]float64, len(values))
	for from := 0; from < len(places); { // equal values share the mean of their ranks
		to := from + 1
		for to < len(places) && c.compare(values[places[from]], values[places[to]]) == 0 {
			to++
		}
		for _, place := range places[from:to] {
			ranks[place] = float64(from+to-1) / 2
		}
		from = to
	}
	mean := float64(len(values)-1) / 2
	var both, squares, all float64
	for place, rank := range ranks {
		both += (rank - mean) * (float64(place) - mean)
		squares += (rank - mean) * (rank - mean)
		all += (float64(place) - mean) * (float64(place) - mean)
	}
	if squares == 0 {
		return 0
	}
	return both / math.Sqrt(squares*all)
}

// reorder puts the sample into the order of a column. Bursts are then runs of the sample.
func (a *analysis) reorder(by *column) {
	rows := a.sampleRows()
	slices.SortStableFunc(rows, func(x, y storedRow) int {
		v, _ := x.value(by.number)
		w, _ := y.value(by.number)
		return by.compare(v, w)
	})
	for i := range rows {
		rows[i].place = uint64(i)
	}
	a.ordered, a.collector.bursts = rows, nil
	runs := len(rows) / burstRows
	for n := range min(runs, maxBursts) {
		from := n * runs / min(runs, maxBursts) * burstRows
		a.collector.bursts = append(a.collector.bursts, burst{number: uint64(n), rows: rows[from : from+burstRows]})
	}
}

// haveOneLength reports whether all values are of one length, as counters behind a prefix are.
func haveOneLength(values []string) bool {
	return !slices.ContainsFunc(values, func(v string) bool { return len(v) != len(values[0]) })
}

// note says what the figures about writes rest on; empty if rows came in the order in which they were written.
func (a *arrival) note() string {
	switch {
	case a.by != nil:
		return fmt.Sprintf("The input is not in the order of %s. The writes of a moment are judged as if rows had been written in that order.", a.by.name)
	case a.sorted != nil:
		return fmt.Sprintf("The input is sorted by %s, which is no time or counter, so it is not known which rows were written at the same moment. Give rows in the order in which they were written.", a.sorted.name)
	case !a.shown:
		return "No time or counter shows in which order rows were written: the writes of a moment take the order of the input for it."
	}
	return ""
}
