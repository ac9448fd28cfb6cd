package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/csvfile"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/partition"
)

var booking = Story{
	Name: "booking",
	About: "Two customers want the same cabin, and one may get it. The shard key says whether that is decided in one shard or across " +
		"two: cleave advise is asked first, then three keys are measured.",
	Takes: 25 * time.Second,
	play:  playBooking,
}

const (
	bookingClients = 16
	trips          = 2000
	cabinsOfTrip   = 50
	customers      = 100_000
	// saleTrip is on sale: so many of a hundred bookings are for it.
	saleTrip, saleShare = 7, 40
	// bookingRows is how many records the advisor is given.
	bookingRows = 20_000
)

// bookingKey is a choice of what the rows of a booking lie with.
type bookingKey struct {
	layout, keyspace string
	// hold is the hash tag of the hold; that of the cabin is cabin.
	cabin, hold func(trip, cabin int, customer string) string
}

func bookingKeys() []bookingKey {
	atCabin := func(trip, cabin int, _ string) string { return fmt.Sprintf("trip-%d/cabin-%d", trip, cabin) }
	atTrip := func(trip, _ int, _ string) string { return fmt.Sprintf("trip-%d", trip) }
	atCustomer := func(_, _ int, customer string) string { return customer }
	return []bookingKey{
		{"customer", "by-customer", atCabin, atCustomer}, // the cabin is wanted by others, too: it cannot lie with one
		{"trip", "by-trip", atTrip, atTrip},
		{"(trip, cabin)", "by-cabin", atCabin, atCabin},
	}
}

// rows returns the keys of a cabin and of a customer's hold of it.
func (k *bookingKey) rows(trip, cabin int, customer string) (cabinRow, holdRow string) {
	what := fmt.Sprintf("%d/%d", trip, cabin)
	return "{" + k.cabin(trip, cabin, customer) + "}/cabin/" + what, "{" + k.hold(trip, cabin, customer) + "}/hold/" + what
}

// pickTrip draws the trip of a booking.
func pickTrip(r *rand.Rand) int {
	if r.IntN(100) < saleShare {
		return saleTrip
	}
	return r.IntN(trips)
}

func playBooking(st *stage) error {
	if err := st.adviseBooking(); err != nil {
		return err
	}
	st.heading("Three keys, measured")
	st.say("%d clients hold cabins and release them, each with WATCH, GET and MULTI: a cabin has one holder, and a hold one cabin. "+
		"%d of a hundred bookings are for one trip that is on sale.", bookingClients, saleShare)
	keys := bookingKeys()
	var names []string
	var measured []measurement
	cross := Figure{Name: "writes in cross-shard transactions", format: asPercent}
	taken := Figure{Name: "lost to another customer, a second", format: asCount}
	for _, k := range keys {
		if _, err := st.db.CreateKeyspace(st.ctx, cleave.KeyspaceOptions{Name: k.keyspace}); err != nil {
			return err
		}
		bookers := st.start(&clients{number: bookingClients, keyspace: k.keyspace, work: k.book})
		before, err := st.readCrossShard()
		if err != nil {
			return err
		}
		m, err := st.measure(k.keyspace, bookers, nil)
		if err != nil {
			return err
		}
		if err := bookers.stop(); err != nil {
			return err
		}
		after, err := st.readCrossShard()
		if err != nil {
			return err
		}
		if err := st.checkHolds(k.keyspace); err != nil {
			return err
		}
		names, measured = append(names, k.layout), append(measured, m)
		cross.Values = append(cross.Values, (after.cross-before.cross)/max(after.writes-before.writes, 1))
		taken.Values = append(taken.Values, m.refused)
	}
	st.compare(Comparison{Columns: names, Figures: []Figure{
		cross,
		figureOf("busiest shard's part of writes", asPercent, measured, func(m *measurement) float64 { return m.busiest }),
		figureOf("busiest group's part of writes", asPercent, measured, func(m *measurement) float64 { return m.group }),
		figureOf("bookings and releases a second", asCount, measured, func(m *measurement) float64 { return m.perSecond }),
		figureOf("p99 of one", asTime, measured, func(m *measurement) float64 { return m.p99 }),
		taken,
	}})
	st.print("\n")
	st.say("Every cabin that is held has its hold, under each key: transactions are as right across shards, they cost more. On this server "+
		"(%s) its groups write one record together; across stores it takes two phases (bench/SHARDS.md).", describeMachine(st.db))
	return nil
}

