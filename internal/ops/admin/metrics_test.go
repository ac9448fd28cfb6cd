package admin

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/partition"
)

var (
	helpLine    = regexp.MustCompile(`^# HELP (cleave_[a-z0-9_]+) \S.*\.$`)
	typeLine    = regexp.MustCompile(`^# TYPE (cleave_[a-z0-9_]+) (counter|gauge|histogram)$`)
	sampleLine  = regexp.MustCompile(`^(cleave_[a-z0-9_]+)(\{([a-z]+="([^"\\\n]|\\["\\n])*",?)+\})? (\S+)$`)
	bucketBound = regexp.MustCompile(`,?le="([^"]*)"`)
)

// parseMetrics reads the text as strictly as something that scrapes it would, and more so: the
// names are those of the house.
func parseMetrics(t testing.TB, text string) map[string]float64 {
	t.Helper()
	all, kinds, helped := map[string]float64{}, map[string]string{}, map[string]bool{}
	family, last, lastLe := "", math.Inf(-1), ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := helpLine.FindStringSubmatch(line); m != nil {
			helped[m[1]] = true
			continue
		}
		if m := typeLine.FindStringSubmatch(line); m != nil {
			if family = m[1]; kinds[family] != "" || !helped[family] {
				t.Errorf("family %s comes twice, or without help", family)
			}
			kinds[family] = m[2]
			if total := strings.HasSuffix(family, "_total"); total != (m[2] == "counter") {
				t.Errorf("family %s is a %s", family, m[2])
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("no line of the format: %q", line)
			continue
		}
		value, err := strconv.ParseFloat(m[5], 64)
		if err != nil || math.IsNaN(value) {
			t.Errorf("%s: %v", line, err)
		}
		base := m[1]
		if kinds[family] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if le := bucketBound.FindStringSubmatch(m[2]); le != nil {
				if lastLe != "" && lastLe != "+Inf" && value < last {
					t.Errorf("buckets shrink: %s", line)
				}
				last, lastLe = value, le[1]
			}
		}
		if base != family {
			t.Errorf("%s stands in family %s", m[1], family)
		}
		if _, ok := all[m[1]+m[2]]; ok {
			t.Errorf("%s comes twice", m[1]+m[2])
		}
		all[m[1]+m[2]] = value
	}
	return all
}

func TestMetricsAreOfTheFormatAndTheHouse(t *testing.T) {
	forMemoryAndDisk(t, func(t *testing.T, l *testServer) {
		l.createEverything()
		l.sendRequest("POST", api.PathSplit, splitBody) // without the token
		l.waitJobDone(l.client.Post(ctx, api.PathPresplit, api.Presplit{Into: 64}, false))
		status, text, h := l.sendRequest("GET", api.PathMetrics, "")
		if status != 200 || h.Get("Content-Type") != metricsContentType {
			t.Fatalf("%d, %s", status, h)
		}
		all := parseMetrics(t, text)
		for name, least := range map[string]float64{
			"cleave_ready": 1, "cleave_clients": 1, `cleave_commands_total{command="set"}`: 1, "cleave_shards": 64, "cleave_groups": 4,
			`cleave_executed_total{store="0"}`: 1, `cleave_log_written_bytes_total{store="1"}`: 1, "cleave_map_version": 2, "cleave_goroutines": 2, "cleave_heap_bytes": 1000, "cleave_http_denied_total": 1,
			`cleave_batch_seconds_bucket{store="0",le="+Inf"}`: 0, `cleave_http_requests_total{method="POST",path="/api/v1/shards/split",status="202"}`: 1,
		} {
			if v, ok := all[name]; !ok || v < least {
				t.Errorf("%s is %v (%v), want at least %v", name, v, ok, least)
			}
		}
		shards := 0
		for name := range all {
			if strings.HasPrefix(name, "cleave_shard_bytes{") {
				shards++
			}
		}
		if shards != maxShardSeries {
			t.Errorf("%d shards have figures of their own", shards)
		}
		// Keys, values, and paths that strangers make up are no labels.
		l.sendRequest("GET", "/made/up/by/a/stranger", "")
		_, text, _ = l.sendRequest("GET", api.PathMetrics, "")
		for _, word := range []string{"key1", "secret", "stranger", "anna", "saga-1"} {
			if strings.Contains(text, word) {
				t.Errorf("the figures have %q in them", word)
			}
		}
	})
}

// describeFamilies lists the families of the text, each with its type, the names of its labels and its
// help.
func describeFamilies(text string) (families []string) {
	help, kind, labels := map[string]string{}, map[string]string{}, map[string]string{}
	family := ""
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		switch {
		case fields[0] != "#":
			var names []string
			for _, m := range labelName.FindAllStringSubmatch(line, -1) {
				if m[1] != "le" {
					names = append(names, m[1])
				}
			}
			slices.Sort(names)
			labels[family] = strings.Join(names, ",")
		case fields[1] == "HELP":
			help[fields[2]] = fields[3]
		case fields[1] == "TYPE":
			family, kind[fields[2]] = fields[2], fields[3]
		}
	}
	for name := range labels {
		families = append(families, fmt.Sprintf("%s %s {%s} %s", name, kind[name], labels[name], help[name]))
	}
	slices.Sort(families)
	return families
}

