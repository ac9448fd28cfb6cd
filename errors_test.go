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

	"github.com/cleavekv/cleave/internal/shard/command"
)

// A wrong option is reported in parts, for callers that have another name for it, and as a whole.
func TestAWrongOptionSaysWhichItIs(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, Options{Stores: 2, Groups: 4})
	must(t, err)
	must(t, db.Close())
	for _, c := range []struct {
		opts Options
		want OptionError
		text string
	}{
		{Options{Stores: 65}, OptionError{Option: "Stores", Value: "65", Use: "1 to 64, or 0 for the default"}, "Stores is 65: use 1 to 64, or 0 for the default"},
		{Options{Stores: 2, Groups: 1}, OptionError{Option: "Groups", Value: "1", Use: "2 to 1024, or 0 for the default"}, "Groups is 1: use 2 to 1024, or 0 for the default"},
		{Options{RequestTTL: time.Millisecond}, OptionError{Option: "RequestTTL", Value: "1ms", Use: "1s to 24h, or 0 for the default"}, "RequestTTL is 1ms: use 1s to 24h, or 0 for the default"},
		{Options{Stores: 3}, OptionError{Option: "Stores", Value: "3", Use: "0 or 2", Found: dir + " has 2 stores, not 3"}, dir + " has 2 stores, not 3: open it with Stores 0 or 2"},
	} {
		_, err := Open(dir, c.opts)
		var got *OptionError
		if !errors.Is(err, ErrOptions) || !errors.As(err, &got) || *got != c.want {
			t.Errorf("%v: %+v, want %+v", err, got, c.want)
			continue
		}
		if want := "cleave: bad options: " + c.text; err.Error() != want || got.Error() != want {
			t.Errorf("%q and %q, want %q", err, got, want)
		}
	}
	_, err = OpenMemory(Options{QueueLimit: -1, Stores: -1})
	if want := "cleave: bad options: Stores is -1: use 1 to 64, or 0 for the default\ncleave: bad options: QueueLimit is -1: use at least 1, or 0 for the default"; err == nil || err.Error() != want {
		t.Errorf("two of them: %v, want %s", err, want)
	}
}

// The text of a refusal names what is wrong, once, and what to do.
func TestARefusalSaysWhatToDo(t *testing.T) {
	db := openWatched(t, 2, nil)
	ks := rangeSpace(t, db, "r")
	mustDo(t, db, SplitAtKeys(ks, []byte("f"), []byte("m")))
	mustDo(t, db, Drain{Group: 4, Parallel: 8})
	first, third := shardAt(ks, "a"), shardAt(ks, "n")
	start := func(c MapChange) error {
		_, err := db.Start(ctx, c)
		return err
	}
	var over *Txn
	must(t, db.View(ctx, func(tx *Txn) error {
		over = tx
		return nil
	}))
	ended := mustStart(t, db, SplitAtKeys(ks, []byte("x")))
	if _, err := ended.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{start(Move{Shard: first, To: 99}), "cleave: no such group: group 99: see DB.Groups"},
		{start(Drain{Group: 99}), "cleave: no such group: group 99: see DB.Groups"},
		{start(Undrain{Group: 99}), "cleave: no such group: group 99: see DB.Groups"},
		{start(Move{Shard: 9999, To: 1}), "cleave: no such shard: shard 9999: see DB.Shards"},
		{start(Move{Shard: first, To: 4}), "cleave: the group is draining: group 4: undrain it, or choose another"},
		{start(Drain{Group: 4}), "cleave: nothing to change: group 4 is drained, and has no shards"},
		{start(Undrain{Group: 2}), "cleave: nothing to change: group 2 is not draining"},
		{start(Merge{Left: first, Right: third}), fmt.Sprintf("cleave: not neighbours: %v is not followed by %v: see DB.Shards", first, third)},
		{start(SplitAtKeys(ks, []byte("f"))), "cleave: nothing to change: a shard begins at each of these boundaries already"},
		{start(SplitAtSlots(db.Default(), 16384)), "cleave: bad boundary: slot 16384: use 1 to 16383"},
		{start(Move{Shard: first, To: 4, BytesPerSecond: 1}), "cleave: bad options: BytesPerSecond is 1: use 65536 or more"},
		{start(Drain{Group: 2, Parallel: 100}), "cleave: bad options: Parallel is 100: use 1 to 64"},
		{start(Regroup{Groups: 2000}), "cleave: bad options: Groups is 2000: use 2 to 1024, no fewer than there are stores"},
		{start(Regroup{Groups: 1}), "cleave: bad options: Groups is 1: use 2 to 1024, no fewer than there are stores"},
		{secondError(db.Job(ctx, 999)), "cleave: no such job: 999: see DB.Jobs"},
		{secondError(db.Keyspace("none")), `cleave: no such keyspace: "none": create it, or see DB.Keyspaces`},
		{ended.Cancel(ctx), "cleave: the job has ended: it is done: start another"},
		{over.Set(ks, nil, nil), "cleave: the transaction is over: use a Txn only inside of its function"},
		{db.View(ctx, func(tx *Txn) error { return tx.Set(ks, nil, nil) }), "cleave: a View cannot write: use Update"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%v\nwant %s", c.err, c.want)
		}
	}
}