// book holds a cabin, or releases it if it is held.
func (k *bookingKey) book(ctx context.Context, library *redis.Client, r *rand.Rand) (done bool, err error) {
	trip, cabin, customer := pickTrip(r), r.IntN(cabinsOfTrip), fmt.Sprintf("customer-%d", r.IntN(customers))
	cabinRow, holdRow := k.rows(trip, cabin, customer)
	err = library.Watch(ctx, func(tx *redis.Tx) error {
		holder, err := tx.Get(ctx, cabinRow).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			if holder == "" {
				pipe.Set(ctx, cabinRow, customer, 0)
				pipe.Set(ctx, holdRow, "1200", 0)
				return nil
			}
			_, theirs := k.rows(trip, cabin, holder)
			pipe.Del(ctx, cabinRow)
			pipe.Del(ctx, theirs)
			return nil
		})
		return err
	}, cabinRow)
	if errors.Is(err, redis.TxFailedErr) {
		return false, nil
	}
	return err == nil, err
}

// checkHolds reports an error unless there are as many cabins as holds.
func (st *stage) checkHolds(keyspace string) error {
	ks, err := st.db.Keyspace(keyspace)
	if err != nil {
		return err
	}
	cabins, holds := 0, 0
	for item, err := range ks.Scan(st.ctx, cleave.ScanOptions{KeysOnly: true}) {
		if err != nil {
			return err
		}
		if strings.Contains(string(item.Key), "}/cabin/") {
			cabins++
		} else {
			holds++
		}
	}
	if cabins != holds {
		return fmt.Errorf("%d cabins are held by %d holds under %s", cabins, holds, keyspace)
	}
	return nil
}

// adviseBooking asks the advisor which key keeps together what is decided together.
func (st *stage) adviseBooking() error {
	st.heading("The question: which rows are decided together?")
	st.say("The advisor is given %s records of bookings, and what is decided at once: 95 of a hundred times a cabin of a trip, else the "+
		"cabin with the customer.", asCount(bookingRows))
	st.line("cleave advise bookings.csv --layout hash \\")
	st.line("  --together 'trip,cabin=95;trip,cabin,customer=5'")
	r := rand.New(rand.NewPCG(1, 2))
	var records strings.Builder
	records.WriteString("id,trip,cabin,customer\n")
	for i := range bookingRows {
		fmt.Fprintf(&records, "%d,trip-%d,cabin-%d,customer-%d\n", i, pickTrip(r), r.IntN(cabinsOfTrip), r.IntN(customers))
	}
	kinds, err := advisor.ParseTogether("trip,cabin=95;trip,cabin,customer=5")
	if err != nil {
		return err
	}
	var layouts []string
	for _, k := range bookingKeys() {
		layouts = append(layouts, k.layout)
	}
	st.show("asking the advisor")
	report, err := advisor.Analyze(st.ctx, csvfile.NewReader(strings.NewReader(records.String()), csvfile.Options{}), advisor.Options{
		Kinds: []partition.Kind{partition.Hash}, Candidates: layouts, Together: kinds,
	})
	if err != nil {
		return err
	}
	c := Comparison{Figures: []Figure{
		{Name: "transactions across shards", format: asPercent}, {Name: "rows under one key", format: asPercent}, {Name: "points of a hundred", format: asCount},
	}}
	for _, x := range report.Candidates {
		c.Columns = append(c.Columns, x.Layout)
		for i, v := range []float64{x.Together.CrossShard.Value, x.LargestKey.Value, x.Score} {
			c.Figures[i].Values = append(c.Figures[i].Values, v)
		}
	}
	st.compare(c)
	st.print("\n")
	for _, x := range report.Candidates {
		text := x.Layout + ": " + x.Sentence
		if x.Together.BreaksFirst != x.Sentence {
			text += "; breaks first: " + x.Together.BreaksFirst
		}
		st.item("grade "+x.Grade, text)
	}
	return nil
}

// crossShardCounts are operations since the start of the server.
type crossShardCounts struct{ cross, writes float64 }

// readCrossShard reads them where an operator's monitoring does.
func (st *stage) readCrossShard() (c crossShardCounts, err error) {
	request, err := http.NewRequestWithContext(st.ctx, http.MethodGet, "http://"+st.httpAddr+api.PathMetrics, nil)
	if err != nil {
		return c, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return c, err
	}
	defer reply.Body.Close()
	return parseCrossShard(reply.Body)
}

// parseCrossShard finds the counts among all metrics.
func parseCrossShard(in io.Reader) (c crossShardCounts, err error) {
	want := map[string]*float64{"cleave_cross_shard_operations_total": &c.cross, `cleave_operations_total{kind="write"}`: &c.writes}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if count := want[name]; count != nil {
			if *count, err = strconv.ParseFloat(value, 64); err != nil {
				return c, fmt.Errorf("the metric %s: %w", name, err)
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		return c, fmt.Errorf("%d metrics of operations are missing", len(want))
	}
	return c, lines.Err()
}
