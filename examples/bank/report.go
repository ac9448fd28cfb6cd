package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// report prints what was tried and what was found.
func (b *book) report(out io.Writer, seed uint64) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "killed\tkills\tacknowledged\tunknown\tfound done\tfound not done\t")
	var sum line
	for s, l := range b.lines {
		if l.kills == 0 {
			continue // not a step of this form
		}
		l.print(w, step(s).String())
		sum.kills += l.kills
		sum.acknowledged += l.acknowledged
		sum.unknown += l.unknown
		sum.done += l.done
		sum.undone += l.undone
	}
	sum.print(w, "together")
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, `
After each kill the accounts had %d together, and each what the log says: %d audits.
Every acknowledged transfer was there once. Those with an unknown outcome were asked
again, %d times in all, and were done once or refused. Seed %d.
`, accounts*deposit, b.audits, b.again, seed)
	return err
}

func (l line) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t\n", name, l.kills, l.acknowledged, l.unknown, l.done, l.undone)
}
