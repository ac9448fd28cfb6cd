package admin

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/testkit/smallstore"
)

func TestTheStatusHasItAll(t *testing.T) {
	forMemoryAndDisk(t, func(t *testing.T, l *testServer) {
		shard, _ := l.createEverything()
		s, err := l.client.Status(ctx)
		if err != nil || s.Verdict != api.Healthy || len(s.Findings) != 0 || s.Groups != 4 || len(s.Stores) != 2 || s.Rows == 0 || s.Durability != "always" ||
			s.Clients != 1 || s.Commands == 0 || s.Hottest != nil || s.Version != "test" || len(s.Events) < 3 {
			t.Errorf("the status is %+v, %v", s, err)
		}
		if want := map[bool]string{true: "memory", false: "disk"}[l.dataDir == ""]; s.Storage != want {
			t.Errorf("the storage is %s", s.Storage)
		}
		m, err := l.client.Map(ctx)
		if err != nil || len(m.Shards) != s.Shards || len(m.Groups) != 4 || m.Version != s.MapVersion {
			t.Errorf("the map is %+v, %v", m, err)
		}
		one, err := l.client.Shard(ctx, shard)
		if err != nil || one.ID != shard || *one.FirstSlot != 5 || *one.LastSlot != 9 || len(one.Why) < 4 {
			t.Errorf("the shard is %+v, %v", one, err)
		}
		if _, err := l.client.Shard(ctx, 999); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
			t.Errorf("no such shard: %v", err)
		}
	})
}

func TestShardsAreListedInPages(t *testing.T) {
	l := startSmallServer(t)
	l.waitJobDone(l.client.Post(ctx, api.PathPresplit, api.Presplit{Into: 100}, false))
	all, err := l.client.Shards(ctx, api.ShardFilter{})
	if err != nil || len(all) < 100 {
		t.Fatalf("%d shards, %v", len(all), err)
	}
	var ids []string
	for after := ""; ; {
		var p api.Page[api.Shard]
		query := map[string][]string{api.QueryLimit: {"7"}}
		if after != "" {
			query[api.QueryAfter] = []string{after}
		}
		if err := l.client.Get(ctx, api.PathShards, query, &p); err != nil || len(p.Items) > 7 {
			t.Fatalf("%d items, %v", len(p.Items), err)
		}
		for _, s := range p.Items {
			ids = append(ids, fmt.Sprint(s.ID))
		}
		if after = p.Next; after == "" {
			break
		}
	}
	var want []string
	slots := 0
	for _, s := range all {
		want = append(want, fmt.Sprint(s.ID))
		if s.FirstSlot != nil {
			slots += *s.LastSlot - *s.FirstSlot + 1
		}
	}
	if strings.Join(ids, " ") != strings.Join(want, " ") {
		t.Errorf("in pages they are %v, and together %v", ids, want)
	}
	if slots != 16384 {
		t.Errorf("they have %d slots", slots)
	}
	mine, err := l.client.Shards(ctx, api.ShardFilter{Keyspace: "default", Group: 2})
	if err != nil || len(mine) == 0 || len(mine) >= len(all) {
		t.Errorf("%d of a group, %v", len(mine), err)
	}
	for _, s := range mine {
		if s.Group != 2 || s.Keyspace != "default" {
			t.Errorf("%+v is not of group 2", s)
		}
	}
	if _, err := l.client.Shards(ctx, api.ShardFilter{Keyspace: "none"}); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("no such keyspace: %v", err)
	}
}

func TestKeysSlotsAndShardsAreExplained(t *testing.T) {
	l := startSmallServer(t)
	l.createEverything()
	e, err := l.client.ExplainKey(ctx, "", api.Key("user{42}\x00"))
	slot := l.db.Default().Locate([]byte("42")).Slot
	if err != nil || *e.Slot != slot || e.HashTag.String() != "42" || *e.Exists || string(*e.Key) != "user{42}\x00" || e.Shard.ID != uint64(l.db.Default().Locate([]byte("42")).Shard) {
		t.Errorf("%+v, %v", e, err)
	}
	if why := strings.Join(e.Why, " "); !strings.Contains(why, "CRC16") || !strings.Contains(why, "modulo 16384") || !strings.Contains(why, "group") {
		t.Errorf("why: %s", why)
	}
	if e, err := l.client.ExplainKey(ctx, "", api.Key("key7")); err != nil || !*e.Exists || e.HashTag != nil {
		t.Errorf("a key that is there: %+v, %v", e, err)
	}
	e, err = l.client.ExplainKey(ctx, "ordered", api.Key("m\x00\xff"))
	if err != nil || e.Slot != nil || e.Kind != "range" || !*e.Exists || e.Shard.StartKey.String() != `m\x00\xff` {
		t.Errorf("a key of a range: %+v, %v", e, err)
	}
	if before, err := l.client.ExplainKey(ctx, "ordered", api.Key("m")); err != nil || before.Shard.ID == e.Shard.ID || before.Shard.EndKey.String() != `m\x00\xff` {
		t.Errorf("the key before: %+v, %v", before, err)
	}
	if s, err := l.client.ExplainShard(ctx, e.Shard.ID); err != nil || s.Keyspace != "ordered" || len(s.Why) < 3 {
		t.Errorf("a shard: %+v, %v", s, err)
	}
	for target, code := range map[string]string{
		"": api.CodeInvalid, "?key=a&slot=1": api.CodeInvalid, "?slot=16384": api.CodeInvalid, "?slot=-1": api.CodeInvalid, "?slot=1&keyspace=ordered": api.CodeInvalid,
		"?key=a&keyspace=none": api.CodeNotFound, "?shard=999": api.CodeNotFound, "?shard=2&keyspace=ordered": api.CodeInvalid, `?key=%5Cq`: api.CodeInvalid,
	} {
		status, body, _ := l.sendRequest("GET", api.PathExplain+target, "")
		checkRefusal(t, target, status, body, code, map[string]int{api.CodeInvalid: 400, api.CodeNotFound: 404}[code])
	}
}

