package drive

import "github.com/cleavekv/cleave/internal/command"

// gentle reads what a job needs, and rests every few rows.
type gentle struct {
	command.Reader
	rest func()
}

// gentleRows is how many rows are read before that: a moment's work.
const gentleRows = 32

// Scan rests every few rows.
func (r gentle) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	n := 0
	return r.Reader.Scan(start, end, reverse, func(key, value []byte) bool {
		if n++; n%gentleRows == 0 {
			r.rest()
		}
		return visit(key, value)
	})
}