// Boundaries that are there already are left out, alone or among others.
func TestASplitLeavesOutWhatIsThere(t *testing.T) {
	db := openWatched(t, 1, nil)
	ks := rangeSpace(t, db, "r")
	at := func(names ...string) Split {
		keys := make([][]byte, len(names))
		for i, name := range names {
			keys[i] = []byte(name)
		}
		return SplitAtKeys(ks, keys...)
	}
	mustDo(t, db, at("m", "m"))
	mustDo(t, db, at("m", "f"))
	mustDo(t, db, at("f", "t", "f", "b", "m"))
	shards, err := db.Shards(ctx)
	must(t, err)
	n := 0
	for _, s := range shards {
		if s.Keyspace == ks.Name() {
			n++
		}
	}
	if n != 5 {
		t.Errorf("%d shards, want those of b, f, m and t, and the first", n)
	}
}

// checkRefused checks that an error has its name and says what the reader needs.
func checkRefused(t testing.TB, what string, err, want error, says ...string) {
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
	db := openSmall(t, 1)
	ks := db.Default()
	longKey := make([]byte, command.MaxKeyBytes+1)
	longValue := make([]byte, command.MaxValueBytes+1)
	limit := fmt.Sprint(command.MaxKeyBytes)
	for what, err := range map[string]error{
		"Get":       secondError(ks.Get(ctx, longKey)),
		"Item":      secondError(ks.Item(ctx, longKey)),
		"Set":       ks.Set(ctx, longKey, nil),
		"SetWith":   secondError(ks.SetWith(ctx, longKey, nil, SetOptions{})),
		"Delete":    secondError(ks.Delete(ctx, []byte("a"), longKey)),
		"Add":       secondError(ks.Add(ctx, longKey, 1)),
		"Expire":    secondError(ks.Expire(ctx, longKey, time.Second)),
		"Persist":   secondError(ks.Persist(ctx, longKey)),
		"HSet":      secondError(ks.HSet(ctx, longKey, Field{})),
		"HGet":      secondError(ks.HGet(ctx, longKey, nil)),
		"HDel":      secondError(ks.HDel(ctx, longKey, nil)),
		"HAdd":      secondError(ks.HAdd(ctx, longKey, nil, 1)),
		"HGetAll":   secondError(ks.HGetAll(ctx, longKey)),
		"HLen":      secondError(ks.HLen(ctx, longKey)),
		"GetMany":   secondError(ks.GetMany(ctx, []byte("a"), longKey)),
		"Exists":    secondError(ks.Exists(ctx, longKey)),
		"HScanPage": thirdError(ks.HScanPage(ctx, longKey, nil, 1)),
		"a place":   thirdError(ks.HScanPage(ctx, []byte("h"), longKey, 1)),
		"a field":   secondError(ks.HSet(ctx, []byte("h"), Field{Name: longKey})),
		"tx.Get":    db.View(ctx, func(tx *Txn) error { return secondError(tx.Get(ks, longKey)) }),
		"tx.Set":    db.Update(ctx, func(tx *Txn) error { return tx.Set(ks, longKey, nil) }),
	} {
		checkRefused(t, what, err, ErrTooLarge, limit)
	}
	limit = fmt.Sprint(command.MaxValueBytes)
	checkRefused(t, "a value", ks.Set(ctx, []byte("a"), longValue), ErrTooLarge, "value", limit)
	checkRefused(t, "a value of a field", secondError(ks.HSet(ctx, []byte("h"), Field{nil, longValue})), ErrTooLarge, "value", limit)
	err := db.Update(ctx, func(tx *Txn) error {
		for i := range command.MaxTxnKeys + 1 {
			must(t, tx.Set(ks, numberKey(i), nil))
		}
		return nil
	})
	checkRefused(t, "a transaction", err, ErrTooLarge, "transaction", fmt.Sprint(command.MaxTxnKeys))
	// The longest that fit, with every byte escaped.
	must(t, ks.Set(ctx, longKey[1:], longKey))
	if got, err := ks.Get(ctx, longKey[1:]); err != nil || !bytes.Equal(got, longKey) {
		t.Errorf("the longest key: %d bytes, %v", len(got), err)
	}
	if page, err := ks.ScanPage(ctx, ScanOptions{}); err != nil || len(page.Items) != 1 {
		t.Errorf("%d keys, %v: something was stored", len(page.Items), err)
	}
}

