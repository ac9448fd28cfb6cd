package demo

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/table"
)

var telemetry = Story{
	Name: "telemetry",
	About: "Devices report all the time, and the key begins with the time: one shard has all writes. A salt, or the device and a bucket of " +
		"the time, spread them, and each has a price for some reads.",
	Takes: 40 * time.Second,
	play:  playTelemetry,
}

const (
	devices           = 200
	telemetryClients  = 16
	telemetryPipeline = 8
	newestRows        = 1000
	lastRows          = 30
)

// archive keeps readings under one layout.
type archive struct {
	name, layout, keyspace string
	// cuts are where it is cut beside its salts.
	cuts []key.Columns
	*table.Table
	keys *key.Layout
}

func deviceName(n int) string { return fmt.Sprintf("device-%03d", n) }

func archives() []*archive {
	byDevice := &archive{name: "(device, day), ts", layout: "(device:string, day(ts)) | ts:time", keyspace: "readings-by-device"}
	for n := devices / 8; n < devices; n += devices / 8 {
		byDevice.cuts = append(byDevice.cuts, key.Columns{"device": deviceName(n)})
	}
	return []*archive{
		{name: "ts", layout: "ts:time, device:string", keyspace: "readings"},
		{name: "salt(8), ts", layout: "salt(8, device) | ts:time, device:string", keyspace: "readings-by-salt"},
		byDevice,
	}
}

func playTelemetry(st *stage) error {
	all := archives()
	for _, a := range all {
		if err := a.open(st); err != nil {
			return err
		}
	}
	st.heading("The time leads the key")
	st.say("%d devices report through %d connections into a keyspace with the layout %s.", devices, telemetryClients, all[0].layout)
	reporters := st.start(all[0].reporters())
	found, err := st.awaitFinding("moving edge", all[0].keyspace)
	if err != nil {
		return err
	}
	if _, err := st.awaitDecision("decision about it", func(d *api.Decision) bool { return d.Class == found.Class }); err != nil {
		return err
	}
	first, err := st.measure(all[0].keyspace, reporters, nil)
	if err != nil {
		return err
	}
	if err := reporters.stop(); err != nil {
		return err
	}
	measured := []measurement{first}
	st.heading("A salt, or the device and a bucket of the time")
	for _, a := range all[1:] {
		st.say("The same with %s, in a shard for each %s.", a.layout, map[bool]string{true: "salt", false: "eighth of the devices"}[a.keys.Salts() > 1])
		reporters := st.start(a.reporters())
		m, err := st.measure(a.keyspace, reporters, nil)
		if err != nil {
			return err
		}
		if err := reporters.stop(); err != nil {
			return err
		}
		measured = append(measured, m)
	}
	return st.compareArchives(all, measured)
}

// open makes the keyspace of an archive.
func (a *archive) open(st *stage) (err error) {
	ks, err := st.db.CreateKeyspace(st.ctx, cleave.KeyspaceOptions{Name: a.keyspace, Kind: cleave.Range, Layout: a.layout})
	if err != nil {
		return err
	}
	if a.keys, err = key.ParseLayout(a.layout); err != nil {
		return err
	}
	if a.Table, err = table.Open(st.db, ks, table.Options{}); err != nil {
		return err
	}
	if a.keys.Salts() > 1 || a.cuts != nil { // else there is no key known to cut it at
		if err := a.Spread(st.ctx, a.cuts...); err != nil {
			return err
		}
	}
	var b cleave.Batch
	for n := range devices {
		for i := range lastRows { // as many as are read later, however few come meanwhile
			at := time.Now().Add(-time.Duration(i+1) * time.Second)
			k, err := a.keys.Encode(key.Columns{"device": deviceName(n), "ts": at})
			if err != nil {
				return err
			}
			b.Set(ks, k, []byte(readingText))
		}
	}
	return st.db.Write(st.ctx, &b)
}

// readingText is what a reading says.
const readingText = "21.5"

// reporters are connections through which devices report.
func (a *archive) reporters() *clients {
	return &clients{number: telemetryClients, pipeline: telemetryPipeline, keyspace: a.keyspace, send: func(ctx context.Context, pipe redis.Pipeliner, r *rand.Rand) {
		k, err := a.keys.Encode(key.Columns{"device": deviceName(r.IntN(devices)), "ts": time.Now()})
		if err != nil {
			panic(err) // the columns are those of the layout
		}
		pipe.Set(ctx, string(k), readingText, 0)
	}}
}

// compareArchives reads from each what it is good for, and compares.
func (st *stage) compareArchives(all []*archive, measured []measurement) error {
	newest, last := Figure{Name: fmt.Sprintf("newest %d of all devices", newestRows), format: asTime}, Figure{Name: fmt.Sprintf("last %d of one device", lastRows), format: asTime}
	reads := Figure{Name: "ranges that are merged for them", format: asCount}
	var names []string
	for _, a := range all {
		names = append(names, a.name)
		times := []float64{math.NaN(), math.NaN(), float64(max(1, a.keys.Salts()))}
		var err error
		if a.cuts == nil {
			times[0], err = fastest(func() (int, error) {
				page, err := a.ScanPage(st.ctx, table.Query{Reverse: true, Limit: newestRows})
				return len(page.Rows), err
			}, newestRows)
		} else {
			times[1], err = fastest(func() (int, error) {
				found, err := a.Last(st.ctx, table.Last{Where: key.Columns{"device": deviceName(7)}, N: lastRows})
				return len(found.Rows), err
			}, lastRows)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		newest.Values, last.Values, reads.Values = append(newest.Values, times[0]), append(last.Values, times[1]), append(reads.Values, times[2])
	}
	st.compare(Comparison{Columns: names, Figures: []Figure{
		figureOf("busiest shard's part of writes", asPercent, measured, func(m *measurement) float64 { return m.busiest }),
		figureOf("busiest group's part of writes", asPercent, measured, func(m *measurement) float64 { return m.group }),
		figureOf("shards that are written", asCount, measured, func(m *measurement) float64 { return float64(m.written) }),
		figureOf("readings a second", asCount, measured, func(m *measurement) float64 { return m.perSecond }),
		figureOf("p99 of reporting", asTime, measured, func(m *measurement) float64 { return m.p99 }),
		newest, last, reads,
	}})
	st.print("\n")
	st.say("A dash is a question that the layout cannot answer with one read of a range. Clients and server share %s.", describeMachine(st.db))
	return nil
}

// fastest is the shortest time in seconds of some reads, each of which has to return so many rows: the first ones fill caches.
func fastest(read func() (rows int, err error), want int) (seconds float64, err error) {
	for n := range 10 {
		began := time.Now()
		rows, err := read()
		if err != nil {
			return 0, err
		}
		if rows != want {
			return 0, fmt.Errorf("a read found %d rows, want %d", rows, want)
		}
		if d := time.Since(began).Seconds(); n == 0 || d < seconds {
			seconds = d
		}
	}
	return seconds, nil
}
