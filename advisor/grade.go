package advisor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// Scores are the properties of a key, each from 0, useless, to 1, perfect. DESIGN.md has the formulas.
// What is not known is -1 and counts for nothing.
type Scores struct {
	Cardinality float64 `json:"cardinality"`
	Balance     float64 `json:"balance"`
	Writes      float64 `json:"writes"`
	LargestKey  float64 `json:"largest_key"`
	Presence    float64 `json:"presence"`
	Queries     float64 `json:"queries"`
	Stability   float64 `json:"stability"`
	Local       float64 `json:"local_transactions"`
}

const unknownScore = -1

// evenEnough is the skew up to which shards count as even: a shard with a tenth more than the mean is
// no reason to choose another key.
const evenEnough = 1.1

// keysPerShard is how many keys for each shard are enough, after which more do not count.
const keysPerShard = 10

// score computes the properties of a candidate, what it costs, and the sum of both from 0 to 100.
func (a *analysis) score(c *candidate, r *Result) (Scores, float64) {
	p, fit := &c.place, r.Queries
	s := Scores{
		Cardinality: cardinalityScore(float64(p.keys) / float64(a.options.Shards)),
		Balance:     min(1, evenEnough/p.skews[0].Value),
		Writes:      unknownScore,
		LargestKey:  min(1, key.DefaultPartitionBytes/max(1, p.largestKey.Value*a.allBytes())),
		Presence:    p.present.Value,
		Queries:     unknownScore,
		Stability:   unknownScore,
		Local:       unknownScore,
	}
	if a.options.Traffic {
		s.LargestKey = unknownScore // of what is stored nothing is known
	}
	if p.writesKnown {
		s.Writes = min(1, evenEnough/p.writes.Value)
	}
	if fit != nil {
		s.Queries = fit.Single + fit.Multi/2
		s.Stability = 1 - fit.KeyUpdates
		if fit.CrossShard >= 0 {
			s.Local = 1 - fit.CrossShard/2
		}
	}
	if r.Together != nil {
		s.Local = 1 - r.Together.CrossShard.Value/2
	}
	least, sum, n := 1.0, 0.0, 0.0
	for _, v := range s.list() {
		if v >= 0 {
			least = min(least, v)
			sum += v
			n++
		}
	}
	points := 100*(0.75*least+0.25*sum/n) - a.price(c, fit != nil)
	return s, math.Round(10*max(0, points)) / 10
}

func (s *Scores) list() [8]float64 {
	return [8]float64{s.Cardinality, s.Balance, s.Writes, s.LargestKey, s.Presence, s.Queries, s.Stability, s.Local}
}

// cardinalityScore is 0.3 for one key a shard and 1 for ten.
func cardinalityScore(perShard float64) float64 {
	if perShard <= 1 {
		return 0.3 * perShard
	}
	return min(1, 0.3+0.7*math.Log(perShard)/math.Log(keysPerShard))
}

// wholePartitionPoints is what a key is charged if all queries for a range within a partition have to read all of it.
const wholePartitionPoints = 15

// price is what a key costs its readers, in points.
func (a *analysis) price(c *candidate, queriesKnown bool) float64 {
	points, fields, salted := 0.0, 0, false
	for _, f := range c.layout.Fields() {
		if !f.Partition {
			break
		}
		switch {
		case f.Salts > 0 && f.Column == "":
			points += 2 + math.Log2(float64(f.Salts))
			salted = true
		case f.Salts > 0:
			points += 1 + math.Log2(float64(f.Salts))/2
		case f.Hash:
			points++ // no scans in the order of the column
			if col := a.columnNamed(f.Column); col != nil && col.isTime() {
				points += 6 // times are asked for by ranges
			}
		default:
			fields++
			if f.Bucket != 0 {
				points += 2
			}
		}
	}
	points += 2 * float64(max(0, fields-1))
	if c.orderedBefore(a.isTimeNamed) != "" {
		points++ // the newest rows of a partition are not found at one end of it
	}
	points += wholePartitionPoints * c.wholePartitionShare(a.options.Queries, a.nameOf)
	if c.kind == partition.Hash {
		points++ // no scans across keys
		if col := a.columnNamed(c.layout.Fields()[0].Column); col != nil && (col.isTime()) {
			points += 6 // times are asked for by ranges
		}
	}
	if queriesKnown {
		return points
	}
	if !a.options.Traffic {
		points += purposePoints[a.worstPurpose(c)]
	}
	// Without queries the guess is that rows are asked for together that share an entity.
	if !salted {
		points += 10 * (1 - c.place.locality)
	}
	if !a.keepsTogether(c) {
		points += 3
	}
	return points
}