func secondError[T any](_ T, err error) error { return err }

func TestAKeyOfAnotherTypeIsRefused(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	text, hash := []byte("text"), []byte("hash")
	must(t, ks.Set(ctx, text, []byte("abc")))
	_, err := ks.HSet(ctx, hash, Field{[]byte("f"), []byte("abc")})
	must(t, err)
	for what, err := range map[string]error{
		"Get":     secondError(ks.Get(ctx, hash)),
		"Item":    secondError(ks.Item(ctx, hash)),
		"Add":     secondError(ks.Add(ctx, hash, 1)),
		"HSet":    secondError(ks.HSet(ctx, text, Field{})),
		"HGet":    secondError(ks.HGet(ctx, text, nil)),
		"HDel":    secondError(ks.HDel(ctx, text, nil)),
		"HAdd":    secondError(ks.HAdd(ctx, text, nil, 1)),
		"HGetAll": secondError(ks.HGetAll(ctx, text)),
		"HLen":    secondError(ks.HLen(ctx, text)),
		"tx.Get":  db.View(ctx, func(tx *Txn) error { return secondError(tx.Get(ks, hash)) }),
	} {
		checkRefused(t, what, err, ErrWrongType, "type", "of keyspace default")
	}
	checkRefused(t, "Add", secondError(ks.Add(ctx, text, 1)), ErrNotInteger)
	checkRefused(t, "HAdd", secondError(ks.HAdd(ctx, hash, []byte("f"), 1)), ErrNotInteger)
	must(t, ks.Set(ctx, text, []byte("9223372036854775807")))
	checkRefused(t, "Add", secondError(ks.Add(ctx, text, 1)), ErrOverflow)
}

