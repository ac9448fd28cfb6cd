package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/heat"
)

// A load that becomes uneven raises an alarm, which ends with it; one that was always like that raises none.
func TestHeat_LoadBecomesUneven_RaisesAnAlarm(t *testing.T) {
	var log bytes.Buffer
	n, err := Open(Options{HousekeepInterval: -1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	r, now := rand.New(rand.NewPCG(1, 2)), n.heat.now()
	load := func(rounds int, hot float64) (alarms int) {
		for range rounds {
			for range 4000 {
				key := fmt.Appendf(nil, "key %d", r.IntN(20_000))
				if r.Float64() < hot {
					key = []byte("hot")
				}
				n.RecordAccess(&heat.Access{Key: k.AppendPosition(nil, key)}, 128)
			}
			now += evennessInterval
			n.heat.meter.Collect(now)
			n.judgeEvenness(now)
			if e, _ := n.Evenness(); e.Alarm {
				alarms++
			}
		}
		return alarms
	}
	if alarms := load(20, 0.01); alarms > 0 {
		t.Fatalf("%d alarms of an even load", alarms)
	}
	if alarms := load(10, 0.6); alarms < 5 {
		t.Errorf("%d alarms of 10 after a key has got most of the load", alarms)
	}
	e, changes := n.Evenness()
	if !e.Alarm || e.TopShare < 0.4 || len(changes) != 1 || !changes[0].Alarm || changes[0].Evenness.Evenness >= changes[0].Usual || changes[0].Time.Before(time.Now().Add(-time.Minute)) {
		t.Errorf("it is %+v, after the changes %+v", e, changes)
	}
	load(60, 0.01)
	if e, changes := n.Evenness(); e.Alarm || len(changes) != 2 || changes[1].Alarm {
		t.Errorf("even again it is %+v, after the changes %+v", e, changes)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"load has become uneven", "load is even again"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
}

// The heat map of a directory goes on where it was when the node is opened again, and begins anew if its file is damaged.
func TestHeatMap_Reopened_HasItsPast(t *testing.T) {
	o := Options{Dir: t.TempDir(), HousekeepInterval: -1}
	n := mustOpen(t, o)
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := heat.NewRanges(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen.Add(&heat.Access{Key: k.AppendPosition(nil, []byte("tea")), Write: true}, 1000)
	now := n.heat.now()
	n.HeatMap().Record(now-time.Hour, seen)
	columns := func(n *Node) int {
		t.Helper()
		v, err := n.HeatMap().View(heat.ViewOptions{Metric: heat.MetricWrites})
		if err != nil {
			t.Fatal(err)
		}
		return len(v.Columns)
	}
	n.HeatMap().Record(now-59*time.Minute, seen) // ends the column before
	want := columns(n)
	if err := n.Close(ctx); err != nil || want == 0 {
		t.Fatalf("%d columns, %v", want, err)
	}
	n = mustOpen(t, o)
	if got := columns(n); got != want {
		t.Errorf("%d columns, there were %d", got, want)
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(o.Dir, heatFile)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	n = mustOpen(t, o)
	defer n.Close(ctx)
	if got := columns(n); got != 0 {
		t.Errorf("%d columns of a damaged file", got)
	}
}
