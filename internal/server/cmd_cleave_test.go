package server

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/counter"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

func TestRangesComeInOrderPageByPage(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		if _, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "sorted", Kind: cleave.Range}); err != nil {
			t.Fatal(err)
		}
		c := l.dial()
		c.runScript(`
			SELECT sorted -> OK
			MSET a 1 b 2 c 3 ca 4 d 5 -> OK
			HSET h f v -> (1)
			CLEAVE.RANGE - + -> [0 [a b c ca d h]]
			CLEAVE.RANGE [b (d -> [0 [b c ca]]
			CLEAVE.RANGE (b [d -> [0 [c ca d]]
			CLEAVE.RANGE - + PREFIX c -> [0 [c ca]]
			CLEAVE.RANGE [d [a -> [0 []]
			CLEAVE.RANGE a + -> -ERR min or max not valid string range item
			CLEAVE.RANGE - - -> -ERR min or max not valid string range item
			CLEAVE.RANGE - + LIMIT 0 -> -ERR LIMIT is not a number from 1 on
			CLEAVE.RANGE - + CURSOR x -> -ERR invalid cursor*
			CLEAVE.RANGE - + SIDEWAYS -> -ERR syntax error
			CLEAVE.RANGE [a + PREFIX c -> -ERR PREFIX goes with the bounds - and + alone
			CLEAVE.RANGE - (d PREFIX c -> -ERR PREFIX goes with the bounds - and + alone
			CLEAVE.RANGE - -> -ERR wrong number of arguments for 'cleave.range' command
			ACL SETUSER reader on nopass ~c* +@all -> OK
			AUTH reader x -> OK
			CLEAVE.RANGE - + WITHVALUES -> [0 [c 3 ca 4]]
			CLEAVE.EXPLAIN a -> -NOPERM*
			AUTH default x -> OK
			SELECT 0 -> OK
			MSET x 1 y 2 z 3 -> OK
			CLEAVE.RANGE [a + -> -ERR *
		`)
		if got := c.ask("CLEAVE.RANGE [a +"); !strings.Contains(got, "kind hash") {
			t.Error(got)
		}
		c.runScript("SELECT sorted -> OK")
		page := func(request string) (cursor, items string) {
			cursor, items, _ = strings.Cut(strings.Trim(c.ask(request), "[]"), " ")
			return cursor, strings.TrimPrefix(items, "[")
		}
		next, items := page("CLEAVE.RANGE - + REV LIMIT 2")
		_, more := page("CLEAVE.RANGE - + LIMIT 2 REV CURSOR " + next)
		if items != "h d" || more != "ca c" {
			t.Errorf("two pages in reverse: %s, %s", items, more)
		}
		next, items = page("CLEAVE.RANGE - + LIMIT 2 WITHVALUES CURSOR 0")
		last, more := page("CLEAVE.RANGE - + LIMIT 9 WITHVALUES CURSOR " + next)
		if items != "a 1 b 2" || more != "c 3 ca 4 d 5 h (nil)" || last != "0" {
			t.Errorf("two pages: %s, %s, and cursor %s", items, more, last)
		}
		c.runScript("SELECT 0 -> OK")
		// A keyspace of kind hash is visited whole, in an order of its own.
		seen, cursor := map[string]bool{}, "0"
		for range 3 {
			got := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(c.ask("CLEAVE.RANGE - + LIMIT 1 CURSOR " + cursor)))
			if len(got) != 2 {
				t.Fatal(got)
			}
			cursor = got[0]
			seen[got[1]] = true
		}
		if len(seen) != 3 || cursor != "0" {
			t.Errorf("three pages of one key: %v, then cursor %s", seen, cursor)
		}
	})
}