// isTimeNamed reports whether a column of a layout is a time.
func (a *analysis) isTimeNamed(name string) bool {
	col := a.columnNamed(name)
	return col != nil && col.isTime()
}

// orderedBefore returns the time by which rows of a partition are ordered after something else; empty if there is none.
func (c *candidate) orderedBefore(isTime func(string) bool) string {
	fields := c.layout.Fields()
	for i, f := range fields {
		if !f.Partition && isTime(f.Column) {
			if fields[i-1].Partition {
				return ""
			}
			return f.Column
		}
	}
	return ""
}

// worstPurpose returns the purpose of the column of the partition that programs are least likely to ask for. What
// transactions decide on is asked for.
func (a *analysis) worstPurpose(c *candidate) purpose {
	worst := purposeIdentifier
	for i, f := range c.layout.Fields() {
		if !f.Partition {
			break
		}
		col := a.columnNamed(f.Column)
		if col == nil || col.asked || f.Salts > 0 || i > 0 && col.isTime() {
			continue
		}
		if purposePoints[col.purpose] > purposePoints[worst] {
			worst = col.purpose
		}
	}
	return worst
}

// keepsTogether reports whether a partition has several rows. Of one column that is known of all rows;
// of several the sample has to show it, where few rows of one partition may meet.
func (a *analysis) keepsTogether(c *candidate) bool {
	var columns []*column
	whole := true // no bucket and no salt
	for _, f := range c.layout.Fields() {
		if !f.Partition {
			break
		}
		if f.Hash {
			continue // its column is in the key as well
		}
		whole = whole && f.IsColumn()
		if col := a.columnNamed(f.Column); col != nil {
			columns = append(columns, col)
		}
	}
	if whole && len(columns) == 1 {
		return columns[0].distinct.Count().Value < 0.9*float64(columns[0].values)
	}
	return c.place.partitions <= 9*a.sim.sampled/10/a.step
}

// gradeOf returns the grade of a score.
func gradeOf(score float64) string {
	for _, g := range [...]struct {
		grade string
		least float64
	}{{"A", 85}, {"B", 70}, {"C", 50}, {"D", 30}} {
		if score >= g.least {
			return g.grade
		}
	}
	return "F"
}

// compareResults ranks results: those with a grade first, by points, then the simpler, then by name so that runs agree.
func compareResults(a, b *Result) int {
	noGrade := func(r *Result) int {
		if r.Grade == "?" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(noGrade(a), noGrade(b)), cmp.Compare(b.Score, a.Score), cmp.Compare(len(a.Layout), len(b.Layout)), cmp.Compare(a.Layout, b.Layout), cmp.Compare(a.Kind, b.Kind))
}

