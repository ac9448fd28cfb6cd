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

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/importer"
	"github.com/cleavekv/cleave/internal/output"
)

var update = flag.Bool("update", false, "write the golden files anew")

// at is a moment that is the same in each run.
var at = time.Date(2026, 11, 27, 8, 15, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// golden holds what is shown against a file: the schema and the looks that people and
// scripts rely on.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
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

// list is rows in both forms.
func list[T any](t *testing.T, b *bytes.Buffer, name string, columns []output.Column[T], rows ...T) {
	t.Helper()
	for _, f := range []output.Format{output.Table, output.JSONL} {
		fmt.Fprintf(b, "-- %s %v\n", name, f)
		if err := output.Write(b, f, rows, columns); err != nil {
			t.Fatal(err)
		}
	}
}

// single is a thing in both forms.
func single[T any](t *testing.T, b *bytes.Buffer, name string, text func(T) string, thing T) {
	t.Helper()
	for _, f := range []output.Format{output.Table, output.JSONL} {
		fmt.Fprintf(b, "-- %s %v\n", name, f)
		if err := output.One(b, f, thing, text); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	goldShard = api.Shard{ID: 7, Keyspace: "default", Kind: "hash", Group: 2, Store: 1, FirstSlot: ptr(4096), LastSlot: ptr(8191), Rows: 1234567, Bytes: 96 << 20, Share: 0.75, Changed: 9, Job: "12"}
	goldRange = api.Shard{ID: 8, Keyspace: "orders", Kind: "range", Group: 11, StartKey: ptr(api.Key("eu\x00")), EndKey: ptr(api.Key(strings.Repeat("n", 40))), Share: 0.25}
	goldJob   = api.Job{ID: "12", Kind: "move", State: api.JobRunning, Phase: "copy", Shard: 7, From: 2, To: 3, Rows: 500, Bytes: 48 << 20, Progress: 0.5,
		Expected:           &api.Price{Rows: 1000, Bytes: 96 << 20, Moves: 1, Seconds: 2, PauseSeconds: 0.006, SkewBefore: 2.5, SkewAfter: 1.2},
		RateBytesPerSecond: 24 << 20, ETASeconds: ptr(2.0), Created: at, Changed: at, LimitBytesPerSecond: 32 << 20}
	goldGroup = api.Group{ID: 2, Store: 1, Draining: true, Shards: 3, Rows: 1234567, Bytes: 96 << 20, QueueDepth: 4, Commands: 99, ServiceP99Seconds: 0.0042, QueueWaitP99Seconds: 0.001}
)

func TestListsLookTheSameAsEver(t *testing.T) {
	var b bytes.Buffer
	list(t, &b, "shard list", shardColumns, goldShard, goldRange)
	list(t, &b, "group list", groupColumns, goldGroup)
	list(t, &b, "keyspace list", keyspaceColumns, api.Keyspace{Name: "default", Kind: "hash", Slots: 16384, Default: true, Shards: 16, Rows: 5, Bytes: 500, CacheHitRatio: 0.9},
		api.Keyspace{Name: "orders", Kind: "range", Layout: "(region) | id", Shards: 2, Indexes: 1})
	list(t, &b, "index list", indexColumns, api.Index{Keyspace: "orders", Name: "by-mail", Mode: "asynchronous", Unique: true, Columns: "mail", Ready: true, BehindSeconds: 0.25, BehindBytes: 100})
	list(t, &b, "job list", jobColumns, goldJob)
	list(t, &b, "saga list", sagaColumns, api.Saga{ID: "s1", Definition: "transfer", State: "compensating", Stuck: "undo fails", Steps: []string{"take", "give"}, At: 1, Attempts: 3, Failure: "no", Started: at})
	list(t, &b, "backup list", backupColumns, api.Backup{Name: "night", Created: at, Bytes: 1 << 20, Files: 21, Stores: 1})
	golden(t, "lists.txt", scrub(b.Bytes()))
}

// scrub takes the zone of the machine out of what is shown.
func scrub(b []byte) []byte {
	return bytes.ReplaceAll(b, []byte(at.Local().Format(timeForm)), []byte(at.Format(timeForm)))
}

func TestSingleThingsLookTheSameAsEver(t *testing.T) {
	var b bytes.Buffer
	single(t, &b, "explain key", explanationText, api.Explanation{Keyspace: "default", Kind: "hash", Key: ptr(api.Key("{a}b")), HashTag: ptr(api.Key("a")), Slot: ptr(5000),
		Exists: ptr(false), Shard: goldShard, Why: []string{"The tag decides."}})
	single(t, &b, "job show", jobText, goldJob)
	single(t, &b, "map", mapText, api.Map{Version: 9, Groups: []api.Group{goldGroup, {ID: 11}}, Shards: []api.Shard{goldShard, goldRange}})
	single(t, &b, "status --ready", readyText, api.Ready{Checks: []api.Check{{Name: "store", Detail: "the disk is full"}}})
	single(t, &b, "shard move", func(a api.Action) string { return planText(&a.Plan) + actionText(a) },
		api.Action{Plan: api.Plan{Summary: "move shard 7 from group 2 to group 3", Steps: []string{"Its rows are copied."}, Price: goldJob.Expected, Irreversible: true}, Job: &goldJob})
	single(t, &b, "import", importText, importer.Report{Keys: 10, Total: 10, Strings: 5, Hashes: 3, Bytes: 1 << 20, Skipped: map[string]int64{"list": 1}, Gone: 1, Failed: 1,
		Failures: []string{`"k": too long`}, Complete: true, Seconds: 2})
	_, text := progressOf(&goldJob)
	b.WriteString("-- progress\n" + text + "\n")
	golden(t, "single.txt", b.Bytes())
}

func TestStatusFitsOnAScreenWhateverThereIs(t *testing.T) {
	s := api.Status{Verdict: api.Unhealthy, Version: "v1", Storage: "disk", Durability: "always", Bytes: 5 << 30, Rows: 1e6, Keyspaces: 3, Shards: 20, Groups: 4, MapVersion: 7,
		Clients: 3, MaxClients: 10000, Commands: 12345, UptimeSeconds: 7500, Hottest: &api.Hottest{By: "bytes", Shard: 7, Ratio: 8.7}, Stores: make([]api.Store, 2)}
	for i := range 20 {
		s.Findings = append(s.Findings, api.Finding{Severity: api.Unhealthy, Message: fmt.Sprint("finding ", i, strings.Repeat(" and so on", 20)), Fix: "cleave group list"})
		s.Jobs = append(s.Jobs, goldJob)
		s.Events = append(s.Events, api.Event{Time: at.Local(), Message: "a shard has split", Command: "cleave job show 1"})
	}
	text := statusText(s)
	checkWidth(t, text)
	if n := strings.Count(text, "\n"); n > 25 || !strings.HasPrefix(text, "UNHEALTHY: 20 findings\n") {
		t.Errorf("%d lines:\n%s", n, text)
	}
	golden(t, "status.txt", bytes.ReplaceAll([]byte(text), []byte(at.Local().Format(time.TimeOnly)), []byte(at.Format(time.TimeOnly))))
	var back api.Status
	raw, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(raw, &back)
	}
	if err != nil || len(back.Findings) != 20 {
		t.Errorf("%v", err)
	}
}