func TestExplainAndShardsSayWhereAKeyIs(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript("SET k value EX 100 -> OK\nHSET h a 1 b 2 -> (2)")
		at := l.db.Default().Locate([]byte("k"))
		got := c.ask("CLEAVE.EXPLAIN k")
		want := fmt.Sprintf("[keyspace default kind hash slot (%d) shard (%d) group (%d) store (%d) map-version", at.Slot, at.Shard, at.Group, at.Store)
		if !strings.HasPrefix(got, want) || !strings.Contains(got, "type string bytes (5) version (") || strings.Contains(got, "expires-ms (0)") {
			t.Errorf("%s, want %s", got, want)
		}
		if got := c.ask("CLEAVE.EXPLAIN h"); !strings.Contains(got, "type hash fields (2)") || !strings.Contains(got, "expires-ms (0)") {
			t.Error(got)
		}
		if got := c.ask("CLEAVE.EXPLAIN nothing"); !strings.HasSuffix(got, "type none]") {
			t.Error(got)
		}
		c.runScript("FLUSHALL -> OK")
		if got := c.ask("CLEAVE.EXPLAIN h"); !strings.HasSuffix(got, "type none]") {
			t.Error(got)
		}
		shards, err := l.db.Shards(ctx)
		if err != nil {
			t.Fatal(err)
		}
		all, of := c.ask("CLEAVE.SHARDS"), c.ask("CLEAVE.SHARDS default")
		if n := strings.Count(all, "[shard ("); n != len(shards) {
			t.Errorf("%d shards of %d: %s", n, len(shards), all)
		}
		if !strings.Contains(all, fmt.Sprintf("shard (%d) keyspace default slots ", at.Shard)) || strings.Count(of, "keyspace default") != strings.Count(of, "[shard (") {
			t.Errorf("%s, %s", all, of)
		}
		c.runScript("CLEAVE.SHARDS nosuch -> -ERR no such keyspace*\nCLEAVE.SHARDS a b -> -ERR wrong number of arguments for 'cleave.shards' command")
	})
}

// Clients and programs that embed the store count together.
func TestCountersAreThoseOfThePackage(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		mine, err := counter.Open(l.db, l.db.Default(), counter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer mine.Close()
		c := l.dial()
		c.runScript(`
			CLEAVE.COUNTER SUM likes -> (0)
			CLEAVE.COUNTER ADD likes 5 -> OK
			CLEAVE.COUNTER ADD likes -2 -> OK
		`)
		if err := mine.Resize(ctx, "likes", 8); err != nil {
			t.Fatal(err)
		}
		if err := mine.Add(ctx, "likes", 10); err != nil {
			t.Fatal(err)
		}
		c.runScript("CLEAVE.COUNTER ADD likes 100 -> OK\nCLEAVE.COUNTER SUM likes -> (113)\nCLEAVE.COUNTER SUM likes MAXAGE 0 -> (113)")
		if sum, err := mine.Sum(ctx, "likes"); sum != 113 || err != nil {
			t.Errorf("the program sees %d, %v", sum, err)
		}
		c.runScript(`
			CLEAVE.COUNTER ADD likes x -> -ERR value is not an integer or out of range
			CLEAVE.COUNTER ADD likes -> -ERR wrong number of arguments for 'cleave.counter|add' command
			CLEAVE.COUNTER SUM likes MAXAGE soon -> -ERR syntax error
			CLEAVE.COUNTER NOSUCH -> -ERR unknown subcommand 'NOSUCH'. Try CLEAVE.COUNTER HELP.
			CLEAVE.COUNTER ADD full 9223372036854775807 -> OK
			CLEAVE.COUNTER ADD full 1 -> -ERR increment or decrement would overflow
			MULTI -> OK
			CLEAVE.COUNTER ADD likes 1 -> -ERR Command not allowed inside a transaction
			DISCARD -> OK
			ACL SETUSER fan on nopass ~likes +@all -> OK
			AUTH fan x -> OK
			CLEAVE.COUNTER ADD likes 1 -> OK
			CLEAVE.COUNTER ADD other 1 -> -NOPERM*
			AUTH default x -> OK
		`)
		if _, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "sorted", Kind: cleave.Range}); err != nil {
			t.Fatal(err)
		}
		c.runScript("SELECT sorted -> OK\nCLEAVE.COUNTER ADD likes 1 -> OK\nCLEAVE.COUNTER SUM likes -> (1)\nSELECT 0 -> OK\nCLEAVE.COUNTER SUM likes -> (114)")
	})
}

// The counters of a keyspace that was emptied begin anew.
func TestCountersOutliveFLUSHALL(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	c := l.dial()
	c.runScript("CLEAVE.COUNTER ADD n 5 -> OK")
	for i := range maxClearedKeys + 1 {
		c.send(fmt.Sprintf("SET k%d v", i))
	}
	for range maxClearedKeys + 1 {
		c.readReply()
	}
	c.runScript("FLUSHALL -> OK\nCLEAVE.COUNTER SUM n -> (0)\nCLEAVE.COUNTER ADD n 1 -> OK\nCLEAVE.COUNTER SUM n -> (1)")
}

