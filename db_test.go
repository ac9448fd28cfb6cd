package cleave_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

func TestOpenKeyspaceMakesItOnceAndRefusesOtherOptions(t *testing.T) {
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, want := context.Background(), cleave.KeyspaceOptions{Name: "x", Kind: cleave.Range}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if k, err := db.OpenKeyspace(ctx, want); err != nil || k.Options() != want {
				t.Errorf("got %v, %v", k, err)
			}
		})
	}
	wg.Wait()
	if _, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "x"}); !errors.Is(err, cleave.ErrKeyspaceExists) {
		t.Errorf("with other options: %v, want ErrKeyspaceExists", err)
	}
	if _, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "no spaces"}); !errors.Is(err, cleave.ErrOptions) {
		t.Errorf("with a bad name: %v, want ErrOptions", err)
	}
}

func TestOpenKeyspaceComparesWhatLayoutsMean(t *testing.T) {
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	open := func(layout string) error {
		_, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "x", Kind: cleave.Range, Layout: layout})
		return err
	}
	for _, same := range []string{"(device, day(ts)) | ts", "device,day(ts)|ts", "( device , day( ts ) )|ts:time"} {
		if err := open(same); err != nil {
			t.Errorf("%q: %v", same, err)
		}
	}
	for _, other := range []string{"", "device | day(ts), ts", "(device:string, day(ts)) | ts", "no layout("} {
		if err := open(other); !errors.Is(err, cleave.ErrKeyspaceExists) {
			t.Errorf("%q: %v, want ErrKeyspaceExists", other, err)
		}
	}
}

// logged is a log in memory.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The events of a store are logged, and its contents are not.
func TestLogger_OfAStore_HearsOfRecoveryJobsBackupsAndIndexes(t *testing.T) {
	var out logged
	dir := filepath.Join(t.TempDir(), "data")
	open := func() *cleave.DB {
		t.Helper()
		db, err := cleave.Open(dir, cleave.Options{Groups: 2, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	ctx := context.Background()
	db := open()
	k := db.Default()
	if _, err := k.HSet(ctx, []byte("a-key"), cleave.Field{Name: []byte("age"), Value: []byte("a-secret")}); err != nil {
		t.Fatal(err)
	}
	ix, err := db.CreateIndex(ctx, cleave.IndexOptions{Name: "by-age", Keyspace: k, Columns: "age"})
	if err != nil {
		t.Fatal(err)
	}
	if err := ix.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	job, err := db.Start(ctx, cleave.SplitAtSlots(k, 100))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := db.Backup(ctx, dir+"-copy"); err != nil {
		t.Fatal(err)
	}
	if err := db.Backup(ctx, dir+"-copy"); err == nil {
		t.Fatal("the second backup has overwritten the first")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`msg="store opened" store=0`, "replayed_entries=", `msg="job begun" job=1 kind=split`, `msg="job done" job=1 kind=split`,
		`msg="index build begun" keyspace=default index=by-age`, `msg="index build done" keyspace=default index=by-age`,
		`msg="backup begun"`, `msg="backup done"`, `level=ERROR msg="backup failed"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing says %s:\n%s", want, out.String())
		}
	}
	if text := out.String(); strings.Contains(text, "a-secret") || strings.Contains(text, "a-key") {
		t.Errorf("it says what the store holds:\n%s", text)
	}
}

// A reader that has read one write of a transaction reads all of them from then on,
// also with single reads that are no transaction themselves.
func TestATransactionAppearsAtOnceToSingleReads(t *testing.T) {
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, ks := context.Background(), db.Default()
	const keys = 64
	key := func(i int) []byte { return fmt.Appendf(nil, "k%02d", i) }
	write := func(n int) error {
		return db.Update(ctx, func(tx *cleave.Txn) error {
			for i := range keys {
				if err := tx.Set(ks, key(i), strconv.AppendInt(nil, int64(n), 10)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	read := func(i int) int {
		v, err := ks.Get(ctx, key(i))
		if err != nil {
			t.Error(err)
		}
		n, _ := strconv.Atoi(string(v))
		return n
	}
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				// The first key is published first, the last one last.
				if first, last := read(0), read(keys-1); last < first {
					t.Errorf("read %d, and then %d of the transaction that had written both", first, last)
					return
				}
			}
		})
	}
	for n := 2; n < tally.Size(500, 120) && !t.Failed(); n++ {
		if err := write(n); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
}
