package admin

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/smallstore"
)

func TestAShardIsNamedAsTheFullestOnlyIfItStandsOut(t *testing.T) {
	of := func(bytes ...uint64) (shards []api.Shard) {
		for i, b := range bytes {
			shards = append(shards, api.Shard{ID: uint64(i + 1), Keyspace: "default", Bytes: b})
		}
		return append(shards, api.Shard{ID: 99, Bytes: 1 << 40}) // the catalog
	}
	for name, c := range map[string]struct {
		shards []api.Shard
		want   uint64
	}{
		"nothing":        {of(0, 0, 0), 0},
		"tiny":           {of(500, 0, 0), 0},
		"alone":          {of(1 << 30), 0},
		"like the rest":  {of(100<<20, 90<<20, 80<<20), 0},
		"one stands out": {of(1<<20, 100<<20, 1<<20), 2},
	} {
		got := findFullest(c.shards)
		if (got != nil) != (c.want != 0) || got != nil && (got.Shard != c.want || got.By != "bytes" || got.Ratio < minHottestRatio) {
			t.Errorf("%s: %+v, want shard %d", name, got, c.want)
		}
	}
}

func TestHottest_IsTheShardThatIsAskedMost(t *testing.T) {
	of := func(reads ...float64) (shards []api.Shard) {
		for i, r := range reads {
			shards = append(shards, api.Shard{ID: uint64(i + 1), Keyspace: "default", Bytes: 1 << 30 << i, Load: api.ShardLoad{ReadsPerSecond: r, WritesPerSecond: r / 2}})
		}
		return shards
	}
	for name, c := range map[string]struct {
		shards []api.Shard
		want   uint64
	}{
		"nothing":        {of(0, 0, 0), 0},
		"little":         {of(500, 0, 0), 0},
		"alone":          {of(1e6), 0},
		"like the rest":  {of(1e5, 9e4, 8e4), 0},
		"one stands out": {of(1e5, 1e3, 1e3), 1},
	} {
		got := findHottest(c.shards)
		if (got != nil) != (c.want != 0) || got != nil && (got.Shard != c.want || got.By != "operations" || got.Value != 1.5e5) {
			t.Errorf("%s: %+v, want shard %d", name, got, c.want)
		}
	}
}

// Clients that ask for one key make its shard the hottest, wherever most bytes are.
func TestStatus_HotKey_NamesItsShard(t *testing.T) {
	l := startSmallServer(t)
	l.writeKeys(100)
	at := l.db.Default().Locate([]byte("key1"))
	c := redis.NewClient(&redis.Options{Addr: l.redisAddr, ReadTimeout: time.Minute})
	defer c.Close()
	var stop atomic.Bool
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop.Store(true)
	asking.Go(func() {
		for !stop.Load() {
			p := c.Pipeline()
			for range 500 {
				p.Get(ctx, "key1")
			}
			_, _ = p.Exec(ctx)
		}
	})
	eventually.Holds(t, "the shard of the key is the hottest", func() bool {
		s, err := l.client.Status(ctx)
		return err == nil && s.Hottest != nil && s.Hottest.Shard == uint64(at.Shard)
	})
	one, err := l.client.Shard(ctx, uint64(at.Shard))
	if err != nil || one.Load.Reads < 500 || one.Load.ReadsPerSecond < minHottestOps || one.Load.BytesOut < one.Load.Reads || one.Load.ServiceP99Seconds <= 0 {
		t.Errorf("the shard has %+v, %v", one.Load, err)
	}
	groups, err := l.client.Groups(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if g.ID == uint64(at.Group) && g.Load.Reads < one.Load.Reads {
			t.Errorf("its group has %+v", g.Load)
		}
	}
	_, text, _ := l.sendRequest("GET", api.PathMetrics, "")
	all := parseMetrics(t, text)
	if v := all[fmt.Sprintf("cleave_shard_reads_total{shard=\"%d\"}", at.Shard)]; v < 500 {
		t.Errorf("/metrics has %v reads of it", v)
	}
	if v := all[`cleave_operations_total{kind="read"}`]; v < 500 {
		t.Errorf("/metrics has %v reads in all", v)
	}
}