func TestSagasAreListed(t *testing.T) {
	l := startSmallServer(t)
	if all, note, err := l.client.Sagas(ctx, "", ""); err != nil || len(all) != 0 || !strings.Contains(note, "no keyspace sagas") {
		t.Errorf("without a journal: %+v, %q, %v", all, note, err)
	}
	if _, err := l.db.Keyspace("sagas"); err == nil {
		t.Error("to look has made the journal")
	}
	l.createEverything()
	all, _, err := l.client.Sagas(ctx, "", "")
	if err != nil || len(all) != 2 || all[0].ID != "saga-1" || all[0].State != "completed" || all[1].State != "compensated" || !strings.Contains(all[1].Cause, "no money") || all[1].Ended == nil {
		t.Errorf("%+v, %v", all, err)
	}
	if some, _, err := l.client.Sagas(ctx, "sagas", "compensated"); err != nil || len(some) != 1 {
		t.Errorf("of a state: %+v, %v", some, err)
	}
	if some, _, err := l.client.Sagas(ctx, "", "stuck"); err != nil || len(some) != 0 {
		t.Errorf("stuck: %+v, %v", some, err)
	}
	for query, code := range map[string]string{"?state=odd": api.CodeInvalid, "?keyspace=default": api.CodeInvalid, "?after=odd": api.CodeInvalid} {
		status, body, _ := l.sendRequest("GET", api.PathSagas+query, "")
		checkRefusal(t, query, status, body, code, 400)
	}
}

// What a GET can be asked for leaves the store as it is.
func TestToLookChangesNothing(t *testing.T) {
	l := startSmallServer(t)
	l.createEverything()
	before, now := l.db.Map().Version(), l.db.Head()
	for _, rt := range l.admin.allRoutes() {
		if rt.method == "GET" {
			l.sendRequest("GET", strings.Replace(rt.path, "{id}", "2", 1)+"?limit=3", "", authHeaders...)
			l.sendRequest("GET", strings.Replace(rt.path, "{id}", "2", 1), "", authHeaders...)
		}
	}
	if v := l.db.Map().Version(); v != before {
		t.Errorf("the map has gone from version %d to %d", before, v)
	}
	for c, err := range l.db.Feed(ctx, cleave.FeedOptions{From: now, Until: l.db.Head()}) {
		if err != nil || len(c.Ops) > 0 {
			t.Errorf("something was written: %+v, %v", c, err)
		}
	}
}

// While a store has failed, operators see what there is: that of the others as it is, and that
// of its shards as it was.
func TestListsAreThereWhileAStoreHasFailed(t *testing.T) {
	var broken atomic.Bool
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
		if sync && broken.Load() && strings.HasPrefix(op.Path, filepath.Join("data", "1")) {
			return errors.New("the disk is broken")
		}
		return nil
	}))
	opened, err := smallstore.Open("data", cleave.Options{Stores: 2, Groups: 2, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20}, disk)
	if err != nil {
		t.Fatal(err)
	}
	db := opened
	a := &Admin{o: Options{DB: db}, node: smallstore.Engine(db).Node()}
	defer db.Close()
	set := func(i int) error { return db.Default().Set(ctx, fmt.Append(nil, i), []byte("v")) }
	for i := range 100 {
		if err := set(i); err != nil {
			t.Fatal(err)
		}
	}
	was, err := a.loadShards(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before := a.toKeyspace(db.Default())
	broken.Store(true)
	for i := 0; err == nil; i++ {
		err = set(i)
	}
	a.shardCache.shards = nil // which would be good for a moment
	shards, err := a.loadShards(ctx)
	for i := range shards {
		was[i].Load, shards[i].Load = api.ShardLoad{}, api.ShardLoad{} // the refused write is counted
	}
	if after := a.toKeyspace(db.Default()); err != nil || !reflect.DeepEqual(shards, was) || after.Rows != before.Rows || after.Rows < 100 {
		t.Errorf("%v\nwas %v\nand the keyspace has %+v, was %+v; %v", shards, was, after, before, err)
	}
}
