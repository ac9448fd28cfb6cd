package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
)

// timeFlags are the stretch of time that a command is about: each end a time, or how long ago.
type timeFlags struct{ from, to string }

func (t *timeFlags) addFlags(cmd *cobra.Command, from string) {
	cmd.Flags().StringVar(&t.from, "from", from, "begin: how long ago, such as 30m, or a `time` of day, such\nas 14:30, or a whole one in RFC 3339")
	cmd.Flags().StringVar(&t.to, "to", "", "end of the `time`, in the same way (default now)")
}

// parse returns the two times. Without an end it is the present, and zero.
func (t *timeFlags) parse(now time.Time) (from, to time.Time, err error) {
	from, err1 := parseTimeFlag("--from", t.from, now)
	to, err2 := parseTimeFlag("--to", t.to, now)
	if err := errors.Join(err1, err2); err != nil {
		return from, to, usageError{err}
	}
	if !to.IsZero() && !from.Before(to) {
		return from, to, usageError{fmt.Errorf("--from %s is not before --to %s", t.from, t.to)}
	}
	return from, to, nil
}

// timeFlagLayouts are the forms of a whole time, and of a time of the day.
var timeFlagLayouts = []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", time.TimeOnly, "15:04"}

func parseTimeFlag(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(strings.TrimPrefix(text, "-")); err == nil {
		return now.Add(-ago), nil
	}
	for _, layout := range timeFlagLayouts {
		at, err := time.ParseInLocation(layout, text, time.Local)
		if err != nil {
			continue
		}
		if at.Year() == 0 { // a time of the day: the last one that was
			y, m, d := now.Local().Date()
			at = time.Date(y, m, d, at.Hour(), at.Minute(), at.Second(), 0, time.Local)
			if at.After(now) {
				at = at.AddDate(0, 0, -1)
			}
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%s %q: want how long ago, such as 30m, or a time such as 14:30 or 2026-01-31T14:30:00Z", name, text)
}

func newHeatMapCommand() *cobra.Command {
	var f api.HeatFilter
	var times timeFlags
	var height int
	cmd := &cobra.Command{
		Use: "heatmap", Short: "Draw what was asked by time and key",
		Long: `Draw what was asked by time and key.

Time goes to the right and keys go down. Rows follow the load: a range that is
asked for much has many, and a hot key one of its own. A diagonal is a key that
moves, such as a time; a line across is a hot key; a line down is a burst: each has
a line below the map. It begins when the server starts: the last half hour is in
steps of ten seconds, older ones are coarser. NO_COLOR, and a pipe, get
characters in place of colours.`,
		Example: "  cleave heatmap\n  cleave heatmap --metric p99 --from 2h\n  cleave heatmap --keyspace orders --rows 40 -o json",
	}
	return initShowCommand(cmd, func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.StringVar(&f.Metric, "metric", api.MetricOps, "what to draw: ops, reads, writes, bytes_in, bytes_out,\nconflicts or p99")
		flags.StringVar(&f.Keyspace, "keyspace", "", "only the keys of a keyspace")
		flags.IntVar(&height, "rows", 24, "how many lines to draw")
		times.addFlags(cmd, "30m")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{
			"metric": cobra.FixedCompletions([]string{
				api.MetricOps, api.MetricReads, api.MetricWrites, api.MetricBytesIn, api.MetricBytesOut, api.MetricConflicts, api.MetricP99,
			}, cobra.ShellCompDirectiveNoFileComp),
			"keyspace": completeKeyspaces,
		})
	}, func(ctx context.Context, c *api.Client, w watchFlag, format output.Format, _ []string) error {
		if height < 1 || height > 200 {
			return usageError{fmt.Errorf("--rows %d: want 1 to 200", height)}
		}
		out := cmd.OutOrStdout()
		d := heatDrawing{width: cmp.Or(terminal.Width(out), output.MaxWidth), lines: height, colored: terminal.CanColor(out)}
		return w.runRepeatedly(ctx, out, func() (err error) {
			if f.From, f.To, err = times.parse(time.Now()); err != nil {
				return err
			}
			f.Rows, f.Columns = d.rows(), d.columns()
			if format == output.Table {
				f.Rows = maxHeatMapRows // the drawing chooses its own
			}
			m, err := c.HeatMap(ctx, f)
			if err != nil {
				return err
			}
			return output.WriteOne(out, format, m, func(m api.HeatMap) string { return d.render(joinHeatRows(m, d.rows())) })
		})
	})
}

// maxHeatMapRows is how many rows a server returns at most.
const maxHeatMapRows = 512

