package admin

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
)

// heatUp has a client ask for a hot key, and for others, and the node know of it.
func heatUp(t *testing.T, l *testServer) (client string) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: l.redisAddr, ClientName: "cart", Protocol: 2, PoolSize: 1})
	t.Cleanup(func() { _ = c.Close() })
	for i := range 60 {
		p := c.Pipeline()
		for j := range 500 {
			p.Incr(ctx, "stock:\x1b42")
			p.Get(ctx, fmt.Sprint("cold:", 500*i+j))
		}
		if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	info, err := c.Do(ctx, "client", "info").Text()
	if err != nil {
		t.Fatal(err)
	}
	l.admin.node.CollectHeat()
	_, rest, _ := strings.Cut(info, "addr=")
	client, _, _ = strings.Cut(rest, " ")
	return client
}

func TestHotKeys_MisbehavingClient_IsNamed(t *testing.T) {
	l := startSmallServer(t)
	address := heatUp(t, l)
	for _, f := range []api.HotKeyFilter{{}, {By: api.ByOps, Keyspace: "default", N: 1}, {By: api.ByTime}} {
		h, err := l.client.HotKeys(ctx, f)
		if err != nil || len(h.Keys) == 0 || f.N == 1 && len(h.Keys) != 1 {
			t.Fatalf("%+v: %+v, %v", f, h, err)
		}
		k := h.Keys[0]
		if k.Keyspace != "default" || string(k.Key) != "stock:\x1b42" || k.Slot == nil || k.Shard == 0 || k.Group == 0 {
			t.Errorf("%+v: the hottest key is %+v", f, k)
		}
		if len(k.Commands) == 0 || k.Commands[0].Name != "incr" || len(k.Clients) == 0 || k.Clients[0].Name != "cart@127.0.0.1" || len(k.Addresses) == 0 || k.Addresses[0].Name != address {
			t.Errorf("%+v: it is asked for with %v by %v from %v, want %s", f, k.Commands, k.Clients, k.Addresses, address)
		}
		if f.By != api.ByTime && (k.ShareOfAll < 0.4 || k.ShareOfAll > 0.6 || k.ShareOfShard < k.ShareOfAll || k.WritesPerSecond < k.ReadsPerSecond || k.Deviation <= 0 || k.P99Seconds <= 0) {
			t.Errorf("%+v: its figures are %+v", f, k)
		}
	}
	h, err := l.client.HotKeys(ctx, api.HotKeyFilter{})
	if err != nil {
		t.Fatal(err)
	}
	other := uint64(0)
	shards, err := l.client.Shards(ctx, api.ShardFilter{Keyspace: "default"})
	for _, s := range shards {
		if s.ID != h.Keys[0].Shard {
			other = s.ID
		}
	}
	if in, err2 := l.client.HotKeys(ctx, api.HotKeyFilter{Shard: other}); errors.Join(err, err2) != nil || len(in.Keys) == 0 || strings.HasPrefix(string(in.Keys[0].Key), "stock") {
		t.Errorf("another shard: %+v, %v", in, err2)
	}
	for _, f := range []api.HotKeyFilter{{By: "heat"}, {Shard: 9999}, {Keyspace: "none"}, {N: 1000}} {
		var said *api.Error
		if _, err := l.client.HotKeys(ctx, f); !errors.As(err, &said) || said.Status != http.StatusBadRequest && said.Status != http.StatusNotFound {
			t.Errorf("%+v: %v", f, err)
		}
	}
	e, err := l.client.ExplainKey(ctx, "", api.Key("stock:\x1b42"))
	if err != nil || e.Heat == nil || e.Type != "string" || e.Bytes == nil || *e.Bytes != 5 || e.ExpiresSeconds != nil {
		t.Errorf("explain: %+v, %v", e, err)
	}
}

