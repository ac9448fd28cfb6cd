package counter

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

// envChild tells a process of this test that it is the one that is killed, and where
// its store is.
const envChild = "CLEAVE_COUNTER_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envChild); dir != "" {
		runAdder(dir)
	}
	os.Exit(m.Run())
}

// runAdder adds and says so, and changes the number of parts.
func runAdder(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	db, err := cleave.Open(dir, cleave.Options{})
	fail(err)
	c, err := Open(db, db.Default(), unwatchedOptions)
	fail(err)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				_, _ = os.Stdout.WriteString("begun\n")
				if w%2 == 0 {
					fail(c.Add(ctx, "n", 1))
				} else {
					fail(addTwice(c, "n"))
				}
				_, _ = os.Stdout.WriteString("added\n")
			}
		})
	}
	for i := 0; ; i++ {
		fail(c.Resize(ctx, "n", []int{8, 1, 2}[i%3]))
	}
}

// What was acknowledged is there when the process was killed, and nothing twice.
func TestAcknowledgedAddsSurviveAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	db, err := cleave.Open(dir, cleave.Options{Stores: 2, Groups: 4})
	must(t, err)
	must(t, db.Close())
	begun, added := 0, 0
	for range 2 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), envChild+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		stop := time.AfterFunc(time.Minute, func() { _ = child.Process.Kill() })
		lines, killed := bufio.NewScanner(out), false
		for target := added + 80; lines.Scan(); {
			switch lines.Text() {
			case "begun":
				begun++
			case "added":
				if added++; added == target {
					must(t, child.Process.Kill())
					killed = true
				}
			default:
				t.Error(lines.Text())
			}
		}
		if _ = child.Wait(); !killed {
			t.Fatal("the child ended by itself: the test shows nothing")
		}
		stop.Stop()
		db, err := cleave.Open(dir, cleave.Options{})
		must(t, err)
		c := newCounters(t, db.Default(), db, unwatchedOptions)
		sum, err := c.Sum(ctx, "n")
		must(t, err)
		if sum < int64(added) || sum > int64(begun) {
			t.Errorf("the sum is %d: %d were acknowledged, %d begun", sum, added, begun)
		}
		must(t, c.Close())
		must(t, db.Close())
	}
}