// joinHeatRows makes at most n rows of a map: neighbours that have least together are joined first, so that what is hot
// keeps a row of its own.
func joinHeatRows(m api.HeatMap, n int) api.HeatMap {
	rows, cells := slices.Clone(m.Rows), slices.Clone(m.Cells)
	weight := func(r int) (sum float64) {
		for _, v := range cells[r] {
			if v != nil {
				sum += *v
			}
		}
		return sum
	}
	weights := make([]float64, len(rows))
	for r := range rows {
		weights[r] = weight(r)
	}
	for len(rows) > n {
		best, least := 0, math.Inf(1)
		for r := range len(rows) - 1 {
			w := weights[r] + weights[r+1]
			if rows[r].Keyspace != rows[r+1].Keyspace {
				w = math.MaxFloat64 // only if there is nothing else
			}
			if w < least {
				best, least = r, w
			}
		}
		cells[best] = joinHeatCells(m.Metric, cells[best], cells[best+1])
		rows[best].Single = false
		rows, cells, weights = slices.Delete(rows, best+1, best+2), slices.Delete(cells, best+1, best+2), slices.Delete(weights, best+1, best+2)
		weights[best] = weight(best)
	}
	m.Rows, m.Cells = rows, cells
	return m
}

// joinHeatCells are the cells of two rows as one: sums, and of times the longest.
func joinHeatCells(metric string, a, b []*float64) []*float64 {
	joined := make([]*float64, len(a))
	for c := range a {
		switch {
		case a[c] == nil || b[c] == nil:
			joined[c] = cmp.Or(a[c], b[c])
		case metric == api.MetricP99:
			v := math.Max(*a[c], *b[c])
			joined[c] = &v
		default:
			v := *a[c] + *b[c]
			joined[c] = &v
		}
	}
	return joined
}

// heatDrawing is how a heat map is drawn.
type heatDrawing struct {
	width, lines int
	colored      bool
}

const (
	// heatLabelWidth is how wide the labels of rows are.
	heatLabelWidth = 26
	// heatGradient are the characters of a map without colours, from little to much.
	heatGradient = " .:-=+*#%@"
)

// heatColours are those of a map, from little to much, of the 256 that terminals have.
var heatColours = []int{16, 17, 18, 19, 54, 90, 126, 162, 197, 202, 208, 214, 220, 226, 229, 231}

// rows is how many rows fit: with colours a line has two, one in each half of a block.
func (d heatDrawing) rows() int {
	if d.colored {
		return 2 * d.lines
	}
	return d.lines
}

func (d heatDrawing) columns() int { return max(10, d.width-heatLabelWidth-2) }

