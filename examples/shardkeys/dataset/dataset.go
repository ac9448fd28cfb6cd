// Package dataset makes the five tables that docs/choosing-a-shard-key.md chooses keys for: invented, but shaped as such
// tables are. Equal numbers of rows give equal bytes, on any machine.
package dataset

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// Rows is how many rows the guide's tables have.
const Rows = 20_000

// End is when their last rows were written, 30 days after the first.
var End = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// Set is a table.
type Set struct {
	Name    string
	columns string
	// Queries are what programs ask of it, as cleave advise --queries reads them.
	Queries string
	// newRow returns what makes its rows, one after the other.
	newRow func(r *rand.Rand) func(i int, at time.Time) []any
}

// All returns the tables.
func All() []Set {
	return []Set{
		{"orders", "id,customer,region,total,created_at", `{"op": "select", "columns": ["customer"], "count": 90}
{"op": "select", "columns": ["customer", "id"], "count": 10}
`, newOrders},
		{"messages", "id,room,sender,sent_at,text", `{"op": "select", "filter": {"room": 1, "sent_at": {"ge": 1}}, "count": 100}
`, newMessages},
		{"documents", "tenant,id,author,updated_at,title", `{"op": "select", "columns": ["tenant", "id"], "count": 80}
{"op": "select", "columns": ["tenant"], "count": 20}
`, newDocuments},
		{"readings", "ts,device,celsius", `{"op": "select", "filter": {"device": 1, "ts": {"ge": 1}}, "count": 100}
`, newReadings},
		{"bookings", "id,trip,cabin,customer,status,changed_at", `{"op": "select", "columns": ["trip", "cabin"], "count": 95}
{"op": "select", "columns": ["customer"], "count": 5}
`, newBookings},
	}
}

// Write writes a table of so many rows as CSV with a header, in the order in which they were written.
func (s Set) Write(w io.Writer, rows int) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, s.columns)
	r := rand.New(rand.NewPCG(uint64(len(s.Name)), 20261101))
	row := s.newRow(r)
	step := 30 * 24 * time.Hour / time.Duration(rows)
	for i := range rows {
		at := End.Add(time.Duration(i-rows) * step).Add(time.Duration(r.Int64N(int64(step)))).Truncate(time.Millisecond)
		for n, v := range row(i, at) {
			if n > 0 {
				out.WriteByte(',')
			}
			if t, isTime := v.(time.Time); isTime {
				v = t.Format("2006-01-02T15:04:05.000Z")
			}
			fmt.Fprint(out, v)
		}
		out.WriteByte('\n')
	}
	return out.Flush()
}

// snowflake is an identifier that begins with its time.
func snowflake(r *rand.Rand, at time.Time) int64 {
	const epoch = 1288834974657
	return (at.UnixMilli()-epoch)<<22 | r.Int64N(1<<5)<<12 | r.Int64N(4)
}

// randomID is a UUID of random bits.
func randomID(r *rand.Rand) string {
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}

// newOrders: identifiers are Snowflakes, and customers are many and alike.
func newOrders(r *rand.Rand) func(int, time.Time) []any {
	return func(_ int, at time.Time) []any {
		return []any{snowflake(r, at), fmt.Sprintf("c%05d", r.IntN(3000)), [...]string{"eu", "us", "ap"}[r.IntN(3)], fmt.Sprintf("%d.%02d", r.IntN(900), r.IntN(100)), at}
	}
}

// newMessages: a quarter is in the room of a celebrity.
func newMessages(r *rand.Rand) func(int, time.Time) []any {
	return func(_ int, at time.Time) []any {
		room := fmt.Sprintf("room-%04d", 1+r.IntN(2000))
		if r.IntN(4) == 0 {
			room = "room-0000"
		}
		return []any{randomID(r), room, fmt.Sprintf("user-%05d", r.IntN(8000)), at, strings.Repeat("x", 20+r.IntN(100))}
	}
}

// newDocuments: a tenant has an eighth of all, and the others are small.
func newDocuments(r *rand.Rand) func(int, time.Time) []any {
	return func(_ int, at time.Time) []any {
		tenant := fmt.Sprintf("tenant-%04d", 1+r.IntN(1500))
		if r.IntN(8) == 0 {
			tenant = "tenant-big"
		}
		return []any{tenant, randomID(r), fmt.Sprintf("%s/%d", tenant, r.IntN(5)), at, fmt.Sprintf("Report %d", r.IntN(1000))}
	}
}

// newReadings: devices send at the same pace, in the order of time.
func newReadings(r *rand.Rand) func(int, time.Time) []any {
	return func(i int, at time.Time) []any {
		return []any{at, fmt.Sprintf("dev-%03d", i%400), fmt.Sprintf("%.1f", 15+10*r.Float64())}
	}
}

// newBookings: changes of bookings of cabins. A trip on sale is asked for far more than others for three hours.
func newBookings(r *rand.Rand) func(int, time.Time) []any {
	return func(i int, at time.Time) []any {
		trip := fmt.Sprintf("TRIP-%03d", r.IntN(300))
		if r.IntN(2) == 0 {
			trip = fmt.Sprintf("TRIP-%03d", i*240/Rows%300) // on sale
		}
		return []any{randomID(r), trip, fmt.Sprintf("C%02d", r.IntN(60)), fmt.Sprintf("user-%04d", r.IntN(4000)), [...]string{"held", "released", "booked"}[r.IntN(3)], at}
	}
}
