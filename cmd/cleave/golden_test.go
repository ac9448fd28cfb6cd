package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/importer"
	"github.com/cleavekv/cleave/internal/ops/output"
)

var updateGolden = flag.Bool("update", false, "write the golden files anew")

// goldenTime is a moment that is the same in each run.
var goldenTime = time.Date(2026, 11, 27, 8, 15, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// checkGolden holds what is shown against a file: the schema and the looks that people and
// scripts rely on.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateGolden {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// writeListForms is rows in both forms.
func writeListForms[T any](t *testing.T, b *bytes.Buffer, name string, columns []output.Column[T], rows ...T) {
	t.Helper()
	for _, f := range []output.Format{output.Table, output.JSONL} {
		fmt.Fprintf(b, "-- %s %v\n", name, f)
		if err := output.WriteRows(b, f, 0, rows, columns); err != nil {
			t.Fatal(err)
		}
	}
}

// writeSingleForms is a thing in both forms.
func writeSingleForms[T any](t *testing.T, b *bytes.Buffer, name string, text func(T) string, thing T) {
	t.Helper()
	for _, f := range []output.Format{output.Table, output.JSONL} {
		fmt.Fprintf(b, "-- %s %v\n", name, f)
		if err := output.WriteOne(b, f, thing, text); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	goldShard = api.Shard{ID: 7, Keyspace: "default", Kind: "hash", Group: 2, Store: 1, FirstSlot: ptr(4096), LastSlot: ptr(8191), Rows: 1234567, Bytes: 96 << 20, Share: 0.75, Changed: 9, Job: "12", Load: api.ShardLoad{Reads: 1000, Writes: 10, BytesIn: 40000, BytesOut: 90000, Errors: 1, BusySeconds: 1.5, ServiceP99Seconds: 0.002, WaitP99Seconds: 0.001, ReadsPerSecond: 123456, WritesPerSecond: 7.6, Busy: 0.25}}
	goldRange = api.Shard{ID: 8, Keyspace: "orders", Kind: "range", Group: 11, StartKey: ptr(api.Key("eu\x00")), EndKey: ptr(api.Key(strings.Repeat("n", 40))), Share: 0.25}
	goldJob   = api.Job{ID: "12", Kind: "move", State: api.JobRunning, Phase: "copy", Shard: 7, From: 2, To: 3, Rows: 500, Bytes: 48 << 20, Progress: 0.5,
		Expected:           &api.Price{Rows: 1000, Bytes: 96 << 20, Moves: 1, Seconds: 2, PauseSeconds: 0.006, SkewBefore: 2.5, SkewAfter: 1.2},
		RateBytesPerSecond: 24 << 20, ETASeconds: ptr(2.0), Created: goldenTime, Changed: goldenTime, LimitBytesPerSecond: 32 << 20}
	goldGroup = api.Group{ID: 2, Store: 1, Draining: true, Shards: 3, Rows: 1234567, Bytes: 96 << 20, QueueDepth: 4, Commands: 99, ServiceP99Seconds: 0.0042, QueueWaitP99Seconds: 0.001}
)

var (
	goldHotKey = api.HotKey{
		Keyspace: "default", Key: api.Key("stock:42"), Slot: ptr(2594), Shard: 7, Group: 2, Count: 1e6, Error: 100, Deviation: 5000, PerSecond: 87201, ShareOfAll: 0.69, ShareOfShard: 0.93,
		ReadsPerSecond: 201, WritesPerSecond: 87000, BytesPerSecond: 3 << 20, MeanSeconds: 2e-5, P99Seconds: 6.6e-5, Commands: []api.NameShare{{Name: "incr", Share: 0.8}, {Name: "get", Share: 0.2}},
		Clients: []api.NameShare{{Name: "cart@10.0.0.7", Share: 1}}, Addresses: []api.NameShare{{Name: "10.0.0.7:60778", Share: 1}},
	}
	goldHeatMap = api.HeatMap{
		Metric: api.MetricOps, Unit: "operations in a second", StepSeconds: 10, Columns: []time.Time{goldenTime, goldenTime.Add(10 * time.Second), goldenTime.Add(20 * time.Second)},
		Rows: []api.HeatRow{{}, {Keyspace: "default", Slot: ptr(0)}, {Keyspace: "default", Slot: ptr(2594), StartKey: ptr(api.Key("stock:42")), Single: true}, {Keyspace: "default", Slot: ptr(2594), StartKey: ptr(api.Key("stock:42")), After: true},
			{Keyspace: "orders", StartKey: ptr(api.Key("eu:1\x1b"))}, {Keyspace: "orders", StartKey: ptr(api.Key("eu:7"))}, {Keyspace: "orders", StartKey: ptr(api.Key("us:1"))}},
		Cells: [][]*float64{{nil, nil, nil}, {ptr(1.0), ptr(10.0), ptr(100.0)}, {ptr(1e4), ptr(1e5), ptr(9e4)}, {ptr(5.0), ptr(5.0), ptr(5.0)}, {ptr(50.0), ptr(0.0), nil}, {ptr(7.0), ptr(7.0), ptr(7.0)}, {ptr(0.0), ptr(0.0), ptr(2.0)}},
		Patterns: []api.HeatPattern{{
			Kind: api.PatternHorizontal, FirstRow: 2, LastRow: 2, LastColumn: 2, Strength: 0.9, Rate: 6e4, Keyspace: "default", Shard: 7, Key: ptr(api.Key("stock:42")),
			Text: "hot key stock:42 in \"default\": 90 % of operations", Remedy: "unsplittable: one key",
		}},
	}
)

func TestListsLookTheSameAsEver(t *testing.T) {
	var b bytes.Buffer
	writeListForms(t, &b, "shard list", shardColumns, goldShard, goldRange)
	writeListForms(t, &b, "group list", groupColumns, goldGroup)
	writeListForms(t, &b, "keyspace list", keyspaceColumns, api.Keyspace{Name: "default", Kind: "hash", Slots: 16384, Default: true, Shards: 16, Rows: 5, Bytes: 500, CacheHitRatio: 0.9},
		api.Keyspace{Name: "orders", Kind: "range", Layout: "(region) | id", Shards: 2, Indexes: 1})
	writeListForms(t, &b, "index list", indexColumns, api.Index{Keyspace: "orders", Name: "by-mail", Mode: "asynchronous", Unique: true, Columns: "mail", Ready: true, BehindSeconds: 0.25, BehindBytes: 100})
	writeListForms(t, &b, "job list", jobColumns, goldJob)
	writeListForms(t, &b, "saga list", sagaColumns, api.Saga{ID: "s1", Definition: "transfer", State: "compensating", Stuck: "undo fails", Steps: []string{"take", "give"}, At: 1, Attempts: 3, Failure: "no", Started: goldenTime})
	until := goldenTime
	writeListForms(t, &b, "cap list", capColumns, api.Cap{ID: 1, Shard: 7, Refused: 1234},
		api.Cap{ID: 2, Keyspace: "orders", Prefix: api.KeyOrNil([]byte("eu\x00")), WritesPerSecond: 100, Until: &until})
	writeListForms(t, &b, "backup list", backupColumns, api.Backup{Name: "night", Created: goldenTime, Bytes: 1 << 20, Files: 21, Stores: 1})
	writeListForms(t, &b, "hotkeys", hotKeyColumns, goldHotKey, api.HotKey{Keyspace: "orders", Key: api.Key(strings.Repeat("k", 30)), Truncated: true, Shard: 8, Count: 10, Error: 9, Deviation: 3, PerSecond: 0.1})
	slow := api.Slow{Time: goldenTime, Seconds: 0.5, Command: "hgetall", Keys: []api.Key{api.Key("big")}, Shard: 7, Group: 2}
	writeListForms(t, &b, "slowlog --by shard", slowShardColumns, sumSlowByShard([]api.Slow{slow, {Time: goldenTime, Seconds: 2, Command: "exec"}, slow})...)
	writeListForms(t, &b, "profile", prefixColumns, sumPrefixes(&goldHeatMap)...)
	checkGolden(t, "lists.txt", replaceLocalTime(b.Bytes()))
}

// replaceLocalTime takes the zone of the machine out of what is shown.
func replaceLocalTime(b []byte) []byte {
	for _, layout := range []string{timeLayout, time.TimeOnly} {
		b = bytes.ReplaceAll(b, []byte(goldenTime.Local().Format(layout)), []byte(goldenTime.Format(layout)))
	}
	return b
}

func TestSingleThingsLookTheSameAsEver(t *testing.T) {
	var b bytes.Buffer
	writeSingleForms(t, &b, "explain key", func(e api.Explanation) string { return formatExplanation(e, 0) }, api.Explanation{Keyspace: "default", Kind: "hash", Key: ptr(api.Key("{a}b")), HashTag: ptr(api.Key("a")), Slot: ptr(5000),
		Exists: ptr(false), Shard: goldShard, Why: []string{"The tag decides."}})
	writeSingleForms(t, &b, "explain hot key", func(e api.Explanation) string { return formatExplanation(e, 0) }, api.Explanation{Keyspace: "orders", Kind: "range", Key: ptr(api.Key("k")),
		Exists: ptr(true), Type: "string", Bytes: ptr(uint64(5)), ExpiresSeconds: ptr(60.0), Parts: []string{"eu", "7"}, Heat: &goldHotKey, Shard: goldRange})
	writeSingleForms(t, &b, "job show", formatJob, goldJob)
	writeSingleForms(t, &b, "heatmap", heatDrawing{width: 60, lines: 10}.render, goldHeatMap)
	writeSingleForms(t, &b, "heatmap, joined", func(m api.HeatMap) string { return heatDrawing{width: 60, lines: 4}.render(joinHeatRows(m, 4)) }, goldHeatMap)
	writeSingleForms(t, &b, "heatmap, coloured", heatDrawing{width: 60, lines: 10, colored: true}.render, goldHeatMap)
	writeSingleForms(t, &b, "top", func(p topReport) string { return formatTop(p, 0, 40) }, topReport{
		Time: goldenTime, Verdict: api.Healthy, Groups: []api.Group{goldGroup, {ID: 11, Load: api.ShardLoad{ReadsPerSecond: 100}}}, Shards: []api.Shard{goldShard, goldRange}, Keys: []api.HotKey{goldHotKey},
	})
	writeSingleForms(t, &b, "map", func(m api.Map) string { return formatMap(m, 0) }, api.Map{Version: 9, Groups: []api.Group{goldGroup, {ID: 11}}, Shards: []api.Shard{goldShard, goldRange}})
	writeSingleForms(t, &b, "status --ready", formatReadiness, api.Ready{Checks: []api.Check{{Name: "store", Detail: "the disk is full"}}})
	writeSingleForms(t, &b, "shard move", func(a api.Action) string { return formatPlan(&a.Plan, 0) + formatAction(a) },
		api.Action{Plan: api.Plan{Summary: "move shard 7 from group 2 to group 3", Steps: []string{"Its rows are copied."}, Price: goldJob.Expected, Irreversible: true}, Job: &goldJob})
	writeSingleForms(t, &b, "import", formatImport, importer.Report{Keys: 10, Total: 10, Strings: 5, Hashes: 3, Bytes: 1 << 20, Skipped: map[string]int64{"list": 1}, Gone: 1, Failed: 1,
		Failures: []string{`"k": too long`}, Complete: true, Seconds: 2,
		LeftOut: []importer.LeftOut{{Why: "with a value over 64.0 MiB", Count: 1, Keys: []string{"k"}}, {Why: "of type list, which is not served", Count: 12, Keys: []string{"a", `b\x00`}}}})
	_, text := formatJobProgress(&goldJob)
	b.WriteString("-- progress\n" + text + "\n")
	checkGolden(t, "single.txt", replaceLocalTime(b.Bytes()))
}

func TestStatusFitsOnAScreenWhateverThereIs(t *testing.T) {
	s := api.Status{Verdict: api.Unhealthy, Version: "v1", Storage: "disk", Durability: "always", Bytes: 5 << 30, Rows: 1e6, Keyspaces: 3, Shards: 20, Groups: 4, MapVersion: 7,
		Clients: 3, MaxClients: 10000, Commands: 12345, UptimeSeconds: 7500, Hottest: &api.Hottest{By: "operations", Shard: 4, Ratio: 3.2}, Fullest: &api.Hottest{By: "bytes", Shard: 7, Ratio: 8.7}, Stores: make([]api.Store, 2)}
	for i := range 20 {
		s.Findings = append(s.Findings, api.Finding{Severity: api.Unhealthy, Message: fmt.Sprint("finding ", i, strings.Repeat(" and so on", 20)), Fix: "cleave group list"})
		s.Jobs = append(s.Jobs, goldJob)
		s.Events = append(s.Events, api.Event{Time: goldenTime.Local(), Message: "a shard has split", Command: "cleave job show 1"})
	}
	text := formatStatus(s, output.MaxWidth)
	checkWidth(t, text)
	if n := strings.Count(text, "\n"); n > 25 || !strings.HasPrefix(text, "UNHEALTHY: 20 findings\n") {
		t.Errorf("%d lines:\n%s", n, text)
	}
	checkGolden(t, "status.txt", bytes.ReplaceAll([]byte(text), []byte(goldenTime.Local().Format(time.TimeOnly)), []byte(goldenTime.Format(time.TimeOnly))))
	var back api.Status
	raw, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(raw, &back)
	}
	if err != nil || len(back.Findings) != 20 {
		t.Errorf("%v", err)
	}
}
