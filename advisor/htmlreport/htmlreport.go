// Package htmlreport writes a report of package advisor as one page of HTML that needs nothing else:
// no script, and nothing that is loaded. It has the ranked keys with their scores, what grades mean,
// how values of each column are spread and in which order they came, and the writes of shards over
// time under each key.
package htmlreport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/cleavekv/cleave/advisor"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
	"figure":  formatInterval,
	"count":   formatCount,
	"bytes":   formatBytes,
	"join":    strings.Join,
	"day":     func(t time.Time) string { return t.Format("2006-01-02 15:04 MST") },
	"scores":  listScores,
	"heat":    drawHeat,
	"values":  drawCardinality,
	"skew":    drawSkew,
	"arrival": drawArrival,
	"moved":   func(m advisor.Moved) string { return m.String() },
	"problem": func(p advisor.Problem) string { return p.String() },
}).Parse(pageText))

// maxShownColumns and maxShownKeys bound the page. The JSON report has all.
const (
	maxShownColumns = 40
	maxShownKeys    = 10
)

// view is what the page shows.
type view struct {
	*advisor.Report
	// Keys are the best candidates, then the current key if it is not among them.
	Keys    []shownKey
	Shown   []advisor.Column
	Best    *advisor.Result
	IsGood  bool
	Skipped int64
}

// shownKey is a key in the table.
type shownKey struct {
	*advisor.Result
	Rank      int // from 1 on; 0 if it is not ranked
	IsCurrent bool
}

// Write writes the page.
func Write(w io.Writer, r *advisor.Report) error {
	v := view{Report: r, Skipped: r.Skipped, Shown: r.Columns[:min(len(r.Columns), maxShownColumns)]}
	hasCurrent := false
	for i := range r.Candidates[:min(len(r.Candidates), maxShownKeys)] {
		c := &r.Candidates[i]
		isCurrent := r.Current != nil && r.Current.Layout == c.Layout && r.Current.Kind == c.Kind
		hasCurrent = hasCurrent || isCurrent
		v.Keys = append(v.Keys, shownKey{c, i + 1, isCurrent})
	}
	if r.Current != nil && !hasCurrent {
		v.Keys = append(v.Keys, shownKey{r.Current, 0, true})
	}
	if len(r.Candidates) > 0 {
		v.Best = &r.Candidates[0]
		v.IsGood = strings.Contains("ABC", v.Best.Grade)
	}
	if err := page.Execute(w, v); err != nil {
		return fmt.Errorf("htmlreport: %w", err)
	}
	return nil
}

// namedScore is a score with its name.
type namedScore struct {
	Name  string
	Value float64
	Width int // of its bar, in percent
	Known bool
}

// listScores returns the scores in the order in which the page explains them.
func listScores(s advisor.Scores) []namedScore {
	var list []namedScore
	for _, score := range []struct {
		name  string
		value float64
	}{
		{"cardinality", s.Cardinality}, {"balance", s.Balance}, {"writes", s.Writes}, {"largest key", s.LargestKey},
		{"presence", s.Presence}, {"queries", s.Queries}, {"stability", s.Stability}, {"local transactions", s.Local},
	} {
		list = append(list, namedScore{score.name, score.value, int(100 * max(0, score.value)), score.value >= 0})
	}
	return list
}

func formatInterval(i any) string {
	var v advisor.Interval
	switch i := i.(type) {
	case *advisor.Interval:
		if i == nil {
			return "–"
		}
		v = *i
	case advisor.Interval:
		v = i
	}
	if text := fmt.Sprintf("%.2f", v.Value); fmt.Sprintf("%.2f", v.Low) != text || fmt.Sprintf("%.2f", v.High) != text {
		return fmt.Sprintf("%s (%.2f–%.2f)", text, v.Low, v.High)
	}
	return fmt.Sprintf("%.2f", v.Value)
}

// formatCount writes a number with commas between thousands.
func formatCount(v any) string {
	digits := fmt.Sprint(v)
	if f, ok := v.(float64); ok {
		digits = fmt.Sprintf("%.0f", f)
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func formatBytes(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
