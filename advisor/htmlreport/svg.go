package htmlreport

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/cleavekv/cleave/advisor"
)

// heatLevels is how many colors a heat map has; page.html has as many classes.
const heatLevels = 12

// maxBands is how many rows a heat map has at most. With more shards, several share a row, which
// shows the most written of them.
const maxBands = 64

// drawHeat draws the writes of each shard at each moment: time from left to right, shards from top to
// bottom. A color stands for the writes of a shard over the mean, on a logarithmic scale from an eighth
// to all writes in one shard.
func drawHeat(r *advisor.Result) template.HTML {
	if len(r.Heat) == 0 {
		return `<p class="none">Too few rows to see the writes of a moment.</p>`
	}
	shards := len(r.Heat[0])
	bands := min(shards, maxBands)
	var paths [heatLevels]strings.Builder
	for x, moment := range r.Heat {
		for band := range bands {
			most := 0.0
			for _, load := range moment[band*shards/bands : (band+1)*shards/bands] {
				most = max(most, load)
			}
			fmt.Fprintf(&paths[heatLevel(most, shards)], "M%d %dh1v1h-1z", x, band)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="heat" role="img" aria-label="writes of %d shards over time" viewBox="0 0 %d %d" preserveAspectRatio="none">`, shards, len(r.Heat), bands)
	for level := range paths {
		if paths[level].Len() > 0 {
			fmt.Fprintf(&b, `<path class="h%d" d="%s"/>`, level, paths[level].String())
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// heatLevel returns the color of a load over the mean.
func heatLevel(load float64, shards int) int {
	const least = 1.0 / 8
	if load <= least {
		return 0
	}
	scale := math.Log(load/least) / math.Log(float64(shards)/least)
	return min(heatLevels-1, 1+int(scale*(heatLevels-1)))
}

// drawCardinality draws how many values a column has, on a logarithmic scale, with the line of ten for
// each shard.
func drawCardinality(c advisor.Column, r *advisor.Report) template.HTML {
	top := math.Log10(float64(max(r.Rows, 10)))
	place := func(v float64) float64 { return 160 * math.Log10(max(v, 1)) / top }
	enough := place(float64(10 * r.Shards))
	return template.HTML(fmt.Sprintf(`<svg class="plot" role="img" aria-label="%.0f values" viewBox="0 0 164 30"><rect class="track" x="0" y="8" width="160" height="14"/>`+
		`<rect class="bar" x="0" y="8" width="%.1f" height="14"/><path class="line" d="M%.1f 3v24"/></svg>`,
		c.Distinct.Value, max(1, place(c.Distinct.Value)), min(160, enough)))
}

// drawSkew draws the shares of the most frequent values, with the line of the mean of a shard.
func drawSkew(c advisor.Column, r *advisor.Report) template.HTML {
	mean := 1 / float64(r.Shards)
	scale := 2 * mean
	for _, t := range c.Top {
		scale = max(scale, t.Share.Value)
	}
	var b strings.Builder
	b.WriteString(`<svg class="plot" role="img" aria-label="most frequent values" viewBox="0 0 164 40">`)
	for i, t := range c.Top {
		fmt.Fprintf(&b, `<rect class="bar" x="0" y="%d" width="%.1f" height="6"><title>%s: %.2f %%</title></rect>`,
			2+7*i, max(0.5, 160*t.Share.Value/scale), template.HTMLEscapeString(t.Value), 100*t.Share.Value)
	}
	fmt.Fprintf(&b, `<path class="line" d="M%.1f 0v40"/></svg>`, 160*mean/scale)
	return template.HTML(b.String())
}

// drawArrival draws the place of values in their order (upwards) over the order in which they came.
func drawArrival(c advisor.Column) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg class="plot" role="img" aria-label="values in the order of arrival" viewBox="0 0 164 60"><path class="frame" d="M0.5 0.5h162v58h-162z"/><path class="dots" d="`)
	for i, rank := range c.Arrival {
		fmt.Fprintf(&b, "M%.1f %.1fh1.6v1.6h-1.6z", 2+158*float64(i)/float64(max(1, len(c.Arrival)-1)), 56-54*float64(rank))
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String())
}
