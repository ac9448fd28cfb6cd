package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/internal/ops/output"
)

// maxDrawnShards is how many rows a drawing has at most. With more shards several share a row, which shows the most
// written of them.
const maxDrawnShards = 32

// formatAdviceHeat draws the writes of shards over time under the current key and the best one: what each shard takes at
// some moments, from left to right. Two shards share a line, one in each half.
func formatAdviceHeat(r *advisor.Report, colored bool) string {
	var b strings.Builder
	draw := func(what string, c *advisor.Result) {
		if len(c.Heat) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s: %s %s, grade %s\n", what, c.Kind, output.EscapeUnprintable(c.Layout), c.Grade)
		drawShardHeat(&b, c.Heat, colored)
	}
	if r.Current != nil {
		draw("current key", r.Current)
	}
	if len(r.Candidates) > 0 && (r.Current == nil || r.Candidates[0].Layout != r.Current.Layout || r.Candidates[0].Kind != r.Current.Kind) {
		draw("best key", &r.Candidates[0])
	}
	if b.Len() == 0 {
		return "\nThere are too few rows to draw the writes of a moment.\n"
	}
	scale := "filled: at least half\nof what the busiest shard of the moment takes"
	if colored {
		scale = "from idle to all in one shard: " + heatScale()
	}
	fmt.Fprintf(&b, "shards from top to bottom, time from left to right; %s\n", scale)
	return b.String()
}

// drawShardHeat draws moments, each the writes of shards over the mean.
func drawShardHeat(b *strings.Builder, heat [][]float64, colored bool) {
	shards := len(heat[0])
	rows := min(shards, maxDrawnShards)
	most := float64(shards)
	loadOf := func(moment []float64, row int) (load float64) {
		if row >= rows {
			return 0
		}
		for _, v := range moment[row*shards/rows : (row+1)*shards/rows] {
			load = max(load, v)
		}
		return load
	}
	for row := 0; row < rows; row += 2 {
		b.WriteString("  |")
		for _, moment := range heat {
			upper, lower := loadOf(moment, row), loadOf(moment, row+1)
			if colored {
				fmt.Fprintf(b, "\x1b[38;5;%d;48;5;%dm▀", heatColour(heatLevel(&upper, most)), heatColour(heatLevel(&lower, most)))
				continue
			}
			half := slices.Max(moment) / 2
			switch {
			case upper >= half && lower >= half:
				b.WriteString("█")
			case upper >= half:
				b.WriteString("▀")
			case lower >= half:
				b.WriteString("▄")
			default:
				b.WriteByte(' ')
			}
		}
		if colored {
			b.WriteString("\x1b[0m")
		}
		b.WriteString("|\n")
	}
}

// heatScale shows colours from little to much.
func heatScale() string {
	var b strings.Builder
	for _, c := range heatColours {
		fmt.Fprintf(&b, "\x1b[38;5;%dm█", c)
	}
	return b.String() + "\x1b[0m"
}
