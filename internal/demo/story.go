package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// Story is a play with a hot spot and its remedy.
type Story struct {
	Name string
	// About is the story in a sentence, and Takes about how long it plays.
	About string
	Takes time.Duration
	play  func(*stage) error
}

// Stories returns all stories, in the order in which they are best seen.
func Stories() []Story {
	return []Story{blackFriday, flashSale, likes, telemetry, booking}
}

// Find returns the story of a name.
func Find(name string) (Story, bool) {
	i := slices.IndexFunc(Stories(), func(s Story) bool { return s.Name == name })
	if i < 0 {
		return Story{}, false
	}
	return Stories()[i], true
}

// StatusLine is a line that is drawn anew while a story plays.
type StatusLine interface {
	Show(fraction float64, text string)
	End(keep bool)
}

// Options are how a story is played. The zero value plays it as cleave demo does, into nothing.
type Options struct {
	// Out is where it is told. Default nowhere.
	Out io.Writer
	// Width is how many columns Out has. Default 80.
	Width int
	// Bold makes headings bold.
	Bold bool
	// Progress is shown between the lines of the story. Default none.
	Progress StatusLine
	// Keep leaves the server running at the end, until the context ends.
	Keep bool
	// Pace is how long its parts take.
	Pace Pace
}

// Pace is how long the parts of a story take. The zero value of each is its default.
type Pace struct {
	// Measure is for how long figures are taken. Default 6 s.
	Measure time.Duration
	// Patience is the longest wait for what the store has to find or to do. Default a minute.
	Patience time.Duration
}

func (p Pace) withDefaults() Pace {
	if p.Measure == 0 {
		p.Measure = 6 * time.Second
	}
	if p.Patience == 0 {
		p.Patience = time.Minute
	}
	return p
}

// Result is what a story has shown.
type Result struct {
	// Found is what the store has named, and Decisions what it has decided about that, as far as the story showed it.
	Found     []api.Hot
	Decisions []api.Decision
	// Tables are the figures at the ends of its parts.
	Tables []Comparison
}

// Comparison is figures of a story side by side, such as before and after.
type Comparison struct {
	Columns []string
	Figures []Figure
}

// Figure is one figure, with its value in each column.
type Figure struct {
	Name   string
	Values []float64
	format func(float64) string
}

// Value returns a figure of a column, of the last table that has it; false if none has.
func (o *Result) Value(figure, column string) (float64, bool) {
	for _, t := range slices.Backward(o.Tables) {
		c := slices.Index(t.Columns, column)
		f := slices.IndexFunc(t.Figures, func(f Figure) bool { return f.Name == figure })
		if c >= 0 && f >= 0 {
			return t.Figures[f].Values[c], true
		}
	}
	return 0, false
}

// Run plays a story. Its server is gone when it returns.
func Run(ctx context.Context, s Story, o Options) (_ *Result, err error) {
	o.Pace = o.Pace.withDefaults()
	t := newScript(s, o)
	defer t.endProgress()
	t.title()
	st, err := openStage(ctx, t, o.Pace)
	if err != nil {
		return nil, fmt.Errorf("demo %s: %w", s.Name, err)
	}
	defer func() {
		t.endProgress()
		err = errors.Join(err, st.close())
	}()
	st.introduce()
	if err := s.play(st); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("demo %s: %w", s.Name, err)
	}
	if err := st.stopClients(); err != nil {
		return nil, fmt.Errorf("demo %s: %w", s.Name, err)
	}
	st.conclude(o.Keep)
	if o.Keep {
		<-ctx.Done()
	}
	return &st.result, nil
}