// render draws the map with its axes and what its colours mean.
func (d heatDrawing) render(m api.HeatMap) string {
	if len(m.Columns) == 0 || len(m.Rows) == 0 {
		return "nothing is known of that time: a server knows what was asked since it has started, ten seconds late\n"
	}
	most := 0.0
	for _, row := range m.Cells {
		for _, v := range row {
			if v != nil {
				most = math.Max(most, *v)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n", m.Metric, m.Unit)
	step := 1
	if d.colored {
		step = 2
	}
	for r := 0; r < len(m.Rows); r += step {
		labelled := r
		if step == 2 && r+1 < len(m.Rows) && m.Rows[r+1].Single && !m.Rows[r].Single {
			labelled = r + 1 // a hot key is named, whichever half it has
		}
		b.WriteString(output.Clip(padRight(output.EscapeUnprintable(formatHeatRow(m.Rows, labelled)), heatLabelWidth), heatLabelWidth) + " ")
		for c := range m.Columns {
			upper := heatLevel(m.Cells[r][c], most)
			if !d.colored {
				b.WriteByte(heatGradient[int(math.Round(upper*float64(len(heatGradient)-1)))])
				continue
			}
			lower := 0.0
			if r+1 < len(m.Rows) {
				lower = heatLevel(m.Cells[r+1][c], most)
			}
			fmt.Fprintf(&b, "\x1b[38;5;%d;48;5;%dm▀", heatColour(upper), heatColour(lower))
		}
		if d.colored {
			b.WriteString("\x1b[0m")
		}
		b.WriteByte('\n')
	}
	b.WriteString(d.renderTimes(m))
	b.WriteString(d.renderLegend(m, most))
	b.WriteString(d.renderPatterns(m))
	return b.String()
}

// renderPatterns has a line for each shape: when it was, and what it is.
func (d heatDrawing) renderPatterns(m api.HeatMap) string {
	var b strings.Builder
	for _, p := range m.Patterns {
		end := m.Columns[p.LastColumn].Add(time.Duration(m.StepSeconds * float64(time.Second)))
		line := fmt.Sprintf("%-10s  %s to %s  %s", p.Kind, m.Columns[p.FirstColumn].Local().Format(time.TimeOnly), end.Local().Format(time.TimeOnly), p.Text)
		b.WriteString(output.Clip(output.EscapeUnprintable(line), d.width) + "\n")
	}
	if b.Len() > 0 {
		b.WriteString("what helps: cleave plan, or the field remedy of -o json\n")
	}
	return b.String()
}

func padRight(text string, n int) string {
	return text + strings.Repeat(" ", max(0, n-output.TextWidth(text)))
}

// heatLevel is a value from 0 to 1 as it is drawn: by its logarithm, so that what is a tenth of the most is still seen.
func heatLevel(v *float64, most float64) float64 {
	if v == nil || *v <= 0 || most <= 0 {
		return 0
	}
	const decades = 3 // less than a thousandth of the most is drawn as nothing
	return math.Min(1, math.Max(0, 1+math.Log10(*v/most)/decades))
}

func heatColour(level float64) int {
	return heatColours[int(math.Round(level*float64(len(heatColours)-1)))]
}

// formatHeatRow is the label of a row: the first of each keyspace has its name.
func formatHeatRow(rows []api.HeatRow, r int) string {
	row := rows[r]
	text := ""
	if row.Slot != nil {
		text = fmt.Sprintf("slot %d", *row.Slot)
	}
	if row.StartKey != nil {
		text = row.StartKey.String()
		if row.After {
			text = "> " + text
		}
	}
	if r == 0 || rows[r-1].Keyspace != row.Keyspace {
		text = strings.TrimSuffix(cmp.Or(row.Keyspace, "-")+" "+text, " ")
	}
	return text
}

// renderTimes is the axis of times: the first, the last and what fits in between.
func (d heatDrawing) renderTimes(m api.HeatMap) string {
	layout := "15:04"
	first, last := m.Columns[0], m.Columns[len(m.Columns)-1]
	switch {
	case last.Sub(first) > 24*time.Hour:
		layout = "01-02 15:04"
	case last.Sub(first) < 5*time.Minute:
		layout = time.TimeOnly
	}
	line := []byte(strings.Repeat(" ", len(m.Columns)+len(layout)))
	for c := 0; c < len(m.Columns); c += max(12, len(layout)+3) {
		copy(line[c:], "|"+m.Columns[c].Local().Format(layout))
	}
	return strings.TrimRight(strings.Repeat(" ", heatLabelWidth+1)+string(line), " ") + "\n"
}

// renderLegend says what the colours, or characters, mean.
func (d heatDrawing) renderLegend(m api.HeatMap, most float64) string {
	var scale strings.Builder
	for i := range heatColours {
		level := float64(i) / float64(len(heatColours)-1)
		if d.colored {
			fmt.Fprintf(&scale, "\x1b[38;5;%dm█", heatColour(level))
		} else if i < len(heatGradient) {
			scale.WriteByte(heatGradient[i])
		}
	}
	if d.colored {
		scale.WriteString("\x1b[0m")
	}
	return fmt.Sprintf("%s %s %s, a thousandth at the left; a column is %s\n",
		strings.Repeat(" ", heatLabelWidth), scale.String(), formatHeatValue(m.Metric, most), output.Seconds(m.StepSeconds))
}

func formatHeatValue(metric string, v float64) string {
	switch metric {
	case api.MetricP99:
		return output.Seconds(v)
	case api.MetricBytesIn, api.MetricBytesOut:
		return output.Bytes(uint64(v)) + "/s"
	}
	return output.Rate(v) + "/s"
}

func newProfileCommand() *cobra.Command {
	var f api.HeatFilter
	var times timeFlags
	n := 20
	return listCommand[hotPrefix]{
		use: "profile", short: "Show which keys and prefixes were hot between two times",
		long: `Show which keys and prefixes were hot between two times.

It is the heat map of that time, added up: keys that were hot have a line of their
own, others are together by what their names begin with, up to the last of : / | . -
or by slot in a hash keyspace.`,
		example: "  cleave profile --from 14:30 --to 14:45\n  cleave profile --from 2h --metric writes --keyspace orders",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]hotPrefix, string, error) {
			var err error
			if f.From, f.To, err = times.parse(time.Now()); err != nil {
				return nil, "", err
			}
			f.Rows, f.Columns = 512, 1
			m, err := c.HeatMap(ctx, f)
			if err != nil {
				return nil, "", err
			}
			all := sumPrefixes(&m)
			note := ""
			if len(m.Columns) > 0 {
				note = fmt.Sprintf("%s, %s: the mean from %s for %s", m.Metric, m.Unit, m.Columns[0].Local().Format(timeLayout), output.Seconds(m.StepSeconds))
			}
			return all[:min(n, len(all))], note, nil
		},
		columns: prefixColumns, emptyText: "nothing is known of that time: a server knows what was asked since it has started, ten seconds late",
	}.toCobra(func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.StringVar(&f.Metric, "metric", api.MetricOps, "what to add up: ops, reads, writes, bytes_in, bytes_out or\nconflicts")
		flags.StringVar(&f.Keyspace, "keyspace", "", "only the keys of a keyspace")
		flags.IntVarP(&n, "number", "n", n, "how many to show")
		times.addFlags(cmd, "10m")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces})
	})
}

