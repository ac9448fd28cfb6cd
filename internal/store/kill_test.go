package store

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/wal"
)

// childEnv makes the test binary a process to be killed: it says where the
// store is and how durable.
const childEnv = "CLEAVE_STORE_CHILD"

func TestMain(m *testing.M) {
	if where, ok := os.LookupEnv(childEnv); ok {
		if err := child(where); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func killOptions(dir string, d wal.Durability) Options {
	o := tiny(vfs.Default)
	o.Dir, o.Durability = dir, d
	return o
}

// child commits until it is killed, and says what was acknowledged.
func child(where string) error {
	word, dir, _ := strings.Cut(where, " ")
	durability, err := wal.ParseDurability(word)
	if err != nil {
		return err
	}
	s, err := Open(killOptions(dir, durability))
	if err != nil {
		return err
	}
	l := newLedger(8)
	if err := l.resume(s); err != nil {
		return err
	}
	var did counts
	wait := l.run(s, uint64(os.Getpid()), make(chan struct{}), &did)
	go func() {
		for {
			// One write each: a line is there as a whole or not.
			fmt.Println(l.known())
			time.Sleep(200 * time.Microsecond)
		}
	}()
	return wait()
}

func TestWhatAKilledProcessHadAcknowledgedIsThere(t *testing.T) {
	var did counts
	rounds := 3
	if os.Getenv("CLEAVE_SOAK") != "" {
		rounds = 100
	}
	if testing.Short() {
		rounds = 1
	}
	// The operating system survives, so what was handed to it does: even "no"
	// loses nothing when a process dies.
	for _, d := range []wal.Durability{wal.Always, wal.EverySec, wal.Never} {
		dir := filepath.Join(t.TempDir(), "store")
		for range rounds {
			killOnce(t, dir, d, &did)
		}
	}
	did.log(t)
}

func killOnce(t *testing.T, dir string, d wal.Durability, did *counts) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+d.String()+" "+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var known []uint64
	for total := uint64(0); total < 600 && lines.Scan(); {
		known, total = parseKnown(t, lines.Text())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // what it could still say
		if strings.HasSuffix(lines.Text(), "]") {
			known, _ = parseKnown(t, lines.Text())
		}
	}
	_ = cmd.Wait()
	s := mustOpen(t, killOptions(dir, d))
	l := newLedger(len(known))
	for i := range l.writers {
		l.writers[i].issued.Store(1 << 62) // it may have done more than it could say
	}
	if err := l.check(s, known); err != nil {
		t.Errorf("%v: %v", d, err)
	}
	did.add("processes killed at "+d.String(), 1)
	did.add("entries replayed", int(s.Metrics().Log.Replayed))
	mustClose(t, s)
}

func parseKnown(t *testing.T, line string) (known []uint64, total uint64) {
	for _, word := range strings.Fields(strings.Trim(line, "[]")) {
		var n uint64
		if _, err := fmt.Sscan(word, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		known, total = append(known, n), total+n
	}
	return known, total
}