// A verdict follows from what is wrong, and says what to do.
func TestVerdicts(t *testing.T) {
	l := startSmallServer(t)
	l.writeKeys(100)
	set := func(name, value string) {
		t.Helper()
		if _, err := l.client.Post(ctx, api.PathSetConfig, api.SetConfig{Settings: map[string]string{name: value}}, false); err != nil {
			t.Fatal(err)
		}
	}
	verdict := func(want, finding string) {
		t.Helper()
		s, err := l.client.Status(ctx)
		if err != nil || s.Verdict != want || finding != "" && (len(s.Findings) == 0 || !strings.Contains(s.Findings[0].Message, finding) || s.Findings[0].Fix == "") {
			t.Errorf("the verdict is %s because of %+v, %v; want %s", s.Verdict, s.Findings, err, want)
		}
	}
	verdict(api.Healthy, "")
	set("maxmemory", "1kb")
	verdict(api.Unhealthy, "writes are refused")
	used, limit := l.server.Memory()
	if limit != 1024 || used <= limit {
		t.Errorf("%d of %d", used, limit)
	}
	// Background work allocates and frees: the limit is set again until it is a little above what is used.
	eventually.Holds(t, "a verdict that memory runs short", func() bool {
		used, _ := l.server.Memory()
		set("maxmemory", fmt.Sprint(used+used/20))
		s, err := l.client.Status(ctx)
		return err == nil && s.Verdict == api.Degraded && len(s.Findings) > 0 && strings.Contains(s.Findings[0].Message, "soon writes are refused") && s.Findings[0].Fix != ""
	})
	set("maxmemory", "0")
	verdict(api.Healthy, "")
	for _, bad := range []string{"-1", "lots", "1tb", "", "1e9"} {
		if _, err := l.client.Post(ctx, api.PathSetConfig, api.SetConfig{Settings: map[string]string{"maxmemory": bad}}, false); err == nil {
			t.Errorf("maxmemory %q is taken", bad)
		}
	}
}

// brokenDisk is a disk that takes no log any more once it is broken.
type brokenDisk struct{ broken atomic.Bool }

func (d *brokenDisk) String() string { return "broken" }

// MaybeError implements errorfs.Injector.
func (d *brokenDisk) MaybeError(op errorfs.Op) error {
	if d.broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, "log") {
		return errorfs.ErrInjected
	}
	return nil
}

// When a store has stopped it is unknown what its shards hold. What is known is reported.
func TestAStoreThatHasStoppedIsTold(t *testing.T) {
	d := &brokenDisk{}
	db, err := smallstore.Open("disk", cleave.Options{Stores: 2, Groups: 2, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20}, errorfs.Wrap(vfs.NewMem(), d))
	if err != nil {
		t.Fatal(err)
	}
	l := startServerOn(t, db, "")
	l.writeKeys(10)
	d.broken.Store(true)
	for i := 0; i < 100 && !l.admin.hasFailedStore(); i++ {
		_ = l.db.Default().Set(ctx, []byte{byte(i)}, []byte("v"))
	}
	if s, err := l.client.Status(ctx); err != nil || s.Verdict != api.Unhealthy || !strings.Contains(fmt.Sprint(s.Findings), "has stopped") {
		t.Errorf("status: %s, %+v, %v", s.Verdict, s.Findings, err)
	}
	if status, body, _ := l.sendRequest("GET", api.PathMetrics, ""); status != http.StatusOK || !strings.Contains(body, `cleave_store_failed{store="`) || !strings.Contains(body, "cleave_goroutines") {
		t.Errorf("metrics: %d, %.200s", status, body)
	}
}

// A job that is done by others comes further while they do.
func TestAJobComesFurtherWithItsChildren(t *testing.T) {
	now := time.UnixMilli(1e12)
	drain := cleave.JobStatus{ID: 7, Kind: "drain", Children: 2, Rows: 2, Bytes: 200, Expected: cleave.Price{Bytes: 1000}, Created: now.Add(-time.Second)}
	jobs := []cleave.JobStatus{
		drain,
		{ID: 8, Parent: 7, State: cleave.JobDone, Rows: 2, Bytes: 200},
		{ID: 9, Parent: 7, Rows: 3, Bytes: 300},
		{ID: 10, Rows: 9, Bytes: 900},
	}
	if j := toJob(withChildTotals(drain, jobs), now); j.Rows != 5 || j.Bytes != 500 || j.Progress != 0.5 || j.ETASeconds == nil || *j.ETASeconds != 1 {
		t.Errorf("%+v", j)
	}
	if s := withChildTotals(drain, jobs[2:]); s.Bytes != 300 { // the first is forgotten
		t.Errorf("%+v", s)
	}
}