// hotPrefix is a key, or keys that begin alike.
type hotPrefix struct {
	Keyspace string `json:"keyspace"`
	// Prefix is the key if there is one alone, else what all begin with.
	Prefix api.Key `json:"prefix"`
	Single bool    `json:"single"`
	// FirstSlot and LastSlot are those of keys of a hash keyspace that have nothing else in common.
	FirstSlot *int `json:"first_slot,omitempty"`
	LastSlot  *int `json:"last_slot,omitempty"`
	// PerSecond is the mean, and Share its part of all.
	PerSecond float64 `json:"per_second"`
	Share     float64 `json:"share"`
}

var prefixColumns = []output.Column[hotPrefix]{
	{Head: "keyspace", Cell: func(p hotPrefix) string { return formatOrDash(p.Keyspace) }},
	{Head: "keys", Cell: formatPrefix, CutPriority: 1},
	{Head: "a second", Right: true, Cell: func(p hotPrefix) string { return output.Rate(p.PerSecond) }},
	{Head: "of all", Right: true, Cell: func(p hotPrefix) string { return formatPercent(p.Share) }, Bar: func(p hotPrefix) float64 { return p.Share }},
}

func formatPrefix(p hotPrefix) string {
	switch {
	case p.Single:
		return p.Prefix.String()
	case p.FirstSlot != nil && *p.FirstSlot == *p.LastSlot:
		return fmt.Sprintf("slot %d", *p.FirstSlot)
	case p.FirstSlot != nil:
		return fmt.Sprintf("slots %d–%d", *p.FirstSlot, *p.LastSlot)
	}
	return p.Prefix.String() + "*"
}

// maxSlotRuns is into how many runs of slots the rows of a hash keyspace are put together.
const maxSlotRuns = 16

// sumPrefixes adds up the rows of a heat map by what their keys begin with, the hottest first.
func sumPrefixes(m *api.HeatMap) []hotPrefix {
	type group struct {
		keyspace, prefix string
		single           bool
		run              int
	}
	sums := map[group]*hotPrefix{}
	all := 0.0
	for r, row := range m.Rows {
		v := 0.0
		for _, cell := range m.Cells[r] {
			if cell != nil {
				v += *cell / float64(len(m.Cells[r]))
			}
		}
		if v <= 0 {
			continue
		}
		all += v
		g := group{keyspace: row.Keyspace, single: row.Single}
		if row.Single {
			g.prefix = string(*row.StartKey)
		} else if row.Slot != nil {
			g.run = 1 + *row.Slot/(16384/maxSlotRuns)
		} else {
			g.prefix = prefixOfRow(m.Rows, r)
		}
		p := sums[g]
		if p == nil {
			p = &hotPrefix{Keyspace: g.keyspace, Prefix: api.Key(g.prefix), Single: g.single}
			sums[g] = p
		}
		if row.Slot != nil && !row.Single {
			first, last := *row.Slot, lastSlotOfRow(m.Rows, r)
			if p.FirstSlot != nil {
				first = min(first, *p.FirstSlot)
				last = max(last, *p.LastSlot)
			}
			p.FirstSlot, p.LastSlot = &first, &last
		}
		p.PerSecond += v
	}
	prefixes := []hotPrefix{}
	for _, p := range sums {
		p.Share = p.PerSecond / all
		prefixes = append(prefixes, *p)
	}
	slices.SortFunc(prefixes, func(a, b hotPrefix) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Keyspace, b.Keyspace), strings.Compare(formatPrefix(a), formatPrefix(b)))
	})
	return prefixes
}

// lastSlotOfRow is the last slot that a row of a hash keyspace has keys of.
func lastSlotOfRow(rows []api.HeatRow, r int) int {
	first := *rows[r].Slot
	if r+1 < len(rows) && rows[r+1].Keyspace == rows[r].Keyspace && rows[r+1].Slot != nil {
		last := *rows[r+1].Slot
		if rows[r+1].StartKey == nil {
			last--
		}
		return max(first, last)
	}
	return first
}

// prefixOfRow is what the keys of a row of a range keyspace begin with, up to a mark between parts.
func prefixOfRow(rows []api.HeatRow, r int) string {
	if rows[r].StartKey == nil || r+1 == len(rows) || rows[r+1].Keyspace != rows[r].Keyspace || rows[r+1].StartKey == nil {
		return ""
	}
	from, to := string(*rows[r].StartKey), string(*rows[r+1].StartKey)
	n := 0
	for n < len(from) && n < len(to) && from[n] == to[n] {
		n++
	}
	return from[:1+strings.LastIndexAny(from[:n], ":/|.-")]
}
