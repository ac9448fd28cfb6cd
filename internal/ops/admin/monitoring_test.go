package admin

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// packagingDir has what operators install beside the binary.
var packagingDir = filepath.Join("..", "..", "..", "packaging")

const (
	rulesFile, rulesTestFile, dashboardFile = "alerts.yml", "alerts_test.yml", "grafana.json"
	// firing is how long a condition is shown to Prometheus: longer than any rule waits.
	firing = "90m"
)

func readPackaging(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(packagingDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	metricUse  = regexp.MustCompile(`(cleave_[a-z0-9_]+)(\{[^}]*\})?`)
	labelUse   = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)\\?"`)
	alertName  = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	histogramX = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// Dashboards and rules name figures that a server has, and labels that these have.
func TestMonitoring_MetricsAndLabels_AreThoseOfAServer(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "metrics.golden"))
	if err != nil {
		t.Fatal(err)
	}
	labels, isHistogram := map[string][]string{}, map[string]bool{}
	for line := range strings.Lines(string(golden)) { // TestMetrics_NamesTypesAndLabels_DoNotChange holds it against a server
		fields := strings.SplitN(line, " ", 4)
		labels[fields[0]] = strings.Split(strings.Trim(fields[2], "{}"), ",")
		isHistogram[fields[0]] = fields[1] == "histogram"
	}
	for _, name := range []string{rulesFile, rulesTestFile, dashboardFile} {
		used := 0
		for _, use := range metricUse.FindAllStringSubmatch(readPackaging(t, name), -1) {
			used++
			family := use[1]
			if base := histogramX.ReplaceAllString(family, ""); isHistogram[base] {
				family = base
			}
			has, ok := labels[family]
			if !ok {
				t.Errorf("%s: a server has no %s", name, use[1])
				continue
			}
			for _, l := range labelUse.FindAllStringSubmatch(use[2], -1) {
				if l[1] != "instance" && l[1] != "job" && !slices.Contains(has, l[1]) {
					t.Errorf("%s: %s has no label %s", name, family, l[1])
				}
			}
		}
		if used < 10 {
			t.Errorf("%s names %d figures", name, used)
		}
	}
	if !json.Valid([]byte(readPackaging(t, dashboardFile))) {
		t.Errorf("%s is no JSON", dashboardFile)
	}
}

// promtool runs the tool of Prometheus.
func promtool(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: it is in Debian's package prometheus, which make deps installs")
	}
	out, err := exec.Command(tool, args...).CombinedOutput()
	return string(out), err
}

