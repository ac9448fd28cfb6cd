package advisor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleavekv/cleave/advisor/internal/sketch"
	"github.com/cleavekv/cleave/partition"
)

// ErrOptions means that an option is out of its range; the message says what to use.
var ErrOptions = errors.New("advise: bad options")

// ErrNoRows means that the source has no record, so that there is nothing to advise on.
var ErrNoRows = errors.New("advise: the input has no rows")

// Options specify what is analysed. The zero value works.
type Options struct {
	// Shards is how many shards there are to be. Default 16. From 2 to 1024. What is found for 2 and 4
	// times as many is reported too.
	Shards int
	// Kinds are the kinds of keyspaces that candidates are for. Default hash and range.
	Kinds []partition.Kind
	// Candidates are the layouts to judge, each for every kind. Default those that the columns suggest.
	Candidates []string
	// Current is the layout in use, which is judged too, and CurrentKind the kind of its keyspace.
	// Default none, and the first of Kinds.
	Current     string
	CurrentKind *partition.Kind
	// Queries are what programs ask. Without them, how well keys suit queries is not known.
	Queries []Query
	// ReadQueries, if set, returns Queries when the columns are known, for logs whose statements do not
	// say which of their names are columns.
	ReadQueries func(columns []string) ([]Query, error)
	// Together are kinds of transactions: what has to be decided at once. Without them, how many
	// cross shards is known only as far as Queries have transactions.
	Together []Together
	// Fraction is the share of all records that the source has, if it is a sample. Default 1. The bytes
	// of keys are those of all records.
	Fraction float64
	// Traffic means that records are operations on keys, not what is stored: sizes are bytes that they
	// move, and what a report says of writes is of all operations.
	Traffic bool
	// Now is the present, which times in identifiers lie around. Default time.Now.
	Now time.Time
	// Workers is how many goroutines parse and count. Default as many as there are processors, at most
	// 16. It makes no difference to the report.
	Workers int
	// Seed chooses the sample. Equal seeds choose equal rows.
	Seed uint64
	// Progress, if set, is called now and then, by the goroutine that called Analyze.
	Progress func(Progress)
}

// Progress is how far an analysis has come.
type Progress struct {
	Rows  uint64
	Input int64 // bytes of the input
}

// Interval is an estimate with its bounds, which hold the truth 95 % of the time.
type Interval struct {
	Low   float64 `json:"low"`
	Value float64 `json:"value"`
	High  float64 `json:"high"`
}

// Report is what an analysis has found.
type Report struct {
	// At is Options.Now.
	At     time.Time `json:"at"`
	Rows   uint64    `json:"rows"`
	Bytes  uint64    `json:"bytes"`
	Shards int       `json:"shards"`
	// SampledRows is how many rows the candidates were simulated on.
	SampledRows int `json:"sampled_rows"`
	// Interrupted means that the input was not read to its end.
	Interrupted bool `json:"interrupted"`
	// Traffic is Options.Traffic.
	Traffic bool `json:"traffic,omitempty"`
	// Skipped counts records that could not be read, and Problems names the first of all problems.
	Skipped  int64     `json:"skipped"`
	Problems []Problem `json:"problems"`
	Columns  []Column  `json:"columns"`
	// Candidates are ranked, the best first.
	Candidates []Result `json:"candidates"`
	// Current is the key in use, if there was one named.
	Current *Result `json:"current"`
	// Fix is what to do about the key in use, empty if it is good.
	Fix string `json:"fix"`
	// Tenants are values with so many rows that each is worth a place of its own.
	Tenants []Tenant `json:"tenants"`
	// DecidedTogether are the columns that all of Options.Together have: the smallest state that is
	// decided at once are the rows that agree in them.
	DecidedTogether []string `json:"decided_together,omitempty"`
	// Drift is what Compare has found, if a report that was kept was compared with this one.
	Drift *Drift `json:"drift,omitempty"`
	// Notes limit what the report means.
	Notes []string `json:"notes"`
}