var labelName = regexp.MustCompile(`[{,]([a-z]+)="`)

// Dashboards and alerts are written against names and labels: none of them changes or goes.
func TestMetrics_NamesTypesAndLabels_DoNotChange(t *testing.T) {
	l := startFullServer(t)
	l.writeKeys(10)
	c := redis.NewClient(&redis.Options{Addr: l.redisAddr, ReadTimeout: time.Minute})
	defer c.Close()
	if err := c.Do(ctx, "no-such-command").Err(); err == nil { // an error, so that their family has a figure
		t.Error("a command that does not exist was executed")
	}
	l.sendRequest("GET", api.PathMetrics, "")
	_, text, _ := l.sendRequest("GET", api.PathMetrics, "")
	name := filepath.Join("testdata", "metrics.golden")
	got := describeFamilies(text)
	if os.Getenv("CLEAVE_WRITE") != "" {
		if err := os.WriteFile(name, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(golden)), "\n")
	for _, f := range want {
		if !slices.Contains(got, f) {
			t.Errorf("there is no %s", f)
		}
	}
	for _, f := range got {
		if !slices.Contains(want, f) {
			t.Errorf("testdata/metrics.golden does not have %s", f)
		}
	}
}

// Groups have figures of their own up to a bound: those with the most work.
func TestMetrics_Groups_AreBounded(t *testing.T) {
	s := balancer.LoopStats{Work: map[partition.GroupID]float64{}}
	for id := range partition.GroupID(1024) {
		s.Work[id+1] = float64(id) / 1024
	}
	var m metricSet
	addBalancerMetrics(&m, &s)
	registry := prometheus.NewRegistry()
	registry.MustRegister(&m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := len(f.GetMetric()); n > maxGroupSeries {
			t.Errorf("%s has %d series", f.GetName(), n)
		}
		if f.GetName() == "cleave_group_work" && (len(f.GetMetric()) != maxGroupSeries || f.GetMetric()[0].GetGauge().GetValue() < 0.9) {
			t.Errorf("%d groups have figures of their own: %v", len(f.GetMetric()), f.GetMetric()[0])
		}
	}
}

// A job that waits for others of its own is as far as these are, and one that is paused waits for an operator.
func TestMetrics_JobThatStandsStill_IsSeen(t *testing.T) {
	now := time.Unix(10_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	running, unchanged := countRunning([]api.Job{
		{ID: "1", State: api.JobRunning, Changed: ago(time.Hour)},
		{ID: "2", Parent: "1", State: api.JobUndoing, Changed: ago(time.Minute)},
		{ID: "3", State: api.JobPaused, Changed: ago(2 * time.Hour)},
		{ID: "4", State: api.JobDone, Changed: ago(3 * time.Hour)},
	}, now)
	if running != 3 || unchanged != time.Minute {
		t.Errorf("%d jobs, one of which stands still for %v", running, unchanged)
	}
}

// The time of the newest backup is that of one that is complete.
func TestMetrics_NewestBackup_IsComplete(t *testing.T) {
	l := startFullServer(t)
	if at := l.admin.newestBackup(); at != 0 {
		t.Errorf("without a backup: %v", at)
	}
	at := time.Unix(1_700_000_000, 0)
	for name, complete := range map[string]bool{"one": true, "cut-short": false} {
		dir := filepath.Join(l.admin.o.Backups, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if !complete {
			continue
		}
		file := filepath.Join(dir, storesFile)
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.admin.newestBackup(); got != float64(at.Unix()) {
		t.Errorf("the newest backup is of %v, want %v", got, at.Unix())
	}
}

func TestCountersOnlyGrow(t *testing.T) {
	l := startSmallServer(t)
	_, first, _ := l.sendRequest("GET", api.PathMetrics, "")
	l.writeKeys(100)
	_, second, _ := l.sendRequest("GET", api.PathMetrics, "")
	before, after := parseMetrics(t, first), parseMetrics(t, second)
	for name, v := range before {
		if strings.Contains(name, "_total") && after[name] < v {
			t.Errorf("%s goes from %v to %v", name, v, after[name])
		}
	}
}

func TestWhetherItIsReady(t *testing.T) {
	l := startSmallServer(t)
	if status, body, _ := l.sendRequest("GET", api.PathLive, ""); status != 200 || body != "ok\n" {
		t.Errorf("live: %d, %s", status, body)
	}
	r, err := l.client.Ready(ctx)
	if err != nil || !r.Ready || len(r.Checks) < 3 {
		t.Errorf("ready: %+v, %v", r, err)
	}
	if _, body, _ := l.sendRequest("GET", api.PathReady, ""); body != `{"ready":true,"checks":[]}`+"\n" {
		t.Errorf("in short: %s", body)
	}
	l.admin.Drain()
	r, err = l.client.Ready(ctx)
	if err != nil || r.Ready || r.Checks[0].OK || r.Checks[0].Detail == "" {
		t.Errorf("about to end: %+v, %v", r, err)
	}
	if status, _, _ := l.sendRequest("GET", api.PathReady, ""); status != 503 {
		t.Errorf("about to end: %d", status)
	}
	if s, err := l.client.Status(ctx); err != nil || s.Verdict != api.Unhealthy {
		t.Errorf("about to end, all else goes on: %+v, %v", s, err)
	}
}
