package cleave

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/tally"
)

// killDir and killDurability tell a child process where to write, and how.
const (
	killDir        = "CLEAVE_TEST_KILL_DIR"
	killDurability = "CLEAVE_TEST_KILL_DURABILITY"
)

// What a process has acknowledged is there after it was killed, whatever the
// durability: the system goes on and has it.
func TestWhatWasAcknowledgedOutlivesTheProcess(t *testing.T) {
	for _, d := range []Durability{Always, EverySec, Never} {
		t.Run(d.String(), func(t *testing.T) {
			dir := t.TempDir()
			rng := rand.New(rand.NewPCG(seedOf(t), 1))
			acknowledged := 0
			kills := soaking(2)
			for range kills {
				acknowledged = killOne(t, dir, d, rng, acknowledged)
				acknowledged = checkKilled(t, dir, acknowledged)
			}
			tally.Add(t, "processes killed", kills)
			tally.Add(t, "writes acknowledged", acknowledged)
			if acknowledged == 0 {
				t.Error("nothing was written: the test shows nothing")
			}
		})
	}
}

// killOne runs a child that goes on counting until it is killed, and returns
// the last number that it acknowledged.
func killOne(t *testing.T, dir string, d Durability, rng *rand.Rand, from int) int {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), killDir+"="+dir, killDurability+"="+d.String())
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	last, stop := from, from+1+rng.IntN(200)
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); { // also what was in the pipe at the end
		n, err := strconv.Atoi(lines.Text())
		if err != nil || n != last+1 {
			t.Fatalf("the child says %q after %d", lines.Text(), last)
		}
		last = n
		if last >= stop && !killed {
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
			must(t, child.Process.Kill())
			killed = true
		}
	}
	_ = child.Wait()
	if !killed {
		t.Fatalf("the child ended by itself after %d", last)
	}
	return last
}

// checkKilled returns the last number that is there.
func checkKilled(t *testing.T, dir string, acknowledged int) int {
	db, err := Open(dir, Options{})
	must(t, err)
	defer db.Close()
	for i := 1; i <= acknowledged; i++ {
		if value, err := db.Default().Get(ctx, number(i)); err != nil || string(value) != strconv.Itoa(i) {
			t.Fatalf("%d of %d acknowledged is %q, %v", i, acknowledged, value, err)
		}
	}
	for {
		if _, err := db.Default().Get(ctx, number(acknowledged+1)); errors.Is(err, ErrNotFound) {
			return acknowledged
		}
		acknowledged++ // written, but killed before it could say so
	}
}

// killedChild writes numbered keys and says so after each, for ever.
func killedChild() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	d, err := ParseDurability(os.Getenv(killDurability))
	fail(err)
	db, err := Open(os.Getenv(killDir), Options{Durability: d})
	fail(err)
	n := 0
	for {
		if _, err := db.Default().Get(ctx, number(n+1)); err != nil {
			break
		}
		n++
	}
	for {
		n++
		fail(db.Default().Set(ctx, number(n), []byte(strconv.Itoa(n))))
		fmt.Println(n)
	}
}
