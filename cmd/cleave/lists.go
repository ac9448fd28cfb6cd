package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
	"github.com/cleavekv/cleave/internal/terminal"
)

// watched is how often a command shows something again: never by default.
type watched time.Duration

// flag gives a command --watch, alone or with how often.
func (w *watched) flag(cmd *cobra.Command) {
	f := cmd.Flags().VarPF(w, "watch", "w", "show it again and again, `every` 2s or as said,\nuntil interrupted")
	f.NoOptDefVal = "2s"
	f.DefValue = ""
	completeMore(cmd, nil)
}

// String is part of the flag interface.
func (w *watched) String() string { return time.Duration(*w).String() }

// Type is part of the flag interface.
func (w *watched) Type() string { return "every" }

// Set takes a duration. It is part of the flag interface.
func (w *watched) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 100*time.Millisecond {
		return fmt.Errorf("want a time of at least 100ms, such as 2s")
	}
	*w = watched(d)
	return nil
}

// each shows something once, or again and again. At a terminal it is drawn over what was
// there.
func (w watched) each(ctx context.Context, out io.Writer, show func() error) error {
	for {
		if w != 0 && terminal.New(nil, out).Shown {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		if err := show(); err != nil || w == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // it was to go on until then
		case <-time.After(time.Duration(w)):
		}
	}
}

// listing is a command that shows rows.
type listing[T any] struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	columns                   []output.Column[T]
	// rows asks the server for them. The note is for people.
	rows func(ctx context.Context, c *api.Client, args []string) (rows []T, note string, err error)
	// none is what people read instead of an empty table.
	none string
}

// command makes it one. more adds flags.
func (l listing[T]) command(more func(*cobra.Command)) *cobra.Command {
	cmd := &cobra.Command{Use: l.use, Short: l.short, Long: l.long, Example: l.example, Args: l.args}
	return watching(cmd, more, func(ctx context.Context, c *api.Client, w watched, f output.Format, args []string) error {
		out := cmd.OutOrStdout()
		return w.each(ctx, out, func() error {
			rows, note, err := l.rows(ctx, c, args)
			if err != nil {
				return err
			}
			if f == output.Table && len(rows) == 0 {
				if note == "" {
					note = l.none
				}
				_, err := fmt.Fprintln(out, note)
				return err
			}
			if note != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), note)
			}
			return output.Write(out, f, rows, l.columns)
		})
	})
}

// show asks a server for something and shows it, as often as w says.
type show func(ctx context.Context, c *api.Client, w watched, f output.Format, args []string) error

// watching completes a command that shows something. more adds flags.
func watching(cmd *cobra.Command, more func(*cobra.Command), s show) *cobra.Command {
	var r remote
	var w watched
	if cmd.Args == nil {
		cmd.Args = noArgs
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return r.talk(cmd, func(ctx context.Context, c *api.Client) error { return s(ctx, c, w, r.format, args) })
	}
	cmd.Flags().SortFlags = false
	if more != nil {
		more(cmd)
	}
	r.flags(cmd)
	w.flag(cmd)
	return cmd
}

// showing is a command that shows one thing.
type showing[T any] struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	get                       func(ctx context.Context, c *api.Client, args []string) (T, error)
	text                      func(T) string
	// paint may colour the text at a terminal that takes colours.
	paint func(T, string) string
	// verdict may make the exit code of what was shown.
	verdict func(T) error
}

// command makes it one. more adds flags.
func (s showing[T]) command(more func(*cobra.Command)) *cobra.Command {
	cmd := &cobra.Command{Use: s.use, Short: s.short, Long: s.long, Example: s.example, Args: s.args}
	return watching(cmd, more, func(ctx context.Context, c *api.Client, w watched, f output.Format, args []string) error {
		var last T
		err := w.each(ctx, cmd.OutOrStdout(), func() (err error) {
			if last, err = s.get(ctx, c, args); err != nil {
				return err
			}
			return output.One(cmd.OutOrStdout(), f, last, s.painted(cmd.OutOrStdout()))
		})
		if err == nil && s.verdict != nil {
			return s.verdict(last)
		}
		return err
	})
}

// painted is the text, coloured if out takes that.
func (s showing[T]) painted(out io.Writer) func(T) string {
	if s.paint == nil || !terminal.Colored(out) {
		return s.text
	}
	return func(thing T) string { return s.paint(thing, s.text(thing)) }
}
