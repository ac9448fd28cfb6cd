package tally

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// judge stands in for a test whose verdict is looked at.
type judge struct {
	testing.TB
	failed bool
	said   []string
}

func (j *judge) Helper()             {}
func (j *judge) Failed() bool        { return j.failed }
func (j *judge) Logf(string, ...any) {}
func (j *judge) Errorf(format string, args ...any) {
	j.failed = true
	j.said = append(j.said, format)
}

func TestCountsOfManyGoroutinesAreAddedUp(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tally")
	t.Setenv(File, name)
	var c Counts
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				c.Add("writes", 2)
			}
			c.Add("crashes", 1)
		})
	}
	wg.Wait()
	c.Log(t, "writes", "crashes")
	got, err := os.ReadFile(name)
	want := t.Name() + "\tcrashes\t8\n" + t.Name() + "\twrites\t1600\n"
	if err != nil || string(got) != want {
		t.Errorf("file has %q, %v; want %q", got, err, want)
	}
}

func TestATestThatWentThroughNothingFails(t *testing.T) {
	t.Setenv(File, "")
	for _, test := range []struct {
		name  string
		added map[string]int
		fails bool
	}{
		{"none", nil, true},
		{"another", map[string]int{"writes": 1}, true},
		{"zero of it", map[string]int{"crashes": 0}, true},
		{"one", map[string]int{"crashes": 1}, false},
	} {
		var c Counts
		for what, n := range test.added {
			c.Add(what, n)
		}
		j := &judge{TB: t}
		c.Log(j, "crashes")
		if want := test.fails && !testing.Short(); j.failed != want {
			t.Errorf("%s: failed %v, want %v", test.name, j.failed, want)
		}
		if j.failed && !strings.Contains(j.said[0], "no %s") {
			t.Errorf("%s: it says %q", test.name, j.said)
		}
	}
	j := &judge{TB: t, failed: true}
	new(Counts).Log(j, "crashes")
	if len(j.said) > 0 {
		t.Errorf("a test that failed already is told %q", j.said)
	}
}