func TestClientsMakeAndUseIndexes(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript(`
			HSET u1 country de age 40 name Ann -> (3)
			HSET u2 country de age 9 name Bob -> (3)
			HSET u3 country fr age 30 name Cam -> (3)
			SET plain x -> OK
			CLEAVE.INDEX LIST -> []
			CLEAVE.INDEX CREATE people COLUMNS country,age:int STORED 1 name -> OK
			CLEAVE.INDEX CREATE people COLUMNS country -> -ERR *
			CLEAVE.INDEX CREATE broken COLUMNS age:nosuch -> -ERR *
			CLEAVE.INDEX CREATE broken UNIQUE ASYNC -> -ERR an index needs COLUMNS*
			CLEAVE.INDEX CREATE broken COLUMNS a UNIQUE ASYNC -> -ERR *
			CLEAVE.INDEX CREATE broken COLUMNS a STORED 2 b -> -ERR the number in front of a list*
			CLEAVE.INDEX LIST -> [people]
		`)
		ix, err := l.db.Index("default", "people")
		if err == nil {
			err = ix.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.runScript(`
			HSET u4 country de age 50 name Dee -> (3)
			CLEAVE.INDEX SCAN people -> [0 [[u2 [de (9)] [name Bob]] [u1 [de (40)] [name Ann]] [u4 [de (50)] [name Dee]] [u3 [fr (30)] [name Cam]]]]
			HSET u9 country de age old -> -ERR an index refuses the row*
			CLEAVE.INDEX SCAN people PREFIX 1 fr -> [0 [[u3 [fr (30)] [name Cam]]]]
			CLEAVE.INDEX SCAN people FROM 2 de 40 TO 1 fr REV -> [0 [[u4 [de (50)] [name Dee]] [u1 [de (40)] [name Ann]]]]
			CLEAVE.INDEX GET people de -> [u2 [de (9)] [name Bob]]
			CLEAVE.INDEX GET people de 40 -> [u1 [de (40)] [name Ann]]
			CLEAVE.INDEX GET people it -> (nil)
			CLEAVE.INDEX GET people de old -> -ERR *
			CLEAVE.INDEX GET people de 40 more -> -ERR *
			CLEAVE.INDEX GET nosuch de -> -ERR *
			CLEAVE.INDEX SCAN people CURSOR xyz -> -ERR invalid cursor*
			HSET u5 country de age old -> -ERR *
			EXISTS u5 -> (0)
			DEL u2 -> (1)
			CLEAVE.INDEX GET people de -> [u1 [de (40)] [name Ann]]
			CLEAVE.INDEX INFO people -> [name people keyspace default mode transactional unique no columns (country, age:int) stored ["name"] ready yes*
			CLEAVE.INDEX INFO nosuch -> -ERR *
			SELECT index/default/people -> -ERR the keyspace has the entries of an index*
			MULTI -> OK
			SELECT index/default/people -> QUEUED
			SET x 1 -> QUEUED
			EXEC -> [-ERR the keyspace has the entries of an index: see CLEAVE.INDEX SCAN OK]
			DEL x -> (1)
			ACL SETUSER reader on nopass ~u3 +@all -> OK
			AUTH reader x -> OK
			CLEAVE.INDEX SCAN people -> [0 [[u3 [fr (30)] [name Cam]]]]
			CLEAVE.INDEX GET people de -> (nil)
			AUTH default x -> OK
		`)
		first := c.ask("CLEAVE.INDEX SCAN people LIMIT 1")
		cursor, _, _ := strings.Cut(strings.TrimPrefix(first, "["), " ")
		if got := c.ask("CLEAVE.INDEX SCAN people LIMIT 1 CURSOR " + cursor); !strings.HasSuffix(got, "[[u4 [de (50)] [name Dee]]]]") {
			t.Errorf("the second page after %s is %s", first, got)
		}
		c.runScript("CLEAVE.INDEX DROP people -> OK\nCLEAVE.INDEX DROP people -> -ERR *\nCLEAVE.INDEX LIST -> []\nHSET u5 country de age old -> (2)")
	})
}

func TestCommandsOfOurOwnAreDescribedAsThoseOfAModule(t *testing.T) {
	l := startServer(t, shapes[0], Options{})
	c := l.dial()
	c.runScript(`
		MODULE LIST -> [[name cleave ver (10000) path ]]
		COMMAND DOCS cleave.range -> [cleave.range [summary Returns keys in order, and where to go on. since 1.0.0 group module module cleave*
		COMMAND GETKEYS CLEAVE.COUNTER ADD likes 1 -> [likes]
		COMMAND INFO cleave.explain -> [[cleave.explain (2) [readonly noscript] (1) (1) (1) [@keyspace @read @slow]*
		ACL SETUSER u on nopass ~* -@all +cleave.counter -> OK
		ACL DRYRUN u CLEAVE.COUNTER ADD a 1 -> OK
		ACL DRYRUN u CLEAVE.INDEX LIST -> This user has no permissions to run the 'cleave.index|list' command
	`)
}