// Column is what was found about a column.
type Column struct {
	Name string `json:"name"`
	// Identifier is how layouts name it.
	Identifier string `json:"identifier"`
	// Type is the type that layouts declare for it.
	Type string `json:"type"`
	// Kind is what package key/ident takes it for.
	Kind     string   `json:"kind"`
	Distinct Interval `json:"distinct"`
	// Nulls is the share of rows without a value.
	Nulls float64 `json:"nulls"`
	// Top are the most frequent values.
	Top []TopValue `json:"top"`
	// Median is how many rows the value in the middle has.
	Median Interval `json:"median"`
	// MeanBytes and MaxBytes are the size of values.
	MeanBytes float64  `json:"mean_bytes"`
	MaxBytes  int      `json:"max_bytes"`
	Patterns  []string `json:"patterns"`
	// Arrival are the ranks, from 0 to 1, of values of rows that are spread evenly over the input, in
	// its order: they rise if new values lie at one end. JSON is without.
	Arrival []float64 `json:"-"`
}

// TopValue is a frequent value and the share of rows that have it. The bounds are certain.
type TopValue struct {
	Value string   `json:"value"`
	Share Interval `json:"share"`
}

// Skew is the most loaded shard over the mean.
type Skew struct {
	Shards int      `json:"shards"`
	Bytes  Interval `json:"bytes"`
}

// Result is a candidate with what was found about it.
type Result struct {
	Layout string `json:"layout"`
	Kind   string `json:"kind"`
	// Grade is A to F, or ? if the sample is too small, or too small to see the writes of a moment in a
	// range keyspace.
	Grade  string  `json:"grade"`
	Score  float64 `json:"score"`
	Scores Scores  `json:"scores"`
	// Keys is how many distinct keys the sample has.
	Keys int `json:"keys"`
	// LargestKey is the share of all bytes in one key, which no split divides.
	LargestKey Interval `json:"largest_key"`
	// Skews are by bytes, for the shards asked for, and 2 and 4 times as many.
	Skews []Skew `json:"skews"`
	// Writes is the most written shard over the mean at a moment; null if there are too few rows.
	Writes *Interval `json:"writes"`
	// Heat are the writes of each shard over the mean, at some moments in their order. JSON is without.
	Heat [][]float64 `json:"-"`
	// Present is the share of rows that have all columns of the key.
	Present Interval `json:"present"`
	// Queries is null if there are none.
	Queries *QueryFit `json:"queries"`
	// Together is null if there are no transactions.
	Together *TogetherFit `json:"together,omitempty"`
	Patterns []string     `json:"patterns"`
	// Sentence is what is best or worst about it.
	Sentence string `json:"sentence"`
	// Price is what readers pay.
	Price string `json:"price"`
	// Create is the command that makes a keyspace with it.
	Create string `json:"create"`
}

// analysis is an Analyze under way.
type analysis struct {
	options Options
	*collector
	sim  *simulator
	step int // every step-th row is simulated
	// nameOf has the column's name in the input for each that a layout can have.
	nameOf map[string]string
	// together are the columns of each of Options.Together.
	together [][]int
	arrival  arrival
}

// Analyze reads a source and reports which key suits its records. If the context ends, it stops
// reading and reports what the records so far show.
func Analyze(ctx context.Context, src Source, o Options) (*Report, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	a := &analysis{options: o, collector: newCollector(o.Seed), step: 1, nameOf: map[string]string{}}
	interrupted, err := a.readAll(ctx, src, o.Workers, o.Progress)
	if err != nil {
		return nil, err
	}
	if a.rows == 0 {
		return nil, a.newEmptyError()
	}
	for i, c := range a.columns {
		if err := c.finish(a.valuesOf(i, identValues), o.Now); err != nil {
			return nil, err
		}
		a.nameOf[c.ident], a.nameOf[c.name] = c.name, c.name
		if c.wrong > 0 && len(a.problems) < maxNamedProblems {
			a.problems = append(a.problems, Problem{c.wrongLine(), c.name, fmt.Sprintf("%d values are not of type %v, this is the first", c.wrong, keyTypes[c.typ])})
		}
	}
	if !o.Traffic {
		if err := a.orderRows(); err != nil {
			return nil, err
		}
	}
	if err := a.readQueries(); err != nil {
		return nil, err
	}
	if err := a.checkQueries(); err != nil {
		return nil, err
	}
	if a.sim, err = newSimulator(a.columns, a.sampleRows(), a.collector.bursts, o.Shards); err != nil {
		return nil, err
	}
	r := &Report{
		At: o.Now.UTC(), Rows: a.rows, Bytes: a.bytes, Shards: o.Shards, SampledRows: a.sim.sampled, Interrupted: interrupted, Traffic: o.Traffic,
		Skipped: a.skipped, Problems: a.problems,
	}
	for _, c := range a.columns {
		r.Columns = append(r.Columns, a.describeColumn(c))
	}
	if err := a.resolveTogether(r); err != nil {
		return nil, err
	}
	r.Tenants = a.findTenants()
	if err := a.rank(r); err != nil {
		return nil, err
	}
	a.addNotes(r)
	return r, nil
}