// explain returns what is worst about a key, in one sentence, and the names of the patterns behind it.
func (a *analysis) explain(c *candidate, r *Result) (sentence string, patterns []string) {
	p := &c.place
	for i, f := range c.layout.Fields() {
		col := a.columnNamed(f.Column)
		if col == nil || !f.Partition && i > 0 {
			continue
		}
		patterns = append(patterns, a.patternsOf(col)...)
	}
	slices.Sort(patterns)
	patterns = slices.Compact(patterns)
	s := &r.Scores
	least := 1.0
	for _, v := range s.list() {
		if v >= 0 {
			least = min(least, v)
		}
	}
	shards := float64(a.options.Shards)
	data, writes, fullest := "data and writes", "writes", "the fullest shard has"
	if a.options.Traffic {
		data, writes, fullest = "operations", "operations", "the busiest shard moves"
	}
	switch {
	case least >= 0.9:
		sentence = "spreads " + data + " evenly"
		unguided := r.Queries == nil && r.Together == nil && !a.options.Traffic
		switch {
		case unguided && a.worstPurpose(c) == purposeAttribute:
			sentence += ", but by an attribute that programs hardly ask for"
		case c.layout.Salts() != 1 || p.locality <= 0.9 || !a.keepsTogether(c):
		case unguided:
			sentence += ", and keeps rows of one " + listPartition(c.layout) + " together"
		default:
			sentence += ", and keeps together what belongs together"
		}
	case least == s.Presence:
		sentence = fmt.Sprintf("%.0f %% of rows lack it", 100*(1-p.present.Value))
	case least == s.Cardinality:
		sentence = fmt.Sprintf("only %d values for %d shards", p.keys, a.options.Shards)
		if p.keys == 1 {
			sentence = "it has the same value everywhere"
		}
	case least == s.Writes:
		sentence = fmt.Sprintf("at any moment one shard takes %.0f %% of all %s", 100*min(1, p.writes.Value/shards), writes)
	case least == s.Queries:
		sentence = fmt.Sprintf("%.0f %% of queries ask every shard", 100*r.Queries.Scatter)
		if r.Queries.Scatter < 0.01 {
			sentence = fmt.Sprintf("%.0f %% of queries ask several shards", 100*r.Queries.Multi)
		}
	case least == s.Stability:
		sentence = fmt.Sprintf("%.0f %% of updates change the key, so that rows move", 100*r.Queries.KeyUpdates)
	case least == s.Local:
		sentence = fmt.Sprintf("%.0f %% of transactions cross shards", 200*(1-s.Local))
	case least == s.LargestKey:
		sentence = fmt.Sprintf("one key has %.0f MB and cannot be split", p.largestKey.Value*a.allBytes()/1e6)
	default:
		sentence = fmt.Sprintf("%s %.1f times the mean; one key alone is %.1f times", fullest, p.skews[0].Value, p.largestKey.Value*shards)
	}
	return sentence, patterns
}

// listPartition names the columns that rows of one partition agree in.
func listPartition(layout *key.Layout) string {
	var names []string
	for _, f := range layout.Fields() {
		switch {
		case !f.Partition || f.Column == "" || f.Hash:
		case f.Bucket != 0:
			names = append(names, fmt.Sprintf("%v of %s", f.Bucket, f.Column))
		default:
			names = append(names, f.Column)
		}
	}
	return strings.Join(names, " and ")
}

// Thresholds of patterns. The last is the rule by which a tenant directory pays for itself.
const (
	nullHeavyShare  = 0.05
	dominantOverMid = 100
)

// patternsOf names what is bad about a column as a key.
func (a *analysis) patternsOf(c *column) (found []string) {
	distinct := c.distinct.Count()
	top := c.heavy.Top(1)
	switch {
	case c.values == 0:
		return []string{"empty"}
	case distinct.High == 1:
		found = append(found, "constant")
	case distinct.High < float64(keysPerShard*a.options.Shards):
		found = append(found, "low cardinality")
	}
	if c.recognized.AppendUnsafe {
		found = append(found, "monotonic")
	}
	if len(top) > 0 && distinct.Value > float64(a.options.Shards) {
		if float64(top[0].Count)*float64(a.options.Shards) > float64(c.values) {
			found = append(found, "celebrity")
		}
		if float64(top[0].Count) > dominantOverMid*c.distinct.Repeats().High {
			found = append(found, "dominant value")
		}
	}
	if float64(a.rows-c.values) > nullHeavyShare*float64(a.rows) {
		found = append(found, "null-heavy")
	}
	if float64(c.long) > maxWrongShare*float64(c.values) {
		found = append(found, "too long for a key")
	}
	return found
}

// fanOut words what readers pay for a layout.
func (a *analysis) fanOut(c *candidate) (price string) {
	price = "none"
	if c.kind == partition.Hash {
		price = "no scans across keys"
	}
	if name := c.orderedBefore(a.isTimeNamed); name != "" {
		price = "rows of a partition are not in the order of " + name
	}
	if share := c.wholePartitionShare(a.options.Queries, a.nameOf); share > 0 {
		price = fmt.Sprintf("%.0f %% of queries read a whole partition for a range of it", 100*share)
	}
	for _, f := range c.layout.Fields() {
		switch {
		case f.Salts > 0 && f.Column == "":
			price = fmt.Sprintf("range reads fan out x%d", f.Salts)
		case f.Salts > 0:
			price = fmt.Sprintf("reads without %s fan out x%d", f.Column, f.Salts)
		case f.Hash:
			price = fmt.Sprintf("no scans in the order of %s", f.Column)
		case f.Bucket != 0 && f.Partition:
			price = fmt.Sprintf("reads over time ask for each %v", f.Bucket)
		}
	}
	return price
}