// What the store says to programs is said in the words of the commands.
func TestAnIndexThatIsBeingBuiltSaysWhereToLook(t *testing.T) {
	err := clientError(fmt.Errorf("%w: \"people\" of keyspace \"default\": use Wait", cleave.ErrIndexBuilding))
	if got := err.Error(); !strings.HasPrefix(got, "ERR the index is being built: ") || !strings.HasSuffix(got, ": CLEAVE.INDEX INFO says when it is ready") {
		t.Error(got)
	}
}

// A copy to another keyspace is refused, rather than made in the wrong one.
func TestACopyStaysInItsKeyspace(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		if _, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "9"}); err != nil {
			t.Fatal(err)
		}
		l.dial().runScript(`
			SET a 1 -> OK
			COPY a b DB 0 -> (1)
			COPY a c DB default -> (1)
			COPY a d DB 9 -> -ERR DB index is out of range
			SELECT 9 -> OK
			SET a 2 -> OK
			COPY a b DB 9 -> (1)
			COPY a c DB 0 -> -ERR DB index is out of range
			COPY a a DB 0 -> -ERR DB index is out of range
			COPY a c DB other -> -ERR value is not an integer or out of range
			MGET a b c -> [2 2 (nil)]
		`)
	})
}

// A request that is refused has changed nothing, also if it is refused behind its first write.
func TestARequestThatIsRefusedChangesNothing(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.sendWords("RESTORE", "other", "0", dumpOf("f", "v", strings.Repeat("x", command.MaxKeyBytes), "v"))
		if got := c.readReply(); got != "OK" {
			t.Errorf("a dump: %s", got)
		}
		bad := dumpOf("f", "v", strings.Repeat("x", command.MaxKeyBytes+1), "v")
		c.runScript("SET dest precious -> OK")
		c.sendWords("RESTORE", "dest", "0", bad, "REPLACE")
		if got := c.readReply(); !resp.IsError([]byte(got)) {
			t.Errorf("a field that is too long: %s", got)
		}
		c.runScript(`
			GET dest -> precious
			MULTI -> OK
			SET a 1 -> QUEUED
		`)
		c.sendWords("RESTORE", "dest", "0", bad, "REPLACE")
		if got := c.readReply(); got != "QUEUED" {
			t.Error(got)
		}
		c.runScript(`
			APPEND dest ! -> QUEUED
			SET b 2 -> QUEUED
			EXEC -> [OK -ERR too large*
			MGET a b dest -> [1 2 precious!]
		`)
	})
}

// A transaction has as many keys as it may have, each counted once, wherever they are.
func TestMSETTakesAsManyKeysAsATransaction(t *testing.T) {
	for _, sh := range shapes[tally.Size(0, 1):2] {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			c := startServer(t, sh, Options{}).dial()
			words := []string{"MSET"}
			for i := range command.MaxTxnKeys {
				words = append(words, strconv.Itoa(i), "v")
			}
			c.sendWords(words...)
			c.expectReplies("OK")
			c.runScript(fmt.Sprintf("DBSIZE -> (%d)", command.MaxTxnKeys))
			c.sendWords(append(words, "more", "v")...)
			c.expectReplies(fmt.Sprintf("-ERR too large: %d keys in a transaction, at most %d: split it up", command.MaxTxnKeys+1, command.MaxTxnKeys))
		})
	}
}

// dumpOf is what DUMP answers for a hash of fields and values.
func dumpOf(parts ...string) string {
	out := []byte{0xC1, byte(command.Hash)}
	for _, p := range parts {
		out = append(binary.AppendUvarint(out, uint64(len(p))), p...)
	}
	return string(binary.LittleEndian.AppendUint64(out, xxhash.Sum64(out)))
}

