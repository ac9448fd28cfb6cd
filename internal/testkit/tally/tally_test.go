package tally

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestCountsAreAddedToTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tally")
	t.Setenv(FileVariable, name)
	Add(t, "crashes", 3)
	Add(t, "crashes", 4)
	got, err := os.ReadFile(name)
	const want = "TestCountsAreAddedToTheFile\tcrashes\t3\nTestCountsAreAddedToTheFile\tcrashes\t4\n"
	if err != nil || string(got) != want {
		t.Errorf("file has %q, %v; want %q", got, err, want)
	}
}

// fakeTB stands in for a test whose verdict is looked at.
type fakeTB struct {
	testing.TB
	failed   bool
	messages []string
}

func (j *fakeTB) Helper()             {}
func (j *fakeTB) Failed() bool        { return j.failed }
func (j *fakeTB) Logf(string, ...any) {}
func (j *fakeTB) Errorf(format string, args ...any) {
	j.failed = true
	j.messages = append(j.messages, format)
}

func TestCountsOfManyGoroutinesAreAddedUp(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tally")
	t.Setenv(FileVariable, name)
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
	t.Setenv(FileVariable, "")
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
		j := &fakeTB{TB: t}
		c.Log(j, "crashes")
		if want := test.fails && !testing.Short(); j.failed != want {
			t.Errorf("%s: failed %v, want %v", test.name, j.failed, want)
		}
		if j.failed && !strings.Contains(j.messages[0], "no %s") {
			t.Errorf("%s: it says %q", test.name, j.messages)
		}
	}
	j := &fakeTB{TB: t, failed: true}
	new(Counts).Log(j, "crashes")
	if len(j.messages) > 0 {
		t.Errorf("a test that failed already is told %q", j.messages)
	}
}

func TestASeedIsTheOneThatIsAskedFor(t *testing.T) {
	t.Setenv(SeedVariable, "77")
	if n := Seed(t, "."); n != 77 {
		t.Errorf("the seed is %d", n)
	}
	t.Setenv(SeedVariable, "")
	if a, b := Seed(t, "."), Seed(t, "."); a == b {
		t.Errorf("both are %d", a)
	}
}
