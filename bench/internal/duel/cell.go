package duel

// Unit says how a figure is printed. Lower is better in all of them.
type Unit int

// The units of figures.
const (
	Nanoseconds Unit = iota // a duration, or a duration per operation
	Bytes
	Share // of a whole, from 0 to 1
)

// Metric is one figure that a round yields for each contestant.
type Metric struct {
	Name string
	Unit Unit
}

// The metrics that the runner takes of a Work function, per operation.
var (
	Wall = Metric{"time", Nanoseconds}
	CPU  = Metric{"CPU", Nanoseconds}
)

// Costs are both. Cells that keep several cores busy ask for them: there the
// CPU of an operation may be more, or less, than its share of the time.
var Costs = []Metric{Wall, CPU}

// Fact is a property of a contestant that is not a cost, such as the share
// of keys that a router moves. It is measured once and printed beside speed.
type Fact struct {
	Name  string
	Value float64
}

// Contestant does a cell's work in one particular way.
type Contestant struct {
	Name string
	// Ours tells the toolkit's own from its peers.
	Ours bool
	// Family limits who is compared with whom: ours is set against the peers
	// of its own family only.
	Family string
	// Prepare, if any, runs before each window, outside of its time.
	Prepare func()
	// Work does that many operations. The runner times it.
	Work func(ops int)
	// Gauge, where there is no Work, measures by itself and returns one
	// figure for each of the cell's metrics.
	Gauge func() []float64
	// Facts, if any, is called once.
	Facts func() []Fact
}

// Cell is one comparison: the same work for every contestant.
type Cell struct {
	// ID names the cell in targets: subject/shape/work.
	ID string
	// Title says in words what one operation is.
	Title string
	// Ops fixes the operations of one window. 0 means as many as fill it,
	// found for each contestant by itself.
	Ops int
	// Rounds, if not 0, is how many rounds this cell gets.
	Rounds int
	// Metrics are what a round yields. Empty means Wall alone; the metrics of
	// Work are Wall or Costs.
	Metrics     []Metric
	Contestants []Contestant
}

// fixed reports whether a round is a fixed piece of work, not a window of time.
func (c *Cell) fixed() bool {
	return c.Ops > 0 || len(c.Contestants) > 0 && c.Contestants[0].Work == nil
}

// metrics returns what a round of this cell yields.
func (c *Cell) metrics() []Metric {
	if len(c.Metrics) > 0 {
		return c.Metrics
	}
	return Costs[:1]
}