func TestBadArgumentsAreRefused(t *testing.T) {
	db, other := openSmall(t, 1), openSmall(t, 1)
	ks := db.Default()
	set := func(o SetOptions) error { return secondError(ks.SetWith(ctx, []byte("a"), nil, o)) }
	scan := func(o ScanOptions) error { return secondError(ks.ScanPage(ctx, o)) }
	for what, err := range map[string]error{
		"two conditions":           set(SetOptions{IfAbsent: true, IfVersion: true}),
		"a negative TTL":           set(SetOptions{TTL: -1}),
		"TTL and KeepTTL":          set(SetOptions{TTL: 1, KeepTTL: true}),
		"a version for nothing":    set(SetOptions{Version: 3}),
		"no fields":                secondError(ks.HSet(ctx, []byte("h"))),
		"a negative limit":         scan(ScanOptions{Limit: -1}),
		"bounds of a hash":         scan(ScanOptions{Start: []byte("a")}),
		"a cursor of elsewhere":    scan(ScanOptions{After: []byte("x")}),
		"a keyspace without name":  secondError(db.CreateKeyspace(ctx, KeyspaceOptions{})),
		"slots of a range":         secondError(db.CreateKeyspace(ctx, KeyspaceOptions{Name: "x", Kind: Range, Slots: 4})),
		"a bad layout":             secondError(db.CreateKeyspace(ctx, KeyspaceOptions{Name: "x", Layout: "((("})),
		"a drop of the default":    db.DropKeyspace(ctx, "default"),
		"a keyspace of another DB": db.Update(ctx, func(tx *Txn) error { return tx.Set(other.Default(), []byte("a"), nil) }),
		"a request in a transaction": db.Update(ctx, func(tx *Txn) error {
			return tx.SetWith(ks, []byte("a"), nil, SetOptions{Request: db.NewRequestID()})
		}),
		"a word": secondError(ParseDurability("sometimes")),
	} {
		checkRefused(t, what, err, ErrOptions)
	}
	rs := rangeSpace(t, db, "range")
	checkRefused(t, "Prefix and Start", secondError(rs.ScanPage(ctx, ScanOptions{Prefix: []byte("a"), Start: []byte("a")})), ErrOptions, "Prefix")
	old := RequestID{1}
	checkRefused(t, "an old request", secondError(ks.AddOnce(ctx, old, []byte("n"), 1)), ErrRequestOld)
}

// A transaction that is kept beyond its function is refused by every method.
func TestATransactionThatIsOverRefuses(t *testing.T) {
	db := openSmall(t, 1)
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
			"Get": secondError(tx.Get(ks, key)), "GetMany": secondError(tx.GetMany(ks, key)), "Item": secondError(tx.Item(ks, key)),
			"Exists": secondError(tx.Exists(ks, key)), "Set": tx.Set(ks, key, nil), "Delete": secondError(tx.Delete(ks, key)),
			"Add": secondError(tx.Add(ks, key, 1)), "Expire": secondError(tx.Expire(ks, key, 1)), "Persist": secondError(tx.Persist(ks, key)),
			"HGet": secondError(tx.HGet(ks, key, nil)), "HGetAll": secondError(tx.HGetAll(ks, key)), "HLen": secondError(tx.HLen(ks, key)),
			"HScanPage": thirdError(tx.HScanPage(ks, key, nil, 1)), "HSet": secondError(tx.HSet(ks, key, Field{})),
			"HDel": secondError(tx.HDel(ks, key, nil)), "HAdd": secondError(tx.HAdd(ks, key, nil, 1)),
		} {
			checkRefused(t, what, err, ErrTxnOver)
		}
		for _, err := range tx.Scan(ks, ScanOptions{}) {
			checkRefused(t, "Scan", err, ErrTxnOver)
		}
	}
	if ok, err := ks.Exists(ctx, key); err != nil || ok {
		t.Errorf("something was written: %v, %v", ok, err)
	}
}

func TestADroppedKeyspaceIsGone(t *testing.T) {
	db := openSmall(t, 1)
	ks := rangeSpace(t, db, "s")
	must(t, ks.Set(ctx, []byte("a"), nil))
	must(t, db.DropKeyspace(ctx, "s"))
	for what, err := range map[string]error{
		"Get":       secondError(ks.Get(ctx, []byte("a"))),
		"Set":       ks.Set(ctx, []byte("a"), nil),
		"ScanPage":  secondError(ks.ScanPage(ctx, ScanOptions{})),
		"HGetAll":   secondError(ks.HGetAll(ctx, []byte("a"))),
		"GetMany":   secondError(ks.GetMany(ctx, []byte("a"))),
		"HScanPage": thirdError(ks.HScanPage(ctx, []byte("a"), nil, 0)),
		"Keyspace":  secondError(db.Keyspace("s")),
		"drop":      db.DropKeyspace(ctx, "s"),
		"tx":        db.Update(ctx, func(tx *Txn) error { return tx.Set(ks, []byte("a"), nil) }),
	} {
		checkRefused(t, what, err, ErrNoKeyspace, `"s"`)
	}
	again := rangeSpace(t, db, "s")
	if _, err := again.Get(ctx, []byte("a")); !errors.Is(err, ErrNotFound) {
		t.Errorf("a new keyspace of that name: %v", err)
	}
}

