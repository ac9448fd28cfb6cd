package advisor

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/advisor/internal/sketch"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/partition"
)

// Together is a kind of transaction: it decides at once on all rows that agree in some columns.
type Together struct {
	Columns []string `json:"columns"`
	// Count is how often it happens. Default 1.
	Count float64 `json:"count"`
}

// ErrTogether means that a kind of transaction is not one.
var ErrTogether = errors.New("advise: bad transaction")

// ParseTogether reads kinds of transactions, such as trip,cabin=90;customer=10: lists of columns
// with how often each happens. Lines separate them as semicolons do.
func ParseTogether(text string) (kinds []Together, err error) {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		t := Together{Count: 1}
		list, count, counted := strings.Cut(part, "=")
		if counted {
			if t.Count, err = strconv.ParseFloat(strings.TrimSpace(count), 64); err != nil || !(t.Count > 0) {
				return nil, fmt.Errorf("%w: %s: want a number above 0 behind =", ErrTogether, part)
			}
		}
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(t.Columns, name) {
				t.Columns = append(t.Columns, name)
			}
		}
		if len(t.Columns) == 0 {
			return nil, fmt.Errorf("%w: %s: it names no column", ErrTogether, part)
		}
		kinds = append(kinds, t)
	}
	if len(kinds) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrTogether)
	}
	return kinds, nil
}

// String returns the columns of what is decided at once.
func (t *Together) String() string { return strings.Join(t.Columns, ", ") }

// TogetherFit is what a key makes of the kinds of transactions.
type TogetherFit struct {
	// Local are the kinds that stay in one partition, and Crossing the others, the one that crosses
	// most first.
	Local    []string `json:"local"`
	Crossing []string `json:"crossing"`
	// CrossShard is the share of transactions that touch several partitions.
	CrossShard Interval `json:"cross_shard"`
	// BreaksFirst is what goes wrong first under load.
	BreaksFirst string `json:"breaks_first"`
}

// resolveTogether finds the columns of the kinds of transactions, and the smallest state that all of
// them decide on.
func (a *analysis) resolveTogether(r *Report) error {
	var shared []string
	for n, t := range a.options.Together {
		if t.Count < 0 || len(t.Columns) == 0 {
			return fmt.Errorf("%w %d: a count below 0, or no column", ErrTogether, n+1)
		}
		var columns []int
		var names []string
		for _, name := range t.Columns {
			c := a.columnNamed(name)
			if c == nil {
				return fmt.Errorf("%w %d: there is no column %s; there are %s", ErrTogether, n+1, name, a.sim.listColumns())
			}
			c.asked = true
			columns = append(columns, c.number)
			names = append(names, c.ident)
		}
		a.together = append(a.together, columns)
		if n == 0 {
			shared = names
			continue
		}
		shared = slices.DeleteFunc(slices.Clone(shared), func(name string) bool { return !slices.Contains(names, name) })
	}
	r.DecidedTogether = shared
	return nil
}

// addTogether adds the candidates that keep transactions local.
func (g *generator) addTogether(columns [][]int, shared []string) {
	all := slices.Clone(columns)
	if len(shared) > 0 {
		var list []int
		for _, name := range shared {
			list = append(list, slices.IndexFunc(g.columns, func(c *column) bool { return c.ident == name }))
		}
		all = append(all, list)
	}
	for _, list := range all {
		var made []*column
		for _, n := range list {
			made = append(made, g.columns[n])
		}
		g.add(partition.Hash, g.join(made...), "")
		g.add(partition.Range, g.join(made...), "")
	}
}