func (o *Options) setDefaults() error {
	if o.Shards == 0 {
		o.Shards = 16
	}
	if o.Shards < 2 || o.Shards > maxShards {
		return fmt.Errorf("%w: %d shards; use 2 to %d", ErrOptions, o.Shards, maxShards)
	}
	if o.Fraction == 0 {
		o.Fraction = 1
	}
	if o.Fraction < 0 || o.Fraction > 1 {
		return fmt.Errorf("%w: the fraction %v; use more than 0, up to 1", ErrOptions, o.Fraction)
	}
	if o.Workers < 0 {
		return fmt.Errorf("%w: %d workers", ErrOptions, o.Workers)
	}
	if o.Kinds == nil {
		o.Kinds = []partition.Kind{partition.Hash, partition.Range}
	}
	if o.CurrentKind == nil {
		o.CurrentKind = &o.Kinds[0]
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	return nil
}

// newEmptyError names the first problem: it may be why there are no rows.
func (a *analysis) newEmptyError() error {
	if len(a.problems) == 0 {
		return ErrNoRows
	}
	return fmt.Errorf("%w that can be read: %d skipped; %v", ErrNoRows, a.skipped, a.problems[0])
}

// readQueries reads the queries that wait for the names of columns.
func (a *analysis) readQueries() (err error) {
	if a.options.ReadQueries == nil {
		return nil
	}
	var names []string
	for _, c := range a.columns {
		names = append(names, c.name)
	}
	a.options.Queries, err = a.options.ReadQueries(names)
	return err
}

// checkQueries refuses queries about columns that there are none of.
func (a *analysis) checkQueries() error {
	for i := range a.options.Queries {
		for _, name := range a.options.Queries[i].columnNames() {
			if _, ok := a.nameOf[name]; !ok {
				return fmt.Errorf("%w %d: there is no column %s", ErrQuery, i+1, name)
			}
			a.columnNamed(name).asked = true
		}
	}
	return nil
}

func (a *analysis) columnNamed(name string) *column {
	i := slices.IndexFunc(a.columns, func(c *column) bool { return name != "" && (c.ident == name || c.name == name) })
	if i < 0 {
		return nil
	}
	return a.columns[i]
}

// How much is simulated first, to choose what is simulated on the whole sample.
const (
	screenRows  = 8192
	rankedAtEnd = 16
)

// rank simulates candidates, first on a part of the sample, then the best on all of it.
func (a *analysis) rank(r *Report) error {
	candidates, err := a.listCandidates(r.DecidedTogether)
	if err != nil {
		return err
	}
	var current *candidate
	if a.options.Current != "" {
		if current, err = a.sim.newCandidate(a.options.Current, *a.options.CurrentKind); err != nil {
			return fmt.Errorf("the current key: %w", err)
		}
	}
	if len(candidates) > rankedAtEnd {
		a.step = max(1, a.sim.sampled/screenRows)
		if err := a.placeAll(candidates); err != nil {
			return err
		}
		results := map[*candidate]Result{}
		for _, c := range candidates {
			results[c] = a.newResult(c)
		}
		slices.SortStableFunc(candidates, func(x, y *candidate) int {
			rx, ry := results[x], results[y]
			return compareResults(&rx, &ry)
		})
		candidates = candidates[:rankedAtEnd]
		a.step = 1
	}
	all := candidates
	if current != nil {
		all = append(slices.Clone(all), current)
	}
	if err := a.placeAll(all); err != nil {
		return err
	}
	for _, c := range candidates {
		r.Candidates = append(r.Candidates, a.newResult(c))
	}
	slices.SortStableFunc(r.Candidates, func(x, y Result) int { return compareResults(&x, &y) })
	if current != nil {
		res := a.newResult(current)
		r.Current = &res
		r.Fix = a.fix(r)
	}
	return nil
}

// listCandidates returns the candidates that were asked for, or else those that the columns suggest.
func (a *analysis) listCandidates(shared []string) ([]*candidate, error) {
	if len(a.options.Candidates) == 0 {
		return a.sim.generate(a.rows, a.options.Kinds, a.together, shared)
	}
	var found []*candidate
	for _, text := range a.options.Candidates {
		for _, kind := range a.options.Kinds {
			c, err := a.sim.newCandidate(text, kind)
			if err != nil {
				return nil, err
			}
			found = append(found, c)
		}
	}
	return found[:min(len(found), maxCandidates)], nil
}

// placeAll simulates candidates, two at a time.
func (a *analysis) placeAll(candidates []*candidate) error {
	var work sync.WaitGroup
	errs := make([]error, 2)
	for worker := range errs {
		work.Go(func() {
			for i := worker; i < len(candidates); i += len(errs) {
				c := candidates[i]
				var err error
				if c.place, err = a.sim.place(&c.key, a.step); err != nil {
					errs[worker] = err
					return
				}
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// newResult judges a candidate that was placed.
func (a *analysis) newResult(c *candidate) Result {
	r := Result{
		Layout: c.layout.String(), Kind: c.kind.String(), Keys: c.place.keys,
		LargestKey: Interval(c.place.largestKey), Present: Interval(c.place.present), Price: a.fanOut(c),
	}
	for i, times := range multiples {
		r.Skews = append(r.Skews, Skew{a.options.Shards * times, Interval(c.place.skews[i])})
	}
	if c.place.writesKnown {
		writes := Interval(c.place.writes)
		r.Writes, r.Heat = &writes, c.place.heat
	}
	if len(a.options.Queries) > 0 {
		fit := c.matchQueries(a.options.Queries, a.nameOf)
		r.Queries = &fit
	}
	if len(a.together) > 0 {
		r.Together = a.matchTogether(c)
	}
	r.Scores, r.Score = a.score(c, &r)
	r.Grade = gradeOf(r.Score)
	if a.isTooSmall() || c.kind == partition.Range && r.Writes == nil {
		r.Grade = "?" // a range keyspace is as good as its edge, which would not have been seen
	}
	r.Sentence, r.Patterns = a.explain(c, &r)
	if r.Together != nil {
		r.Together.explainTogether(&r)
	}
	r.Create = fmt.Sprintf("cleave keyspace create NAME --%s --layout '%s'", r.Kind, r.Layout)
	return r
}

// allBytes returns the bytes of all records, of which the source may have a sample.
func (a *analysis) allBytes() float64 { return float64(a.bytes) / a.options.Fraction }

// isTooSmall reports whether there are too few rows for a verdict.
func (a *analysis) isTooSmall() bool {
	return a.rows < minRows || a.sim.sampled < minRowsPerShard*a.options.Shards
}

// fix returns what to do about a current key that is not good.
func (a *analysis) fix(r *Report) string {
	current := r.Current
	if current.Grade == "A" || current.Grade == "?" || len(r.Candidates) == 0 {
		return ""
	}
	best := &r.Candidates[0]
	if best.Layout == current.Layout && best.Kind == current.Kind {
		return "no other candidate is better"
	}
	return fmt.Sprintf("use %s in a %s keyspace: %s; price: %s", best.Layout, best.Kind, listChanges(current, best, a.options.Traffic), best.Price)
}

// listChanges names the figures that another key makes better or worse by a tenth or five points.
func listChanges(current, best *Result, traffic bool) string {
	writes, fullest := "write max/mean", "fullest shard"
	if traffic {
		writes, fullest = "operations max/mean", "bytes moved max/mean"
	}
	var changes []string
	addSkew := func(what string, from, to *Interval) {
		if from != nil && to != nil && math.Abs(from.Value-to.Value) >= 0.1 {
			changes = append(changes, fmt.Sprintf("%s %.1f -> %.1f", what, from.Value, to.Value))
		}
	}
	addShare := func(what string, from, to float64) {
		if math.Abs(from-to) >= 0.05 {
			changes = append(changes, fmt.Sprintf("%s %.0f %% -> %.0f %%", what, 100*from, 100*to))
		}
	}
	addSkew(writes, current.Writes, best.Writes)
	addSkew(fullest, &current.Skews[0].Bytes, &best.Skews[0].Bytes)
	addShare("rows that have the key", current.Present.Value, best.Present.Value)
	if current.Queries != nil && best.Queries != nil {
		addShare("queries of one shard", current.Queries.Single, best.Queries.Single)
		addShare("updates that change the key", current.Queries.KeyUpdates, best.Queries.KeyUpdates)
	}
	if current.Together != nil && best.Together != nil {
		addShare("transactions across shards", current.Together.CrossShard.Value, best.Together.CrossShard.Value)
	}
	if len(changes) == 0 {
		return fmt.Sprintf("%.0f points -> %.0f", current.Score, best.Score)
	}
	return strings.Join(changes, ", ")
}

func (a *analysis) describeColumn(c *column) Column {
	distinct, values := Interval(c.distinct.Count()), float64(c.values) // there are no more than values
	distinct = Interval{min(distinct.Low, values), min(distinct.Value, values), min(distinct.High, values)}
	out := Column{
		Name: c.name, Identifier: c.ident, Type: keyTypes[c.typ].String(), Kind: c.recognized.Kind.String(),
		Distinct: distinct, Nulls: float64(a.rows-c.values) / float64(a.rows),
		Median: Interval(c.distinct.Repeats()), MeanBytes: float64(c.bytes) / float64(max(1, c.values)), MaxBytes: c.longest,
		Patterns: a.patternsOf(c), Arrival: a.ranksOf(c),
	}
	for _, h := range c.heavy.Top(topValues) {
		if h.Count > 1 {
			out.Top = append(out.Top, TopValue{h.Text, a.shareOf(h)})
		}
	}
	return out
}

// addNotes limits what the report means.
func (a *analysis) addNotes(r *Report) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if r.Interrupted {
		note("The input was not read to its end: this is what the first %d rows show.", a.rows)
	}
	if a.isTooSmall() {
		count := fmt.Sprintf("%d rows are", a.rows)
		if a.rows == 1 {
			count = "1 row is"
		}
		note("%s too few for a grade: %d shards take at least %d.", count, a.options.Shards, max(minRows, minRowsPerShard*a.options.Shards))
	}
	r.addTogetherNotes(a.options.Together)
	switch {
	case len(a.options.Queries) > 0:
	case a.options.Traffic:
		note("Rows are operations: what bytes says is of what they move, not of what is stored. Entities with several keys are preferred.")
	default:
		r.addGuess(a)
	}
	isUngraded := func(c Result) bool { return c.Kind == partition.Range.String() && c.Writes == nil }
	switch {
	case a.isTooSmall(), a.arrival.sorted != nil:
	case slices.ContainsFunc(r.Candidates, isUngraded), r.Current != nil && isUngraded(*r.Current):
		note("There are too few rows to see how writes of a moment are spread over a range keyspace, so its keys have no grade.")
	}
	if len(a.sim.bursts) == 0 && a.arrival.sorted == nil {
		note("There are too few rows to see how writes of a moment are spread.")
	}
	if text := a.arrival.note(); text != "" && !a.options.Traffic {
		note("%s", text)
	}
	var broad []string
	for _, c := range a.columns {
		if slices.Contains(a.patternsOf(c), "dominant value") {
			broad = append(broad, c.ident)
		}
	}
	if len(broad) > 0 {
		note("One value of %s has more than %d times the rows of the median: a key of that column alone cannot spread it, so put another column beside it.", strings.Join(broad, ", "), dominantOverMid)
	}
}

// The sketches' intervals are ours, with names for JSON.
var _ = Interval(sketch.Interval{})
