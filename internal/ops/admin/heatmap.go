package admin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/partition"
)

// metricInfo is a metric of heat maps by its name: the sum of some, in a unit.
type metricInfo struct {
	of    []heat.Metric
	unit  string
	scale float64
}

var heatMetrics = map[string]metricInfo{
	api.MetricOps:       {[]heat.Metric{heat.MetricReads, heat.MetricWrites}, "operations in a second", 1},
	api.MetricReads:     {[]heat.Metric{heat.MetricReads}, "reads in a second", 1},
	api.MetricWrites:    {[]heat.Metric{heat.MetricWrites}, "writes in a second", 1},
	api.MetricBytesIn:   {[]heat.Metric{heat.MetricBytesIn}, "bytes in a second", 1},
	api.MetricBytesOut:  {[]heat.Metric{heat.MetricBytesOut}, "bytes in a second", 1},
	api.MetricConflicts: {[]heat.Metric{heat.MetricConflicts}, "conflicts in a second", 1},
	api.MetricP99:       {[]heat.Metric{heat.MetricP99}, "seconds", 1e-6},
}

const (
	maxHeatRows    = 512
	maxHeatColumns = 1000
)

func (a *Admin) getHeatMap(ctx context.Context, q *query) (api.HeatMap, error) {
	keyMap := a.node.HeatMap()
	if keyMap == nil {
		return api.HeatMap{}, errHeatOff()
	}
	name := q.getString(api.QueryMetric)
	if name == "" {
		name = api.MetricOps
	}
	metric, ok := heatMetrics[name]
	if !ok {
		return api.HeatMap{}, newInvalidError("there is no heat map of "+quoteText(name), "give ops, reads, writes, bytes_in, bytes_out, conflicts or p99")
	}
	o, err := a.heatViewOptions(q)
	if err != nil {
		return api.HeatMap{}, err
	}
	inLevels := q.getString(api.QueryCells) == cellsAsLevels
	if q.has(api.QueryCells) && !inLevels && q.getString(api.QueryCells) != cellsAsValues {
		return api.HeatMap{}, newInvalidError("parameter cells is "+quoteText(q.getString(api.QueryCells)), "give values or levels")
	}
	m := api.HeatMap{
		Metric: name, Unit: metric.unit, Columns: []time.Time{}, Rows: []api.HeatRow{}, Cells: [][]*float64{}, Patterns: []api.HeatPattern{}, Bytes: keyMap.Bytes(),
	}
	var sum heat.View
	for _, part := range metric.of {
		o.Metric = part
		v, err := keyMap.View(o)
		if err != nil {
			return m, newInvalidError(err.Error(), "")
		}
		if sum.Cells == nil {
			sum = v
			continue
		}
		if !slices.Equal(sum.Rows, v.Rows) || !slices.Equal(sum.Columns, v.Columns) {
			break // a column has come between the two
		}
		for r, cells := range v.Cells {
			for c, n := range cells {
				sum.Cells[r][c] += n
			}
		}
	}
	a.fillHeatMap(&m, &sum)
	a.fillHeatEvents(ctx, &m, &sum, o.End)
	if inLevels {
		m.LevelUnit, m.Levels = metric.scale, encodeLevels(&sum)
	} else {
		m.Cells = scaleCells(&sum, metric.scale)
	}
	if name != api.MetricP99 { // the slowest of a hundred has no shares
		if err := a.addPatterns(ctx, &m, &sum, metric.scale); err != nil {
			return m, err
		}
	}
	return m, nil
}

// heatViewOptions are the part of the map that is asked for.
func (a *Admin) heatViewOptions(q *query) (o heat.ViewOptions, err error) {
	for _, t := range []struct {
		name string
		to   *time.Duration
	}{{api.QueryFrom, &o.From}, {api.QueryTo, &o.To}} {
		if *t.to, err = q.getUnixTime(t.name, a.o.Now()); err != nil {
			return o, err
		}
	}
	if o.To != 0 && o.To <= o.From {
		return o, newInvalidError("the time to is not behind the time from", "give from before to")
	}
	for _, n := range []struct {
		name string
		most uint64
		to   *int
	}{{api.QueryRows, maxHeatRows, &o.Rows}, {api.QueryColumns, maxHeatColumns, &o.Columns}} {
		got, err := q.getUint(n.name, min(n.most, 360))
		if err == nil && (got < 1 || got > n.most) {
			err = newInvalidError(fmt.Sprintf("parameter %s is %d", n.name, got), fmt.Sprintf("give 1 to %d", n.most))
		}
		if err != nil {
			return o, err
		}
		*n.to = int(got)
	}
	span, err := a.heatSpan(q)
	if err != nil {
		return o, err
	}
	for _, b := range []struct {
		name string
		to   *partition.Position
	}{{api.QueryStartAt, &span.Start}, {api.QueryEndAt, &span.End}} {
		if q.has(b.name) {
			at, err := hex.DecodeString(q.getString(b.name))
			if err != nil {
				return o, newInvalidError("parameter "+b.name+" is "+quoteText(q.getString(b.name)), "give the field at of a row of another answer")
			}
			*b.to = at
		}
	}
	o.Start, o.End = span.Start, endOrNil(span.End)
	if o.End != nil && bytes.Compare(o.Start, o.End) >= 0 {
		return o, newInvalidError("there are no keys from the start to the end", "give the start before the end")
	}
	return o, nil
}