// matchTogether finds what a candidate makes of the kinds of transactions.
func (a *analysis) matchTogether(c *candidate) *TogetherFit {
	fit := &TogetherFit{Local: []string{}, Crossing: []string{}}
	type kind struct {
		name string
		load float64
	}
	var crossing []kind
	all := 0.0
	for n := range a.options.Together {
		t := &a.options.Together[n]
		count := max(t.Count, 0)
		if count == 0 {
			count = 1
		}
		all += count
		share := a.sim.crossShare(&c.key, c.columnsOfPartition(a), a.together[n], a.step)
		fit.CrossShard.Low += count * share.Low
		fit.CrossShard.Value += count * share.Value
		fit.CrossShard.High += count * share.High
		if share.High == 0 || share.Value < 0.01 {
			fit.Local = append(fit.Local, t.String())
			continue
		}
		crossing = append(crossing, kind{fmt.Sprintf("%v: %.0f %% cross partitions", t, 100*share.Value), count * share.Value})
	}
	fit.CrossShard = Interval{fit.CrossShard.Low / all, fit.CrossShard.Value / all, fit.CrossShard.High / all}
	slices.SortStableFunc(crossing, func(x, y kind) int {
		if x.load > y.load {
			return -1
		}
		return 1
	})
	for _, k := range crossing {
		fit.Crossing = append(fit.Crossing, k.name)
	}
	return fit
}

// columnsOfPartition returns the columns that the partition is made of; -1 stands for a salt that is
// picked.
func (c *candidate) columnsOfPartition(a *analysis) (columns []int) {
	for _, f := range c.layout.Fields() {
		if !f.Partition {
			break
		}
		n := -1
		if col := a.columnNamed(f.Column); col != nil {
			n = col.number
		}
		columns = append(columns, n)
	}
	return columns
}

// crossShare returns how often two rows that agree in some columns lie in different partitions. That
// is never if the partition is made of those columns alone. Otherwise the sample shows it, and if no two
// of its rows agree, it is not known.
func (s *simulator) crossShare(k *keyFields, partitionColumns, agree []int, step int) Interval {
	if !slices.ContainsFunc(partitionColumns, func(n int) bool { return !slices.Contains(agree, n) }) {
		return Interval{}
	}
	p := pairCounter{simulator: s, parts: keyFields{partition.Hash, k.fields}, agree: agree}
	p.count(0, s.sampled, step)
	if p.pairs < minPairs { // neighbors agree more often than rows by chance
		for n := 0; n < len(s.bursts); n += step {
			p.count(s.bursts[n].from, s.bursts[n].to, 1)
		}
	}
	if p.pairs == 0 {
		return Interval{0, 1, 1}
	}
	return Interval(sketch.Proportion(p.crossing, p.pairs))
}

// minPairs is how many pairs of rows are enough: a share is then known to a tenth.
const minPairs = 100

// pairCounter counts pairs of rows that agree in some columns.
type pairCounter struct {
	*simulator
	parts           keyFields
	agree           []int
	pairs, crossing float64
}

// count pairs each row with the one before that agrees.
func (p *pairCounter) count(from, to, step int) {
	last := map[uint64]uint64{} // the partition of the row before
	var buf []byte
	for row := from; row < to; row += step {
		buf = buf[:0]
		for _, n := range p.agree {
			text, ok := p.rows[row].value(n)
			buf = strconv.AppendBool(strconv.AppendInt(append(buf, text...), int64(len(text)), 10), ok)
		}
		state := hash.XXH3(buf).Uint64()
		buf = p.parts.appendKey(buf[:0], p.simulator, row)
		where := hash.XXH3(buf).Uint64()
		if before, seen := last[state]; seen {
			p.pairs++
			if before != where {
				p.crossing++
			}
		}
		last[state] = where
	}
}

// explainTogether says what goes wrong first: transactions that cross, or else the worst property of
// the key.
func (f *TogetherFit) explainTogether(r *Result) {
	f.BreaksFirst = r.Sentence
	if len(f.Crossing) > 0 {
		f.BreaksFirst = "transactions on " + f.Crossing[0]
	}
}

// addTogetherNotes says what is decided at once.
func (r *Report) addTogetherNotes(kinds []Together) {
	switch {
	case len(kinds) == 0:
	case len(r.DecidedTogether) == 0:
		r.Notes = append(r.Notes, "No column is in all transactions: whatever the key, some of them cross shards. Decide which of them may take two phases, or become a saga.")
	default:
		r.Notes = append(r.Notes, fmt.Sprintf("The smallest state that is decided at once: rows of one (%s). A key made of these columns alone keeps every transaction in one shard.", strings.Join(r.DecidedTogether, ", ")))
	}
}