func TestBadOptionsAreAllReported(t *testing.T) {
	_, err := Open(t.TempDir(), Options{
		Durability: 9, Stores: 65, CacheBytes: 1, BlockCacheBytes: 1, QueueLimit: -1, RequestTTL: time.Millisecond, FeedBytes: -2,
	})
	checkRefused(t, "Open", err, ErrOptions, "Durability", "Stores", "CacheBytes", "BlockCacheBytes", "QueueLimit", "RequestTTL", "FeedBytes")
	_, err = Open("", Options{})
	checkRefused(t, "Open without a directory", err, ErrOptions, "OpenMemory")
}

// A directory that is not ours, or not whole, is refused with what is wrong, and
// one that is not ours is left as it was.
func TestDirectoriesThatAreRefused(t *testing.T) {
	made := func(t *testing.T, stores int) string {
		dir := filepath.Join(t.TempDir(), "db")
		db := onDisk(t, dir, stores)
		for i := range 50 {
			must(t, db.Default().Set(ctx, numberKey(i), make([]byte, 3000)))
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
			before := listFiles(t, dir)
			_, err := Open(dir, Options{Stores: c.stores})
			checkRefused(t, "Open", err, c.want, c.says)
			_, err = Open(dir, Options{Stores: c.stores})
			checkRefused(t, "Open again", err, c.want, c.says)
			if after := listFiles(t, dir); after != before && c.want != ErrCorrupt {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// listFiles names all files but locks.
func listFiles(t *testing.T, dir string) string {
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
	checkRefused(t, "the second", err, ErrLocked, dir)
	must(t, db.Default().Set(ctx, []byte("a"), []byte("1")))
	mustClose(t, db)
	db = onDisk(t, dir, 1)
	defer db.Close()
	if got, err := db.Default().Get(ctx, []byte("a")); err != nil || string(got) != "1" {
		t.Errorf("after that: %q, %v", got, err)
	}
}

func TestAnEndedContextHasNoEffect(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	key := []byte("a")
	for what, err := range map[string]error{
		"Get": secondError(ks.Get(ended, key)), "Item": secondError(ks.Item(ended, key)),
		"Set": ks.Set(ended, key, nil), "Delete": secondError(ks.Delete(ended, key)),
		"Add": secondError(ks.Add(ended, key, 1)), "Expire": secondError(ks.Expire(ended, key, time.Second)),
		"Persist": secondError(ks.Persist(ended, key)), "HSet": secondError(ks.HSet(ended, key, Field{})),
		"HGet": secondError(ks.HGet(ended, key, nil)), "HDel": secondError(ks.HDel(ended, key, nil)),
		"HAdd": secondError(ks.HAdd(ended, key, nil, 1)), "HGetAll": secondError(ks.HGetAll(ended, key)),
		"HLen": secondError(ks.HLen(ended, key)), "GetMany": secondError(ks.GetMany(ended, key)),
		"Exists": secondError(ks.Exists(ended, key)), "HScanPage": thirdError(ks.HScanPage(ended, key, nil, 0)), "ScanPage": secondError(ks.ScanPage(ended, ScanOptions{})),
		"CreateKeyspace": secondError(db.CreateKeyspace(ended, KeyspaceOptions{Name: "s"})),
		"DropKeyspace":   db.DropKeyspace(ended, "s"),
		"Update":         db.Update(ended, func(tx *Txn) error { return tx.Set(ks, key, nil) }),
		"View":           db.View(ended, func(tx *Txn) error { return secondError(tx.Get(ks, key)) }),
	} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v, want context.Canceled alone", what, err)
		}
	}
	for _, err := range db.Feed(ended, FeedOptions{}) {
		checkRefused(t, "Feed", err, context.Canceled)
	}
	if page, err := ks.ScanPage(ctx, ScanOptions{}); err != nil || len(page.Items) > 0 || len(db.Keyspaces()) != 1 {
		t.Errorf("%d keys and %d keyspaces, %v: something happened", len(page.Items), len(db.Keyspaces()), err)
	}
}