// Each alert fires on what it is about, and not on what it is not: so say the tests of the rules. They notice if any
// one of the alerts never fires.
func TestMonitoring_Alerts_FireInTheirTests(t *testing.T) {
	if out, err := promtool(t, "check", "rules", filepath.Join(packagingDir, rulesFile)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := promtool(t, "test", "rules", filepath.Join(packagingDir, rulesTestFile)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rules := readPackaging(t, rulesFile)
	names := alertName.FindAllStringSubmatch(rules, -1)
	if len(names) < 9 {
		t.Errorf("%d alerts", len(names))
	}
	for _, n := range names {
		dir := t.TempDir()
		expr := regexp.MustCompile(`(?m)(alert: ` + n[1] + `\n +expr: ).*$`)
		broken := expr.ReplaceAllString(rules, `${1}vector(0) > 1`)
		if broken == rules {
			t.Fatalf("%s has no expression", n[1])
		}
		for name, text := range map[string]string{rulesFile: broken, rulesTestFile: readPackaging(t, rulesTestFile)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := promtool(t, "test", "rules", filepath.Join(dir, rulesTestFile)); err == nil {
			t.Errorf("no test notices that %s never fires:\n%s", n[1], out)
		}
	}
}

// scrape reads the figures of a server.
func (l *testServer) scrape() map[string]float64 {
	l.t.Helper()
	status, text, _ := l.sendRequest("GET", api.PathMetrics, "")
	if status != 200 {
		l.t.Fatalf("%d: %s", status, text)
	}
	return parseMetrics(l.t, text)
}

// isFiring reports whether an alert fires in a Prometheus that has seen the figures of a server for long. Counters go
// on as they did from one scrape to the next, a second later.
func isFiring(t *testing.T, alert string, before, after map[string]float64) bool {
	t.Helper()
	rules, err := filepath.Abs(filepath.Join(packagingDir, rulesFile))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%s]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n", strconv.Quote(rules))
	for _, name := range slices.Sorted(maps.Keys(after)) {
		value := after[name]
		if name == "cleave_backup_last_time_seconds" {
			value -= float64(time.Now().Unix()) // in these tests time begins at 0
		}
		values := fmt.Sprintf("%vx120", value)
		if family, _, _ := strings.Cut(name, "{"); strings.HasSuffix(family, "_total") {
			values = fmt.Sprintf("%v+%vx120", value, 60*max(0, after[name]-before[name]))
		}
		if !strings.Contains(name, "_bucket{") {
			fmt.Fprintf(&b, "  - series: %s\n    values: %s\n", strconv.Quote(name), strconv.Quote(values))
		}
	}
	fmt.Fprintf(&b, "  promql_expr_test:\n  - expr: 'max(ALERTS{alertname=\"%s\",alertstate=\"firing\"})'\n    eval_time: %s\n    exp_samples: [{labels: '{}', value: 1}]\n", alert, firing)
	file := filepath.Join(t.TempDir(), "scraped.yml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := promtool(t, "test", "rules", file)
	if err != nil && !strings.Contains(out, "expr:") {
		t.Fatalf("%v\n%s", err, out)
	}
	return err == nil
}

// A server that has nothing to do fires no alert but that it has no backup; one whose requests fall on one key fires
// that its entropy has dropped.
func TestMonitoring_EntropyDrop_IsCausedByOneKey(t *testing.T) {
	l := startFullServer(t)
	quiet := l.scrape()
	for _, n := range alertName.FindAllStringSubmatch(readPackaging(t, rulesFile), -1) {
		switch n[1] {
		case "CleaveBackupOld", "CleaveDiskNearlyFull": // there is no backup, and the disk is that of whoever runs the test
			continue
		}
		if isFiring(t, n[1], quiet, quiet) {
			t.Errorf("%s fires on a server that has nothing to do", n[1])
		}
	}
	if !isFiring(t, "CleaveBackupOld", quiet, quiet) {
		t.Error("CleaveBackupOld does not fire on a server without a backup")
	}
	key, err := l.admin.node.Keyspace("default")
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 { // as the sample of 400,000 requests
		l.admin.node.RecordAccess(&heat.Access{Key: key.AppendPosition(nil, []byte("flash-sale"))}, 128)
	}
	l.admin.node.CollectHeat()
	if one := l.scrape(); !isFiring(t, "CleaveEntropyDrop", quiet, one) {
		t.Errorf("CleaveEntropyDrop does not fire at an evenness of %v of %v samples", one["cleave_heat_evenness"], one["cleave_heat_samples"])
	}
}

// Writers that a cap turns away fire that writers are.
func TestMonitoring_Throttling_IsCausedByACap(t *testing.T) {
	l := startFullServer(t)
	if _, err := l.client.Post(ctx, api.PathSetCap, api.SetCap{Prefix: api.KeyOrNil([]byte("order:"))}, false); err != nil {
		t.Fatal(err)
	}
	before := l.scrape()
	if _, replies := l.redisClient(t, "SET order:1 x", "SET order:2 x", "SET order:3 x"); !strings.HasPrefix(replies[2], "-THROTTLED") {
		t.Fatalf("told %q", replies)
	}
	if after := l.scrape(); !isFiring(t, "CleaveThrottling", before, after) || isFiring(t, "CleaveThrottling", after, after) {
		t.Errorf("CleaveThrottling does not tell %v refused writes from none", after[`cleave_throttled_total{by="cap"}`])
	}
}

// One key that gets all writes makes a hot shard, and a group that does more than the others.
func TestMonitoring_HotShardAndSkew_AreCausedByOneKey(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of all processors")
	}
	l := startFullServer(t)
	var work sync.WaitGroup
	defer work.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for range 8 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var b cleave.Batch
				b.Set(l.db.Default(), []byte("flash-sale"), []byte("sold"))
				if err := l.db.Write(ctx, &b); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var was map[string]float64
	for _, alert := range []string{"CleaveHotShard", "CleaveSkew"} {
		if !eventually.Within(time.Minute, func() bool {
			was = l.scrape()
			return isFiring(t, alert, was, was)
		}) {
			t.Errorf("%s does not fire: findings %v, imbalance %v, work %v", alert, was[`cleave_balancer_findings{class="hot_key"}`], was["cleave_balancer_imbalance"], was[`cleave_group_work{group="1"}`])
		}
	}
}
