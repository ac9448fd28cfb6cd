// Package recordtext shows what a source reads as text, for the tests of sources.
package recordtext

import (
	"errors"
	"io"
	"strings"

	"github.com/cleavekv/cleave/advisor"
)

// Read reads a source to its end: names of columns, then records, then problems.
func Read(src advisor.Source) (string, error) {
	var columns, parts, problems []string
	for {
		var b advisor.Records
		err := src.Next(&b)
		if parseErr := b.Parse(); parseErr != nil {
			return "", parseErr
		}
		if names := b.Columns(); names != nil {
			columns = names
		}
		for record := range b.All() {
			var values []string
			for i := range columns {
				kind, text := record.Value(i)
				if kind == advisor.Null {
					values = append(values, "NULL")
					continue
				}
				values = append(values, string(text))
			}
			parts = append(parts, strings.Join(values, ","))
		}
		for _, p := range b.Problems() {
			problems = append(problems, p.String())
		}
		if errors.Is(err, io.EOF) {
			text := strings.Join(columns, " ") + ": " + strings.Join(append(parts, problems...), " | ")
			return strings.TrimSuffix(text, " "), nil
		}
		if err != nil {
			return "", err
		}
	}
}