func TestHeatMap_HotKey_HasARowOfItsOwn(t *testing.T) {
	l := startSmallServer(t)
	heatUp(t, l)
	node := l.admin.node
	// The step of ten seconds in which it was asked for ends.
	node.Heat().Collect(time.Duration(time.Now().Add(11 * time.Second).UnixNano()))
	m, err := l.client.HeatMap(ctx, api.HeatFilter{Metric: api.MetricOps})
	if err != nil || len(m.Columns) == 0 || len(m.Rows) != len(m.Cells) || m.Bytes <= 0 || m.Bytes > 3<<20 || m.StepSeconds != 10 {
		t.Fatalf("%d columns, %d rows, %d cells of %d bytes, %v", len(m.Columns), len(m.Rows), len(m.Cells), m.Bytes, err)
	}
	hot, all := 0.0, 0.0
	for r, row := range m.Rows {
		for _, v := range m.Cells[r] {
			if v == nil {
				continue
			}
			if all += *v; row.Single && string(*row.StartKey) == "stock:\x1b42" {
				hot += *v
			}
		}
	}
	if hot < 0.4*all || hot > 0.6*all {
		t.Errorf("of %.0f operations the hot key has %.0f", all, hot)
	}
	if writes, err := l.client.HeatMap(ctx, api.HeatFilter{Metric: api.MetricWrites, From: time.Now().Add(-time.Hour), Rows: 4, Keyspace: "default"}); err != nil || len(writes.Rows) > 4 {
		t.Errorf("%d rows of writes, %v", len(writes.Rows), err)
	}
	for _, q := range []url.Values{
		{api.QueryMetric: {"heat"}}, {api.QueryFrom: {"yesterday"}}, {api.QueryRows: {"0"}}, {api.QueryColumns: {"5000"}}, {api.QueryStart: {"a"}},
		{api.QueryFrom: {"2026-01-02T00:00:00Z"}, api.QueryTo: {"2026-01-01T00:00:00Z"}}, {api.QueryKeyspace: {"none"}}, {api.QueryFrom: {"9999-01-01T00:00:00Z"}},
	} {
		var said *api.Error
		if err := l.client.Get(ctx, api.PathHeatMap, q, &m); !errors.As(err, &said) || said.Status != http.StatusBadRequest && said.Status != http.StatusNotFound {
			t.Errorf("%v: %v", q, err)
		}
	}
}

