package balancer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// foundationDBKnobs are the knobs that FoundationDB's document on hot shards names.
var foundationDBKnobs = []string{
	"MIN_SHARD_BYTES", "MAX_SHARD_BYTES", "SHARD_BYTES_PER_SQRT_BYTES", "SHARD_BYTES_RATIO",
	"MAX_TRANSACTIONS_PER_BYTE",
	"HOT_SHARD_THROTTLING_ENABLED", "HOT_SHARD_THROTTLING_EXPIRE_AFTER", "HOT_SHARD_THROTTLING_TRACKED", "HOT_SHARD_MONITOR_FREQUENCY",
	"SHARD_MAX_BYTES_PER_KSEC", "SHARD_MIN_BYTES_PER_KSEC", "SHARD_SPLIT_BYTES_PER_KSEC",
	"SHARD_MAX_READ_OPS_PER_KSEC", "SHARD_READ_OPS_CHANGE_THRESHOLD", "READ_SAMPLING_ENABLED", "ENABLE_WRITE_BASED_SHARD_SPLIT",
	"SHARD_MAX_READ_DENSITY_RATIO", "SHARD_READ_HOT_BANDWIDTH_MIN_PER_KSECONDS", "SHARD_MAX_BYTES_READ_PER_KSEC_JITTER",
	"ENABLE_REBALANCE_STORAGE_QUEUE", "REBALANCE_STORAGE_QUEUE_SHARD_PER_KSEC_MIN", "DD_ENABLE_REBALANCE_STORAGE_QUEUE_WITH_LIGHT_WRITE_SHARD",
	"READ_REBALANCE_SHARD_TOPK", "READ_REBALANCE_MAX_SHARD_FRAC",
	"PRIORITY_SPLIT_SHARD", "PRIORITY_MERGE_SHARD", "WAIT_METRICS_WRONG_SHARD_CHANCE", "WRONG_SHARD_SERVER_DELAY",
}

// rowsOf returns the rows of the table below a heading of docs/heat.md, as cells, without its header.
func rowsOf(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "heat.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("there is no heading %q", heading)
	}
	after, _, _ = strings.Cut(after, "\n## ")
	for line := range strings.Lines(after) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| `") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// The table of knobs in docs/heat.md is that of the code: all, with their defaults and meanings.
func TestHeatDoc_Knobs_AreThoseOfTheCode(t *testing.T) {
	rows := rowsOf(t, "Knobs")
	if len(rows) != len(knobTable) {
		t.Errorf("%d rows for %d knobs", len(rows), len(knobTable))
	}
	for _, k := range knobTable {
		want := []string{"`" + k.name + "`", defaultOf(k.field), k.help}
		if !slices.ContainsFunc(rows, func(row []string) bool { return slices.Equal(row, want) }) {
			t.Errorf("docs/heat.md lacks this row:\n| %s |", strings.Join(want, " | "))
		}
	}
}

// Each knob of FoundationDB has one of ours, or a reason why there is none.
func TestHeatDoc_FoundationDBKnobs_HaveOursOrAReason(t *testing.T) {
	rows := rowsOf(t, "FoundationDB's knobs")
	var names []string
	for _, row := range rows {
		name := strings.Trim(row[0], "`")
		names = append(names, name)
		if !slices.Contains(foundationDBKnobs, name) {
			t.Errorf("%s is none of FoundationDB's", name)
		}
		ours := row[len(row)-1]
		isNamed := false
		for i, word := range strings.Split(ours, "`") {
			if i%2 == 1 && slices.ContainsFunc(knobTable, func(k knobField) bool { return k.name == word }) {
				isNamed = true
			}
		}
		reason, isNone := strings.CutPrefix(ours, "none: ")
		if isNone && len(reason) < 5 || !isNone && !isNamed {
			t.Errorf("%s has neither a knob of ours nor a reason: %s", name, ours)
		}
	}
	for _, name := range foundationDBKnobs {
		if !slices.Contains(names, name) {
			t.Errorf("there is no row for %s", name)
		}
	}
	if len(names) != len(foundationDBKnobs) {
		t.Errorf("%d rows for %d knobs", len(names), len(foundationDBKnobs))
	}
}