// heatSpan is where keys are that are asked for by keyspace and key: anywhere if neither is given.
func (a *Admin) heatSpan(q *query) (span partition.Span, err error) {
	if !q.has(api.QueryKeyspace) && !q.has(api.QueryStart) && !q.has(api.QueryEnd) {
		return span, nil
	}
	name := q.getString(api.QueryKeyspace)
	if name == "" {
		name = node.DefaultKeyspace
	}
	k, err := a.node.Keyspace(name)
	if err != nil {
		return span, notFoundError("there is no keyspace "+quoteText(name), "list the keyspaces")
	}
	span = k.Span()
	if k.Kind == partition.Hash && (q.has(api.QueryStart) || q.has(api.QueryEnd)) {
		return span, newInvalidError("keyspace "+name+" is of kind hash: its keys have no ranges", "leave start and end out, or give start_at and end_at")
	}
	for _, b := range []struct {
		name string
		to   *partition.Position
	}{{api.QueryStart, &span.Start}, {api.QueryEnd, &span.End}} {
		if q.has(b.name) {
			key, err := q.getKey(b.name)
			if err != nil {
				return span, err
			}
			*b.to = k.AppendPosition(nil, key)
		}
	}
	return span, nil
}

// getUnixTime reads a time, or how long before now it was, 0 if there is none.
func (q *query) getUnixTime(name string, now time.Time) (time.Duration, error) {
	if !q.has(name) {
		return 0, nil
	}
	if ago, err := time.ParseDuration(q.getString(name)); err == nil && ago <= 0 && ago > -maxHeatAge {
		return time.Duration(now.Add(ago).UnixNano()), nil
	}
	t, err := time.Parse(time.RFC3339, q.getString(name))
	if err != nil || t.Unix() < 0 || t.Year() > maxHeatYear {
		return 0, newInvalidError("parameter "+name+" is "+quoteText(q.getString(name)), "give a time such as 2026-01-31T12:00:00Z, or -30m for half an hour ago")
	}
	return time.Duration(t.UnixNano()), nil
}

// maxHeatYear is the last one whose times since 1970 fit into 64 bits of nanoseconds.
const maxHeatYear = 2261

// maxHeatAge is how far back a relative time goes: no map has more than a year.
const maxHeatAge = 366 * 24 * time.Hour

// fillHeatMap adds the columns and rows of a view.
func (a *Admin) fillHeatMap(m *api.HeatMap, v *heat.View) {
	for _, c := range v.Columns {
		m.Columns = append(m.Columns, time.Unix(0, int64(c)).UTC())
	}
	switch n := len(v.Columns); {
	case n > 1:
		m.StepSeconds = (v.Columns[1] - v.Columns[0]).Seconds()
	case n == 1:
		m.StepSeconds = heat.DefaultLayers()[0].Step.Seconds()
	}
	shards := a.node.Map()
	for r, start := range v.Rows {
		at := a.decodePosition(partition.Position(start))
		row := api.HeatRow{Keyspace: at.keyspace, Slot: at.slot, At: hex.EncodeToString([]byte(start))}
		if len(at.key) > 0 {
			row.StartKey, row.After = api.KeyOrNil(at.key), at.isAfter
		}
		row.Single = r+1 < len(v.Rows) && at.isWhole && strings.HasPrefix(v.Rows[r+1], start) && len(v.Rows[r+1]) == len(start)+1
		span := partition.Span{Start: partition.Position(start)}
		if r+1 < len(v.Rows) {
			span.End = partition.Position(v.Rows[r+1])
		}
		for s := range shards.Shards(span) {
			if row.Shards == 0 {
				row.Shard, row.Group = uint64(s.ID), uint64(s.Group)
			}
			row.Shards++
		}
		m.Rows = append(m.Rows, row)
	}
}

// The forms of cells.
const (
	cellsAsValues = "values"
	cellsAsLevels = "levels"
)

// scaleCells are the cells of a view in the unit of a metric, four digits of each: a map has no more of them.
func scaleCells(v *heat.View, scale float64) [][]*float64 {
	all := [][]*float64{}
	for _, row := range v.Cells {
		cells := make([]*float64, len(row))
		for c, n := range row {
			if !math.IsNaN(n) {
				n, _ = strconv.ParseFloat(strconv.FormatFloat(n*scale, 'g', 4, 64), 64)
				cells[c] = &n
			}
		}
		all = append(all, cells)
	}
	return all
}

// encodeLevels are the cells of a view in a byte each: see api.HeatMap.
func encodeLevels(v *heat.View) string {
	levels := make([]byte, 0, len(v.Rows)*len(v.Columns))
	for _, row := range v.Cells {
		for _, n := range row {
			level := byte(0)
			if !math.IsNaN(n) {
				level = byte(1 + min(math.Round(8*math.Log2(1+max(n, 0))), math.MaxUint8-1))
			}
			levels = append(levels, level)
		}
	}
	return base64.StdEncoding.EncodeToString(levels)
}