// A part of the map is asked for by the places of its rows, in any keyspace, and has no others.
func TestHeatMap_Zoom_HasFinerRowsOfThatPartAlone(t *testing.T) {
	l := startSmallServer(t)
	heatUp(t, l)
	l.admin.node.Heat().Collect(time.Duration(time.Now().Add(11 * time.Second).UnixNano()))
	all, err := l.client.HeatMap(ctx, api.HeatFilter{Rows: 40, Keyspace: "default"})
	if err != nil || len(all.Rows) != 40 {
		t.Fatalf("%d rows, %v", len(all.Rows), err)
	}
	part, err := l.client.HeatMap(ctx, api.HeatFilter{StartAt: all.Rows[10].At, EndAt: all.Rows[20].At})
	if err != nil || len(part.Rows) <= 10 || part.Rows[0].At != all.Rows[10].At {
		t.Fatalf("%d rows from %+v, %v", len(part.Rows), part.Rows[0], err)
	}
	shards := 0
	for i, row := range part.Rows {
		if row.At >= all.Rows[20].At || i > 0 && row.At <= part.Rows[i-1].At || row.Shards < 1 {
			t.Fatalf("row %d is %+v", i, row)
		}
		e, err := l.client.Shards(ctx, api.ShardFilter{Keyspace: "default"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range e {
			if s.ID == row.Shard && s.Group == row.Group && *s.FirstSlot <= *row.Slot && *row.Slot <= *s.LastSlot {
				shards++
			}
		}
		if i == 5 {
			break
		}
	}
	if shards != 6 {
		t.Errorf("of 6 rows %d are in their shard", shards)
	}
	for _, q := range []url.Values{{api.QueryStartAt: {"x"}}, {api.QueryStartAt: {all.Rows[20].At}, api.QueryEndAt: {all.Rows[10].At}}, {api.QueryCells: {"x"}}, {api.QueryFrom: {"30m"}}} {
		var said *api.Error
		if err := l.client.Get(ctx, api.PathHeatMap, q, &part); !errors.As(err, &said) || said.Status != http.StatusBadRequest {
			t.Errorf("%v: %v", q, err)
		}
	}
}

// The values in a byte each are those of the cells.
func TestHeatMap_Levels_AreTheCells(t *testing.T) {
	l := startSmallServer(t)
	heatUp(t, l)
	l.admin.node.Heat().Collect(time.Duration(time.Now().Add(11 * time.Second).UnixNano()))
	for _, metric := range []string{api.MetricOps, api.MetricP99} {
		var values, levels api.HeatMap
		q := url.Values{api.QueryMetric: {metric}, api.QueryFrom: {"-30m"}}
		err := l.client.Get(ctx, api.PathHeatMap, q, &values)
		q.Set(api.QueryCells, "levels")
		if err2 := l.client.Get(ctx, api.PathHeatMap, q, &levels); errors.Join(err, err2) != nil || len(levels.Cells) > 0 || len(values.Columns) == 0 {
			t.Fatalf("%v, %v: %d cells, %d columns", err, err2, len(levels.Cells), len(values.Columns))
		}
		bytes, err := base64.StdEncoding.DecodeString(levels.Levels)
		if err != nil || len(bytes) != len(values.Rows)*len(values.Columns) {
			t.Fatalf("%d levels of %d rows and %d columns, %v", len(bytes), len(values.Rows), len(values.Columns), err)
		}
		for r, row := range values.Cells {
			for c, v := range row {
				level := bytes[r*len(row)+c]
				if (level == 0) != (v == nil) {
					t.Fatalf("row %d, column %d: level %d", r, c, level)
				}
				if v == nil {
					continue
				}
				if got := (math.Exp2(float64(level-1)/8) - 1) * levels.LevelUnit; math.Abs(got-*v) > 0.06**v+0.06*levels.LevelUnit {
					t.Fatalf("row %d, column %d: level %d is %v, not %v", r, c, level, got, *v)
				}
			}
		}
	}
}

// A key that is hot for half a minute is a pattern, with its name, share and remedy.
func TestHeatMap_HotKey_IsAPatternWithItsRemedy(t *testing.T) {
	l := startSmallServer(t)
	for i := range 4 {
		heatUp(t, l)
		l.admin.node.Heat().Collect(time.Duration(time.Now().Add(time.Duration(i+1) * 11 * time.Second).UnixNano()))
	}
	m, err := l.client.HeatMap(ctx, api.HeatFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Patterns {
		if p.Kind != api.PatternHorizontal || p.Key == nil || string(*p.Key) != "stock:\x1b42" {
			continue
		}
		row := m.Rows[p.FirstRow]
		if p.Strength < 0.4 || p.Strength > 0.6 || p.Keyspace != "default" || p.Shard != row.Shard || !strings.Contains(p.Text, `stock:\x1b42`) || !strings.Contains(p.Remedy, "one key") {
			t.Errorf("the pattern is %+v", p)
		}
		return
	}
	t.Errorf("the hot key is none of the patterns %+v", m.Patterns)
}

// A reader sees what is asked for from its first request on, of the keyspace that it wants.
func TestTraffic_Requests_AreShownAsTheyCome(t *testing.T) {
	l := startSmallServer(t)
	begun, err := l.client.Traffic(ctx, "", "")
	if err != nil || len(begun.Operations) > 0 || begun.Every != 128 {
		t.Fatalf("%+v, %v", begun, err)
	}
	heatUp(t, l)
	seen, err := l.client.Traffic(ctx, "default", begun.Next)
	hot, writes := 0, 0
	for _, o := range seen.Operations {
		if o.Keyspace != "default" || o.Bytes == 0 || o.Command != "incr" && o.Command != "get" || o.Write != (o.Command == "incr") {
			t.Fatalf("operation %+v", o)
		}
		if string(o.Key) == "stock:\x1b42" {
			hot++
		}
		if o.Write {
			writes++
		}
	}
	if n := len(seen.Operations); err != nil || n < 300 || n > 650 || hot != writes || hot < n/3 || hot > 2*n/3 || seen.Lost != 0 || seen.Next == begun.Next {
		t.Errorf("of 60,000 operations %d were shown, %d of the hot key, %d writes; %v", n, hot, writes, err)
	}
	if _, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "other", Slots: 16}); err != nil {
		t.Fatal(err)
	}
	if other, err := l.client.Traffic(ctx, "other", begun.Next); err != nil || len(other.Operations) > 0 {
		t.Errorf("another keyspace has %+v, %v", other, err)
	}
	if more, err := l.client.Traffic(ctx, "", seen.Next); err != nil || len(more.Operations) > 0 {
		t.Errorf("after that: %+v, %v", more, err)
	}
	for _, q := range []url.Values{{api.QueryAfter: {"x"}}, {api.QueryKeyspace: {"none"}}, {api.QueryN: {"1"}}} {
		var said *api.Error
		if err := l.client.Get(ctx, api.PathTraffic, q, &seen); !errors.As(err, &said) {
			t.Errorf("%v: %v", q, err)
		}
	}
}

func TestHeat_Off_IsSaid(t *testing.T) {
	l := startServerOn(t, openDB(t, "", cleave.Options{Groups: 2, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20, HeatOff: true}), "")
	for _, err := range []error{
		func() error { _, err := l.client.HotKeys(ctx, api.HotKeyFilter{}); return err }(),
		func() error { _, err := l.client.HeatMap(ctx, api.HeatFilter{}); return err }(),
		func() error { _, err := l.client.Traffic(ctx, "", ""); return err }(),
	} {
		if !errors.Is(err, &api.Error{Code: api.CodeRefused}) || !strings.Contains(err.Error(), "heat is off") {
			t.Errorf("got %v", err)
		}
	}
	if e, err := l.client.ExplainKey(ctx, "", api.Key("k")); err != nil || e.Heat != nil {
		t.Errorf("explain: %+v, %v", e, err)
	}
}
