package effect

// Table is the first byte of a store key: what the rest, a position, is about.
// All tables are ordered by position, so that a split, a merge or a move takes
// the rows of each along.
type Table byte

// The tables. Their numbers are on disks: none is ever changed or used again.
const (
	// Rows holds keys and the elements of collections.
	Rows Table = 1
	// Intents holds what undecided transactions have locked.
	Intents Table = 2
	// Dedup holds requests that were answered, with their replies.
	Dedup Table = 3
	// Marks holds decisions and ends of transactions.
	Marks Table = 4
	// Capture holds changes that a move has yet to carry over.
	Capture Table = 5
	// Expiry holds, for each key that expires, when.
	Expiry Table = 6
	// State holds what a group remembers about itself.
	State Table = 7
	// Orphans holds, for each key whose former elements may still be in Rows,
	// how far they are removed.
	Orphans Table = 8
	// Events holds nothing: what commands did to keys, as keyspace notifications name it,
	// is in the log alone, for readers of the feed. The value is a command.Event.
	Events Table = 9
)

// ByPosition are the tables whose rows belong to the owner of their position, and
// go where it goes.
var ByPosition = [...]Table{Rows, Intents, Dedup, Marks, Expiry, Orphans}

// AppendKey appends the store key of position in the table to dst.
func (t Table) AppendKey(dst, position []byte) []byte {
	return append(append(dst, byte(t)), position...)
}

// Span returns the store keys of the table: from the first, up to the second.
func (t Table) Span() (from, to []byte) { return t.SpanBetween(nil, nil) }

// SpanBetween returns the store keys of the table that are about start <= position < end.
// An empty end is that of the table.
func (t Table) SpanBetween(start, end []byte) (from, to []byte) {
	from = t.AppendKey(nil, start)
	if len(end) == 0 {
		return from, []byte{byte(t) + 1}
	}
	return from, t.AppendKey(nil, end)
}
