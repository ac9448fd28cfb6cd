package watch

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

// killDirEnv tells a child process where to work.
const killDirEnv = "CLEAVE_TEST_KILL_DIR"

// savedCopy is a copy with the place up to which it is made.
type savedCopy struct {
	Texts  map[string]string
	Hashes map[string]map[string]string
	At     cleave.Cursor
}

func loadCopy(dir string) (*mirror, cleave.Cursor, error) {
	text, err := os.ReadFile(filepath.Join(dir, "copy"))
	if errors.Is(err, fs.ErrNotExist) {
		return newMirror(), "", nil
	}
	s := savedCopy{}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	m := newMirror()
	m.texts, m.hashes = s.Texts, s.Hashes
	return m, s.At, err
}

func (m *mirror) saveCopy(dir string, at cleave.Cursor) error {
	text, err := json.Marshal(savedCopy{m.texts, m.hashes, at})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "next"), text, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "copy"))
	}
	return err
}

// A copy that is kept in a file, with the place up to which it is made, is right whenever
// the process is killed.
func TestACopyIsRightAfterItsProcessWasKilled(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(testSeed(t), 1))
	for range scaleRounds(2) {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), killDirEnv+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		saves, killed := 1+rng.IntN(30), false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if saves--; saves == 0 {
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
				must(t, child.Process.Kill())
				killed = true
			}
		}
		if _ = child.Wait(); !killed {
			t.Fatal("the child ended by itself")
		}
	}
	db, err := cleave.Open(filepath.Join(dir, "store"), cleave.Options{})
	must(t, err)
	defer db.Close()
	must(t, db.Default().Set(ctx, []byte("end"), nil))
	m, at, err := loadCopy(dir)
	must(t, err)
	if at == "" || len(m.texts) == 0 {
		t.Error("nothing was copied: the test shows nothing")
	}
	for e, err := range New(db).Follow(hangContext(t), Target{Keyspace: db.Default()}, Options{From: at}) {
		must(t, err)
		if e.Kind == Reset {
			t.Error("it had to begin anew")
		}
		must(t, m.apply(e))
		if string(e.Key) == "end" {
			break
		}
	}
	now, _ := readAll(t, db.Default())
	if d := m.diffFrom(now); d != "" {
		t.Errorf("the copy is %s", d)
	}
}

// killedChild writes, and keeps a copy in a file, for ever.
func killedChild() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	dir := os.Getenv(killDirEnv)
	db, err := cleave.Open(filepath.Join(dir, "store"), cleave.Options{Durability: cleave.EverySec})
	fail(err)
	go func() {
		for rng := rand.New(rand.NewPCG(rand.Uint64(), 1)); ; time.Sleep(50 * time.Microsecond) {
			fail(writeRandom(db.Default(), rng, 300))
		}
	}()
	m, at, err := loadCopy(dir)
	fail(err)
	n := 0
	for e, err := range New(db).Follow(ctx, Target{Keyspace: db.Default()}, Options{From: at, Buffer: 10}) {
		fail(err)
		fail(m.apply(e))
		if n++; n%7 == 0 {
			fail(m.saveCopy(dir, e.After))
			fmt.Println(n)
		}
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(killDirEnv) != "" {
		killedChild() // does not return
	}
	// A store takes long to open and is worth more the longer it is used: fewer
	// runs of more steps, unless the caller says otherwise.
	for name, value := range map[string]string{"rapid.checks": "25", "rapid.steps": "60"} {
		if f := flag.Lookup(name); f != nil {
			_ = f.Value.Set(value)
		}
	}
	os.Exit(m.Run())
}
