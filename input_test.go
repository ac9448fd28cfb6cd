package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
)

// refused checks that an error has its name and says what the reader needs.
func refused(t testing.TB, what string, err, want error, says ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %q does not say %q", what, err, s)
		}
	}
}

func TestLimitsAreNamed(t *testing.T) {
	db := small(t, 1)
	ks := db.Default()
	longKey := make([]byte, command.MaxKeyBytes+1)
	longValue := make([]byte, command.MaxValueBytes+1)
	limit := fmt.Sprint(command.MaxKeyBytes)
	for what, err := range map[string]error{
		"Get":     second(ks.Get(ctx, longKey)),
		"Item":    second(ks.Item(ctx, longKey)),
		"Set":     ks.Set(ctx, longKey, nil),
		"SetWith": second(ks.SetWith(ctx, longKey, nil, SetOptions{})),
		"Delete":  second(ks.Delete(ctx, []byte("a"), longKey)),
		"Add":     second(ks.Add(ctx, longKey, 1)),
		"Expire":  second(ks.Expire(ctx, longKey, time.Second)),
		"Persist": second(ks.Persist(ctx, longKey)),
		"HSet":    second(ks.HSet(ctx, longKey, Field{})),
		"HGet":    second(ks.HGet(ctx, longKey, nil)),
		"HDel":    second(ks.HDel(ctx, longKey, nil)),
		"HAdd":    second(ks.HAdd(ctx, longKey, nil, 1)),
		"HGetAll": second(ks.HGetAll(ctx, longKey)),
		"HLen":    second(ks.HLen(ctx, longKey)),
		"GetMany": second(ks.GetMany(ctx, []byte("a"), longKey)),
		"Exists":  second(ks.Exists(ctx, longKey)),
		"HScan":   third(ks.HScan(ctx, longKey, nil, 1)),
		"a place": third(ks.HScan(ctx, []byte("h"), longKey, 1)),
		"a field": second(ks.HSet(ctx, []byte("h"), Field{Name: longKey})),
		"tx.Get":  db.View(ctx, func(tx *Txn) error { return second(tx.Get(ks, longKey)) }),
		"tx.Set":  db.Update(ctx, func(tx *Txn) error { return tx.Set(ks, longKey, nil) }),
	} {
		refused(t, what, err, ErrTooLarge, limit)
	}
	limit = fmt.Sprint(command.MaxValueBytes)
	refused(t, "a value", ks.Set(ctx, []byte("a"), longValue), ErrTooLarge, "value", limit)
	refused(t, "a value of a field", second(ks.HSet(ctx, []byte("h"), Field{nil, longValue})), ErrTooLarge, "value", limit)
	err := db.Update(ctx, func(tx *Txn) error {
		for i := range command.MaxTxnKeys + 1 {
			must(t, tx.Set(ks, number(i), nil))
		}
		return nil
	})
	refused(t, "a transaction", err, ErrTooLarge, "transaction", fmt.Sprint(command.MaxTxnKeys))
	// The longest that fit, with every byte escaped.
	must(t, ks.Set(ctx, longKey[1:], longKey))
	if got, err := ks.Get(ctx, longKey[1:]); err != nil || !bytes.Equal(got, longKey) {
		t.Errorf("the longest key: %d bytes, %v", len(got), err)
	}
	if page, err := ks.Scan(ctx, ScanOptions{}); err != nil || len(page.Items) != 1 {
		t.Errorf("%d keys, %v: something was stored", len(page.Items), err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAKeyOfAnotherTypeIsRefused(t *testing.T) {
	db := small(t, 1)
	ks := db.Default()
	text, hash := []byte("text"), []byte("hash")
	must(t, ks.Set(ctx, text, []byte("abc")))
	_, err := ks.HSet(ctx, hash, Field{[]byte("f"), []byte("abc")})
	must(t, err)
	for what, err := range map[string]error{
		"Get":     second(ks.Get(ctx, hash)),
		"Item":    second(ks.Item(ctx, hash)),
		"Add":     second(ks.Add(ctx, hash, 1)),
		"HSet":    second(ks.HSet(ctx, text, Field{})),
		"HGet":    second(ks.HGet(ctx, text, nil)),
		"HDel":    second(ks.HDel(ctx, text, nil)),
		"HAdd":    second(ks.HAdd(ctx, text, nil, 1)),
		"HGetAll": second(ks.HGetAll(ctx, text)),
		"HLen":    second(ks.HLen(ctx, text)),
		"tx.Get":  db.View(ctx, func(tx *Txn) error { return second(tx.Get(ks, hash)) }),
	} {
		refused(t, what, err, ErrWrongType, "type", "of keyspace default")
	}
	refused(t, "Add", second(ks.Add(ctx, text, 1)), ErrNotInteger)
	refused(t, "HAdd", second(ks.HAdd(ctx, hash, []byte("f"), 1)), ErrNotInteger)
	must(t, ks.Set(ctx, text, []byte("9223372036854775807")))
	refused(t, "Add", second(ks.Add(ctx, text, 1)), ErrOverflow)
}

func TestBadArgumentsAreRefused(t *testing.T) {
	db, other := small(t, 1), small(t, 1)
	ks := db.Default()
	set := func(o SetOptions) error { return second(ks.SetWith(ctx, []byte("a"), nil, o)) }
	scan := func(o ScanOptions) error { return second(ks.Scan(ctx, o)) }
	for what, err := range map[string]error{
		"two conditions":           set(SetOptions{IfAbsent: true, IfVersion: true}),
		"a negative TTL":           set(SetOptions{TTL: -1}),
		"TTL and KeepTTL":          set(SetOptions{TTL: 1, KeepTTL: true}),
		"a version for nothing":    set(SetOptions{Version: 3}),
		"no fields":                second(ks.HSet(ctx, []byte("h"))),
		"a negative limit":         scan(ScanOptions{Limit: -1}),
		"bounds of a hash":         scan(ScanOptions{Start: []byte("a")}),
		"a cursor of elsewhere":    scan(ScanOptions{After: []byte("x")}),
		"a keyspace without name":  second(db.CreateKeyspace(ctx, KeyspaceOptions{})),
		"slots of a range":         second(db.CreateKeyspace(ctx, KeyspaceOptions{Name: "x", Kind: Range, Slots: 4})),
		"a bad layout":             second(db.CreateKeyspace(ctx, KeyspaceOptions{Name: "x", Layout: "((("})),
		"a drop of the default":    db.DropKeyspace(ctx, "default"),
		"a keyspace of another DB": db.Update(ctx, func(tx *Txn) error { return tx.Set(other.Default(), []byte("a"), nil) }),
		"a request in a transaction": db.Update(ctx, func(tx *Txn) error {
			return tx.SetWith(ks, []byte("a"), nil, SetOptions{Request: db.NewRequestID()})
		}),
		"a word": second(ParseDurability("sometimes")),
	} {
		refused(t, what, err, ErrOptions)
	}
	rs := rangeSpace(t, db, "range")
	refused(t, "Prefix and Start", second(rs.Scan(ctx, ScanOptions{Prefix: []byte("a"), Start: []byte("a")})), ErrOptions, "Prefix")
	old := RequestID{1}
	refused(t, "an old request", second(ks.AddOnce(ctx, old, []byte("n"), 1)), ErrRequestOld)
}

// Whoever keeps a transaction beyond its function is told so by every method.
func TestATransactionThatIsOverRefuses(t *testing.T) {
	db := small(t, 1)
	ks := db.Default()
	key := []byte("a")
	for _, run := range []func(context.Context, func(*Txn) error) error{db.Update, db.View} {
		var tx *Txn
		must(t, run(ctx, func(now *Txn) error {
			tx = now
			if ok, err := tx.Exists(ks, key); err != nil || ok {
				t.Errorf("exists: %v, %v", ok, err)
			}
			return nil
		}))
		for what, err := range map[string]error{
			"Get": second(tx.Get(ks, key)), "GetMany": second(tx.GetMany(ks, key)), "Item": second(tx.Item(ks, key)),
			"Exists": second(tx.Exists(ks, key)), "Set": tx.Set(ks, key, nil), "Delete": second(tx.Delete(ks, key)),
			"Add": second(tx.Add(ks, key, 1)), "Expire": second(tx.Expire(ks, key, 1)), "Persist": second(tx.Persist(ks, key)),
			"HGet": second(tx.HGet(ks, key, nil)), "HGetAll": second(tx.HGetAll(ks, key)), "HLen": second(tx.HLen(ks, key)),
			"HScan": third(tx.HScan(ks, key, nil, 1)), "HSet": second(tx.HSet(ks, key, Field{})),
			"HDel": second(tx.HDel(ks, key, nil)), "HAdd": second(tx.HAdd(ks, key, nil, 1)),
		} {
			refused(t, what, err, ErrTxnOver)
		}
		for _, err := range tx.Scan(ks, ScanOptions{}) {
			refused(t, "Scan", err, ErrTxnOver)
		}
	}
	if ok, err := ks.Exists(ctx, key); err != nil || ok {
		t.Errorf("something was written: %v, %v", ok, err)
	}
}

func TestADroppedKeyspaceIsGone(t *testing.T) {
	db := small(t, 1)
	ks := rangeSpace(t, db, "s")
	must(t, ks.Set(ctx, []byte("a"), nil))
	must(t, db.DropKeyspace(ctx, "s"))
	for what, err := range map[string]error{
		"Get":      second(ks.Get(ctx, []byte("a"))),
		"Set":      ks.Set(ctx, []byte("a"), nil),
		"Scan":     second(ks.Scan(ctx, ScanOptions{})),
		"HGetAll":  second(ks.HGetAll(ctx, []byte("a"))),
		"GetMany":  second(ks.GetMany(ctx, []byte("a"))),
		"HScan":    third(ks.HScan(ctx, []byte("a"), nil, 0)),
		"Keyspace": second(db.Keyspace("s")),
		"drop":     db.DropKeyspace(ctx, "s"),
		"tx":       db.Update(ctx, func(tx *Txn) error { return tx.Set(ks, []byte("a"), nil) }),
	} {
		refused(t, what, err, ErrNoKeyspace, `"s"`)
	}
	again := rangeSpace(t, db, "s")
	if _, err := again.Get(ctx, []byte("a")); !errors.Is(err, ErrNotFound) {
		t.Errorf("a new keyspace of that name: %v", err)
	}
}

func TestBadOptionsAreAllReported(t *testing.T) {
	_, err := Open(t.TempDir(), Options{
		Durability: 9, Stores: 65, CacheBytes: 1, BlockCacheBytes: 1, Queue: -1, Remember: time.Millisecond, FeedBytes: -2,
	})
	refused(t, "Open", err, ErrOptions, "Durability", "Stores", "CacheBytes", "BlockCacheBytes", "Queue", "Remember", "FeedBytes")
	_, err = Open("", Options{})
	refused(t, "Open without a directory", err, ErrOptions, "OpenMemory")
}

// A directory that is not ours, or not whole, is refused with what is wrong, and
// one that is not ours is left as it was.
func TestDirectoriesThatAreRefused(t *testing.T) {
	made := func(t *testing.T, stores int) string {
		dir := filepath.Join(t.TempDir(), "db")
		db := onDisk(t, dir, stores)
		for i := range 50 {
			must(t, db.Default().Set(ctx, number(i), make([]byte, 3000)))
		}
		mustClose(t, db)
		return dir
	}
	overwrite := func(t *testing.T, name, text string) {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	for _, c := range []struct {
		name   string
		spoil  func(t *testing.T) string
		stores int
		want   error
		says   string
	}{
		{"a file", func(t *testing.T) string {
			name := filepath.Join(t.TempDir(), "file")
			overwrite(t, name, "mine")
			return name
		}, 0, ErrForeign, "file"},
		{"something else's", func(t *testing.T) string {
			dir := t.TempDir()
			overwrite(t, filepath.Join(dir, "thesis.tex"), "mine")
			return dir
		}, 0, ErrForeign, "thesis.tex"},
		{"a store without FORMAT", func(t *testing.T) string {
			dir := made(t, 1)
			must(t, os.Remove(filepath.Join(dir, "0", "FORMAT")))
			return dir
		}, 0, ErrCorrupt, "FORMAT"},
		{"another number of stores", func(t *testing.T) string { return made(t, 2) }, 3, ErrOptions, "2"},
		{"a newer version", func(t *testing.T) string {
			dir := made(t, 1)
			overwrite(t, filepath.Join(dir, "0", "FORMAT"), "cleave store\nformat 999\n")
			return dir
		}, 0, ErrVersion, "999"},
		{"a damaged FORMAT", func(t *testing.T) string {
			dir := made(t, 1)
			overwrite(t, filepath.Join(dir, "0", "FORMAT"), "cleave sto")
			return dir
		}, 0, ErrCorrupt, "FORMAT"},
		{"a damaged STORES", func(t *testing.T) string {
			dir := made(t, 1)
			overwrite(t, filepath.Join(dir, "STORES"), "cleave stores x\n")
			return dir
		}, 0, ErrCorrupt, "STORES"},
		{"ids in STORES that are none", func(t *testing.T) string {
			dir := made(t, 1)
			overwrite(t, filepath.Join(dir, "STORES"), "cleave stores 1\n00112233445566778899aabbccddeeff00\n")
			return dir
		}, 0, ErrCorrupt, "STORES"},
		{"too few ids in STORES", func(t *testing.T) string {
			dir := made(t, 2)
			overwrite(t, filepath.Join(dir, "STORES"), "cleave stores 2\n00112233445566778899aabbccddeeff\n")
			return dir
		}, 0, ErrCorrupt, "STORES"},
		{"no tables", func(t *testing.T) string {
			dir := made(t, 1)
			must(t, os.RemoveAll(filepath.Join(dir, "0", "data")))
			return dir
		}, 0, ErrCorrupt, "data"},
		{"no log", func(t *testing.T) string {
			dir := made(t, 1)
			must(t, os.RemoveAll(filepath.Join(dir, "0", "log")))
			return dir
		}, 0, ErrCorrupt, "log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.spoil(t)
			before := listing(t, dir)
			_, err := Open(dir, Options{Stores: c.stores})
			refused(t, "Open", err, c.want, c.says)
			_, err = Open(dir, Options{Stores: c.stores})
			refused(t, "Open again", err, c.want, c.says)
			if after := listing(t, dir); after != before && c.want != ErrCorrupt {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// listing names all files but locks.
func listing(t *testing.T, dir string) string {
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() != "LOCK" {
			fmt.Fprintln(&b, path)
		}
		return err
	}))
	return b.String()
}

func TestADirectoryBelongsToOneOpenDB(t *testing.T) {
	dir := t.TempDir()
	db := onDisk(t, dir, 1)
	_, err := Open(dir, Options{})
	refused(t, "the second", err, ErrLocked, dir)
	must(t, db.Default().Set(ctx, []byte("a"), []byte("1")))
	mustClose(t, db)
	db = onDisk(t, dir, 1)
	defer db.Close()
	if got, err := db.Default().Get(ctx, []byte("a")); err != nil || string(got) != "1" {
		t.Errorf("after that: %q, %v", got, err)
	}
}

func TestAnEndedContextHasNoEffect(t *testing.T) {
	db := small(t, 1)
	ks := db.Default()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	key := []byte("a")
	for what, err := range map[string]error{
		"Get": second(ks.Get(ended, key)), "Item": second(ks.Item(ended, key)),
		"Set": ks.Set(ended, key, nil), "Delete": second(ks.Delete(ended, key)),
		"Add": second(ks.Add(ended, key, 1)), "Expire": second(ks.Expire(ended, key, time.Second)),
		"Persist": second(ks.Persist(ended, key)), "HSet": second(ks.HSet(ended, key, Field{})),
		"HGet": second(ks.HGet(ended, key, nil)), "HDel": second(ks.HDel(ended, key, nil)),
		"HAdd": second(ks.HAdd(ended, key, nil, 1)), "HGetAll": second(ks.HGetAll(ended, key)),
		"HLen": second(ks.HLen(ended, key)), "GetMany": second(ks.GetMany(ended, key)),
		"Exists": second(ks.Exists(ended, key)), "HScan": third(ks.HScan(ended, key, nil, 0)), "Scan": second(ks.Scan(ended, ScanOptions{})),
		"CreateKeyspace": second(db.CreateKeyspace(ended, KeyspaceOptions{Name: "s"})),
		"DropKeyspace":   db.DropKeyspace(ended, "s"),
		"Update":         db.Update(ended, func(tx *Txn) error { return tx.Set(ks, key, nil) }),
		"View":           db.View(ended, func(tx *Txn) error { return second(tx.Get(ks, key)) }),
	} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v, want context.Canceled alone", what, err)
		}
	}
	for _, err := range db.Feed(ended, "") {
		refused(t, "Feed", err, context.Canceled)
	}
	if page, err := ks.Scan(ctx, ScanOptions{}); err != nil || len(page.Items) > 0 || len(db.Keyspaces()) != 1 {
		t.Errorf("%d keys and %d keyspaces, %v: something happened", len(page.Items), len(db.Keyspaces()), err)
	}
}