// A cursor reveals nothing about the row that it is behind, which the user may not be allowed to read; it is good
// for what it was made for alone, also after a restart, and for any user that presents it.
func TestCursor_OfARowThatMayNotBeRead_RevealsNothing(t *testing.T) {
	dir := t.TempDir()
	run := func(test func(l *testServer, c *testConn)) {
		db := openDB(t, dir, cleave.Options{Stores: 1, Groups: 2})
		l, done := serveOn(t, db, shapes[1], Options{Dir: dir})
		test(l, l.dial())
		l.s.Close()
		<-done
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	pageOf := func(c *testConn, request string) (cursor, items string) {
		cursor, items, _ = strings.Cut(strings.Trim(c.ask(request), "[]"), " ")
		return cursor, strings.Trim(items, "[]")
	}
	plain := func(cursor string) string {
		raw, _ := base64.RawURLEncoding.DecodeString(cursor)
		text, _ := hex.DecodeString(cursor)
		return cursor + string(raw) + string(text)
	}
	var ranged, indexed string
	run(func(l *testServer, c *testConn) {
		for _, name := range []string{"sorted", "other"} {
			if _, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: name, Kind: cleave.Range}); err != nil {
				t.Fatal(err)
			}
		}
		c.runScript("SELECT sorted -> OK\nCLEAVE.INDEX CREATE people COLUMNS name -> OK\nCLEAVE.INDEX CREATE second COLUMNS name -> OK")
		c.runScript("HSET a name Ann -> (1)\nHSET secret1 name Hidden -> (1)\nHSET z name Zoe -> (1)")
		c.runScript("ACL SETUSER u on nopass ~a ~z +@all -> OK\nAUTH u x -> OK")
		waitUntil(t, "the indexes", func() bool {
			return strings.Contains(c.ask("CLEAVE.INDEX INFO people")+c.ask("CLEAVE.INDEX INFO second"), "ready yes")
		})
		ranged, _ = pageOf(c, "CLEAVE.RANGE - + LIMIT 2")
		indexed, _ = pageOf(c, "CLEAVE.INDEX SCAN people LIMIT 2")
		if text := plain(ranged) + plain(indexed); strings.Contains(text, "secret") || strings.Contains(text, "Hidden") || len(ranged) < 32 {
			t.Errorf("the cursors %s and %s reveal the row", ranged, indexed)
		}
		for _, request := range []string{
			"CLEAVE.RANGE - + REV CURSOR " + ranged, "CLEAVE.RANGE - + CURSOR " + indexed, "CLEAVE.INDEX SCAN people CURSOR " + ranged,
			"CLEAVE.INDEX SCAN second CURSOR " + indexed, "CLEAVE.INDEX SCAN people REV CURSOR " + indexed,
			"CLEAVE.RANGE - + CURSOR AAAA" + ranged[4:], "CLEAVE.RANGE - + CURSOR 61", "CLEAVE.RANGE - + CURSOR " + ranged[:20],
		} {
			if got := c.ask(request); !strings.HasPrefix(got, "-ERR invalid cursor") {
				t.Errorf("%s: %s", request, got)
			}
		}
		c.runScript("SELECT other -> OK\nCLEAVE.RANGE - + CURSOR " + ranged + " -> -ERR invalid cursor*")
		c.runScript("SELECT sorted -> OK\nAUTH default x -> OK") // another user goes on
		if next, items := pageOf(c, "CLEAVE.RANGE - + CURSOR "+ranged); next != "0" || items != "z" {
			t.Errorf("%s, and cursor %s", items, next)
		}
	})
	run(func(l *testServer, c *testConn) {
		c.runScript("SELECT sorted -> OK")
		if next, items := pageOf(c, "CLEAVE.RANGE - + CURSOR "+ranged); next != "0" || items != "z" {
			t.Errorf("after a restart: %s, and cursor %s", items, next)
		}
		if next, items := pageOf(c, "CLEAVE.INDEX SCAN people CURSOR "+indexed); next != "0" || !strings.HasPrefix(items, "z") {
			t.Errorf("after a restart: %s, and cursor %s", items, next)
		}
	})
	key := filepath.Join(dir, cursorKeyFile)
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for _, damage := range []func() error{func() error { return os.WriteFile(key, []byte("damaged"), 0o600) }, func() error { return os.Remove(key) }} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		run(func(l *testServer, c *testConn) {
			c.runScript("SELECT sorted -> OK\nCLEAVE.RANGE - + CURSOR " + ranged + " -> -ERR invalid cursor*\nCLEAVE.RANGE - + -> [0 [a secret1 z]]")
		})
	}
}

// A user that must not read a row does not see its key or its values because another one has the same entry.
func TestUniqueError_NamesNoOtherRow(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	c := l.dial()
	c.runScript("CLEAVE.INDEX CREATE mails COLUMNS mail UNIQUE -> OK\nHSET secret1 mail a@b -> (1)")
	c.runScript("ACL SETUSER u on nopass ~mine +@all -> OK\nAUTH u x -> OK")
	waitUntil(t, "the index", func() bool { return strings.Contains(c.ask("CLEAVE.INDEX INFO mails"), "ready yes") })
	c.runScript(`HSET mine mail a@b -> -ERR another row has the same entry in a unique index: index "mails" of keyspace "default"
		MULTI -> OK
		HSET mine mail a@b -> QUEUED
		EXEC -> -ERR another row has the same entry in a unique index: index "mails" of keyspace "default"
		EXISTS mine -> (0)
	`)
}
