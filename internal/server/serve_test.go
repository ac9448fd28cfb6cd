package server

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/server/redis"
)

func TestEveryCommandAtTheEdgeIsAnsweredAndNoOther(t *testing.T) {
	mine := HandledCommands()
	for _, s := range redis.AllSpecs() {
		at := s.Flags&redis.ServerCommand != 0
		if at && !mine[s.Name] {
			t.Errorf("%s is described and not answered", s.Name)
		}
		if !at && mine[s.Name] {
			t.Errorf("%s is answered by the connection, and is not described so", s.Name)
		}
		delete(mine, s.Name)
	}
	for name := range mine {
		t.Errorf("%s is answered and not described", name)
	}
}

func TestCommandsDoWhatRedisDoes(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript(`
			PING -> PONG
			SET a 1 -> OK
			GET a -> 1
			GET nothing -> (nil)
			INCR a -> (2)
			MSET a 1 b 2 c 3 d 4 e 5 -> OK
			MGET a b c d e f -> [1 2 3 4 5 (nil)]
			MSETNX f 1 a 2 -> (0)
			EXISTS a b c d e f a -> (6)
			DEL a b zz -> (2)
			HSET h x 1 y 2 -> (2)
			HGETALL h -> [x 1 y 2]
			GET h -> -WRONGTYPE*
			RENAME h g -> OK
			RENAME h g -> -ERR no such key
			TYPE g -> hash
			COPY g g2 -> (1)
			HGET g2 y -> 2
			DBSIZE -> (5)
			SET n abc -> OK
			INCR n -> -ERR value is not an integer or out of range
			APPEND n def -> (6)
			GETRANGE n 1 3 -> bcd
			SET n v EX 100 -> OK
			TTL n -> (100)
			PERSIST n -> (1)
			TTL n -> (-1)
			NOSUCH x -> -ERR unknown command 'NOSUCH', with args beginning with: 'x'*
			GET -> -ERR wrong number of arguments for 'get' command
			FLUSHALL -> OK
			DBSIZE -> (0)
		`)
	})
}

func TestAMultiIsAtomicWhereverItsKeysAre(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c, other := l.dial(), l.dial()
		c.runScript(`
			MULTI -> OK
			SET a 1 -> QUEUED
			MULTI -> -ERR MULTI calls can not be nested
			INCR b -> QUEUED
			GET a -> QUEUED
			LPUSHX -> -ERR unknown command 'LPUSHX': Cleave has no lists yet, see docs/redis.md
			EXEC -> -EXECABORT Transaction discarded because of previous errors.
			GET a -> (nil)
			EXEC -> -ERR EXEC without MULTI
			MULTI -> OK
			SET a x -> QUEUED
			INCR a -> QUEUED
			INCR b -> QUEUED
			PING -> QUEUED
			GET a -> QUEUED
			EXEC -> [OK -ERR value is not an integer or out of range (1) PONG x]
			WATCH a zz -> OK
			MULTI -> OK
			SET a y -> QUEUED
			EXEC -> [OK]
			WATCH a zz -> OK
		`)
		other.runScript(`SET zz 1 -> OK`)
		c.runScript(`
			MULTI -> OK
			SET a z -> QUEUED
			EXEC -> (nil)
			GET a -> y
			WATCH zz -> OK
			UNWATCH -> OK
			MULTI -> OK
			DISCARD -> OK
			WATCH a -> OK
		`)
		other.runScript(`FLUSHALL -> OK`)
		c.runScript(`
			MULTI -> OK
			EXEC -> (nil)
			MULTI -> OK
			EXEC -> []
		`)
	})
}

// Transfers between keys of many groups keep their sum, in every MGET, while shards move.
func TestMultiAndMGETAreOfOneMomentWhileShardsMove(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		const accounts, each = 8, 100
		first := l.dial()
		all := "MGET"
		for i := range accounts {
			first.runScript(fmt.Sprintf("SET acc%d %d -> OK", i, each))
			all += fmt.Sprintf(" acc%d", i)
		}
		var wg sync.WaitGroup
		for w := range 3 {
			c := l.dial()
			wg.Go(func() {
				for i := range 60 {
					from, to := (w+i)%accounts, (w+3*i+1)%accounts
					c.send("MULTI")
					c.send(fmt.Sprintf("DECRBY acc%d 5", from))
					c.send(fmt.Sprintf("INCRBY acc%d 5", to))
					c.send("EXEC")
					for range 3 {
						c.readReply()
					}
					if got := c.readReply(); strings.Contains(got, "-") && !strings.Contains(got, "(-") {
						t.Errorf("EXEC: %s", got)
					}
				}
			})
		}
		reader := l.dial()
		wg.Go(func() {
			for range 60 {
				sum := 0
				for _, n := range strings.Fields(strings.Trim(reader.ask(all), "[]")) {
					var v int
					fmt.Sscan(n, &v)
					sum += v
				}
				if sum != accounts*each {
					t.Errorf("the sum is %d", sum)
				}
			}
		})
		moveAll(t, l.db)
		wg.Wait()
	})
}

// Requests that one group executes as one meet keys that a transaction over several stores
// is not done with, and ranges that go elsewhere: they wait, and no client notices.
func TestAUnitOfOneGroupMeetsTransactionsAndMoves(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		var wg sync.WaitGroup
		stop := make(chan struct{})
		wide := l.dial()
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := wide.ask("MSET {a}1 x {b}1 x {c}1 x {d}1 x {e}1 x {f}1 x"); got != "OK" {
					t.Errorf("MSET: %s", got)
				}
			}
		})
		var clients sync.WaitGroup
		for _, tag := range []string{"a", "b", "c", "d"} {
			c := l.dial()
			clients.Go(func() {
				for i := range 150 {
					c.send("WATCH {" + tag + "}w")
					c.send("MULTI")
					c.send("SET {" + tag + "}1 y")
					c.send("INCR {" + tag + "}n")
					c.send("GET {" + tag + "}1")
					c.send("EXEC")
					for range 5 {
						c.readReply()
					}
					if got, want := c.readReply(), fmt.Sprintf("[OK (%d) y]", i+1); got != want {
						t.Errorf("EXEC: %s, want %s", got, want)
					}
				}
			})
		}
		moveAll(t, l.db)
		clients.Wait()
		close(stop)
		wg.Wait()
	})
}

// moveAll moves some shards of the default keyspace to another group.
func moveAll(t *testing.T, db *cleave.DB) {
	groups := db.Groups()
	if len(groups) == 1 {
		return
	}
	shards, err := db.Shards(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	moved := 0
	for i, s := range shards {
		to := groups[i%len(groups)].ID
		if s.Group == to || moved == 4 {
			continue
		}
		moved++
		job, err := db.Start(ctx, cleave.Move{Shard: s.ID, To: to})
		if err == nil {
			_, err = job.Wait(ctx)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// A client that sends many requests at once gets its answers in their order.
func TestPipelinesKeepTheirOrder(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		const n = 500
		for i := range n {
			c.send(fmt.Sprintf("SET k%d %d", i%7, i))
			c.send(fmt.Sprintf("GET k%d", i%7))
			if i%50 == 0 {
				c.send("MGET k0 k1 k2 k3 k4 k5 k6")
				c.send("WATCH k1")
				c.send("PING")
			}
		}
		for i := range n {
			if got := c.readReply(); got != "OK" {
				t.Fatalf("SET %d: %s", i, got)
			}
			if got := c.readReply(); got != fmt.Sprint(i) {
				t.Fatalf("GET %d: %s", i, got)
			}
			if i%50 == 0 {
				if got := c.readReply(); got[0] != '[' {
					t.Fatalf("MGET: %s", got)
				}
				if got := c.readReply() + c.readReply(); got != "OKPONG" {
					t.Fatal(got)
				}
			}
		}
	})
}

// Each request of a pipeline is executed with its own arguments, whichever way it goes and
// in whichever form it is sent.
func TestRequestsOfAPipelineKeepTheirArguments(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		const n = 40
		text := ""
		for i := range n {
			text += fmt.Sprintf("SET line%d value-of-line-%d\r\n", i, i) // in a line, as a person types it
		}
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			c.send(fmt.Sprintf("MSET one%d %d", i, i))
			c.send(fmt.Sprintf("MSET {t%d}a %d {t%d}b x", i, i, i))
			c.send(fmt.Sprintf("SETEX life%d 100 %d", i, i))
		}
		for i := range 4 * n {
			if got := c.readReply(); got != "OK" {
				t.Fatalf("request %d: %s", i, got)
			}
		}
		for i := range n {
			c.send(fmt.Sprintf("GET line%d", i))
			c.send(fmt.Sprintf("MGET one%d {t%d}a {t%d}b life%d", i, i, i, i))
			c.send(fmt.Sprintf("EXISTS one%d none%d", i, i))
		}
		for i := range n {
			got := c.readReply() + c.readReply() + c.readReply()
			if want := fmt.Sprintf("value-of-line-%d[%d %d x %d](1)", i, i, i, i); got != want {
				t.Fatalf("%d: %s, want %s", i, got, want)
			}
		}
	})
}

func TestMessagesReachThoseWhoListen(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		a, b := l.dial(), l.dial()
		a.runScript(`
			SUBSCRIBE news -> [subscribe news (1)]
			PSUBSCRIBE n* -> [psubscribe n* (2)]
			GET x -> -ERR Can't execute 'get'*
			PING -> [pong ]
		`)
		b.runScript(`
			PUBLISH news hello -> (2)
			PUBLISH nix there -> (1)
			PUBLISH other x -> (0)
			PUBSUB NUMSUB news -> [news (1)]
			SPUBLISH news x -> (0)
		`)
		for _, want := range []string{"[message news hello]", "[pmessage n* news hello]", "[pmessage n* nix there]"} {
			if got := a.readReply(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		a.runScript(`
			UNSUBSCRIBE -> [unsubscribe news (1)]
			PUNSUBSCRIBE -> [punsubscribe n* (0)]
			GET x -> (nil)
		`)
		if got := b.ask("PUBLISH news again"); got != "(0)" {
			t.Errorf("somebody still listens: %s", got)
		}
	})
}

// SCAN finds every key that is there all the time, in spaces with many keys in one slot
// too, while shards move and others come and go.
func TestSCANFindsEveryKey(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c, other := l.dial(), l.dial()
		want := map[string]bool{}
		for i := range 300 {
			for _, key := range []string{fmt.Sprintf("k%d", i), fmt.Sprintf("{tag}%d", i)} {
				want[key] = true
				c.runScript("SET " + key + " v -> OK")
			}
		}
		cursor, pages := "0", 0
		for {
			got := strings.Fields(strings.Trim(c.ask("SCAN "+cursor+" COUNT 20"), "[]"))
			cursor = got[0]
			for _, key := range got[1:] {
				delete(want, strings.Trim(key, "[]"))
			}
			if pages++; pages == 5 {
				moveAll(t, l.db)
			}
			other.ask(fmt.Sprintf("SET other%d x", pages))
			other.ask(fmt.Sprintf("DEL other%d", pages-3))
			if cursor == "0" {
				break
			}
		}
		if len(want) > 0 {
			t.Errorf("%d keys were not found in %d pages, such as %v", len(want), pages, want)
		}
	})
}

// A large keyspace is empty at one moment, and its clients go on.
func TestFLUSHALLEmptiesALargeKeyspaceUnderThoseWhoUseIt(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c, busy := l.dial(), l.dial()
		for i := range maxClearedKeys + 500 {
			c.send(fmt.Sprintf("SET k%d v", i))
		}
		for range maxClearedKeys + 500 {
			c.readReply()
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if got := busy.ask(fmt.Sprintf("SET busy%d v", i%10)); got != "OK" {
					t.Errorf("SET: %s", got)
					return
				}
				if got := busy.ask("GET k17"); got != "v" && got != "(nil)" && got != "new" {
					t.Errorf("GET: %s", got)
				}
			}
		})
		c.runScript("FLUSHALL -> OK\nGET k17 -> (nil)\nSET k17 new -> OK\nGET k17 -> new")
		close(stop)
		wg.Wait()
		c.runScript("FLUSHDB -> OK\nDBSIZE -> (0)")
	})
}

func TestUsersMayDoWhatTheirRulesSay(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		admin := l.dial()
		admin.runScript(`
			AUTH x -> -ERR AUTH <password> called without any password*
			ACL WHOAMI -> default
			ACL SETUSER app on >secret ~app:* &news +@all -@dangerous -hset -> OK
			ACL SETUSER app +nosuch -> -ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL
			ACL USERS -> [app default]
			ACL DRYRUN app GET app:1 -> OK
			ACL DRYRUN app GET x -> This user has no permissions to access the 'x' key
			CONFIG SET requirepass boss -> OK
		`)
		c := l.dial()
		c.runScript(`
			GET app:1 -> -NOAUTH Authentication required.
			HELLO 3 -> -NOAUTH HELLO must be called*
			AUTH wrong -> -WRONGPASS*
			AUTH app wrong -> -WRONGPASS*
			AUTH app secret -> OK
			ACL WHOAMI -> app
			SET app:1 v -> OK
			GET app:1 -> v
			GET other -> -NOPERM this user has no permissions to access one of the keys used as arguments
			MGET app:1 other -> -NOPERM*
			HSET app:h f v -> -NOPERM this user has no permissions to run the 'hset' command
			KEYS * -> -NOPERM*
			SUBSCRIBE x -> -NOPERM this user has no permissions to access one of the channels used as arguments
			PUBLISH news hi -> (0)
			MULTI -> OK
			GET other -> -NOPERM*
			EXEC -> -EXECABORT*
		`)
		admin.runScript(`ACL SETUSER app +hset -> OK`)
		c.runScript(`
			HSET app:h f v -> (1)
			RESET -> RESET
			GET app:1 -> -NOAUTH*
			HELLO 3 AUTH default boss -> [server redis*
			GET app:1 -> v
		`)
		c.runScript(`AUTH app secret -> OK`)
		admin.runScript(`
			ACL DELUSER default -> -ERR The 'default' user cannot be removed
			ACL DELUSER app -> (1)
		`)
		if _, err := c.in.ReadByte(); err == nil {
			t.Error("the connection of a user who was removed is open")
		}
		if got := admin.ask("ACL LOG"); !strings.Contains(got, "username app") {
			t.Errorf("ACL LOG: %s", got)
		}
	})
}

func TestABrowserIsNotServed(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\n\r\nSET a b\r\n", "Host: x\r\nSET a b\r\n"} {
			c := l.dial()
			if _, err := c.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if b, err := c.in.ReadByte(); err == nil {
				t.Errorf("%q is answered: %q", text, b)
			}
		}
		l.dial().runScript("GET a -> (nil)")
	})
}

// Before a client has authenticated, it cannot make the server keep much.
func TestStrangersMaySendLittle(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		l.dial().runScript("CONFIG SET requirepass boss -> OK")
		for text, want := range map[string]string{
			"*11\r\n":            "unauthenticated multibulk length",
			"*1\r\n$20000\r\n":   "unauthenticated bulk length",
			"*1000000000000\r\n": "invalid multibulk length",
			"*1\r\n$-5\r\n":      "invalid bulk length",
			"*1\r\n@\r\n":        "expected '$', got '@'",
		} {
			c := l.dial()
			if _, err := c.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if got := c.readReply(); !strings.Contains(got, want) {
				t.Errorf("%q: %s", text, got)
			}
		}
	})
}

// A tracking client gets every change of what it has read, whatever its origin, once, and behind its
// answer.
func TestWhoTracksHearsWhatHasChanged(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c, other := l.dial(), l.dial()
		c.runScript(`
			HELLO 3 -> [server*
			CLIENT TRACKING ON NOLOOP -> -ERR NOLOOP*
			CLIENT TRACKING ON PREFIX a -> -ERR PREFIX option requires BCAST*
			CLIENT CACHING YES -> -ERR CLIENT CACHING can be called only*
			CLIENT TRACKING ON -> OK
			GET a -> (nil)
			MGET b c last{a} -> [(nil) (nil) (nil)]
		`)
		// Changes of one slot come in their order: then all changes of a are behind the client, which
		// would get one of them once more that it reads meanwhile.
		other.runScript("SET a 1 -> OK\nSET unread 1 -> OK\nSET c 1 -> OK\nSET a 2 -> OK\nSET last{a} 1 -> OK")
		heard := map[string]bool{c.readReply(): true, c.readReply(): true, c.readReply(): true}
		if !heard["[invalidate [a]]"] || !heard["[invalidate [c]]"] || !heard["[invalidate [last{a}]]"] {
			t.Errorf("it heard %v", heard)
		}
		c.runScript("GET a -> 2")
		if err := l.db.Default().Set(ctx, []byte("a"), []byte("3")); err != nil {
			t.Fatal(err)
		}
		if got := c.readReply(); got != "[invalidate [a]]" {
			t.Errorf("it heard %s", got)
		}
		c.runScript(`
			GET a -> 3
			CLIENT TRACKING OFF -> OK
		`)
		other.runScript("SET a 4 -> OK")
		c.runScript(`
			PING -> PONG
			CLIENT TRACKING ON BCAST PREFIX user: PREFIX item: -> OK
		`)
		other.runScript("SET a 5 -> OK\nSET user:{a} x -> OK")
		if got := c.readReply(); got != "[invalidate [user:{a}]]" {
			t.Errorf("it heard %s", got)
		}
		c.runScript(`
			CLIENT TRACKING OFF -> OK
			CLIENT TRACKING ON OPTIN -> OK
			GET a -> 5
			CLIENT CACHING YES -> OK
			GET user:{a} -> x
		`)
		other.runScript("SET a 6 -> OK\nSET user:{a} y -> OK")
		if got := c.readReply(); got != "[invalidate [user:{a}]]" {
			t.Errorf("it heard %s", got)
		}
		// CACHING holds for all of a MULTI, and what that reads is tracked until it is
		// answered: what was sent before is not what it reads.
		c.runScript(`
			CLIENT CACHING YES -> OK
			MULTI -> OK
			GET a -> QUEUED
			GET b -> QUEUED
		`)
		other.runScript("SET a 7 -> OK")
		if got := c.readReply(); got != "[invalidate [a]]" {
			t.Errorf("it heard %s", got)
		}
		c.runScript("EXEC -> [7 (nil)]\nGET {a}plain -> (nil)")
		other.runScript("SET {a}plain 1 -> OK\nSET a 8 -> OK")
		if got := c.readReply(); got != "[invalidate [a]]" {
			t.Errorf("it heard %s", got)
		}
		if got := c.ask("CLIENT TRACKINGINFO"); got != "[flags [on optin] redirect (0) prefixes []]" {
			t.Error(got)
		}
	})
}

// A copy that is kept until a message comes is never older than what was acknowledged
// before the last message could have come: after all is quiet it is what there is.
func TestCopiesOfThoseWhoTrackEndRight(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		const keys = 5
		writer, c := l.dial(), l.dial()
		c.runScript("HELLO 3 -> [server*\nCLIENT TRACKING ON -> OK")
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 300 {
				if got := writer.ask(fmt.Sprintf("SET k%d %d", i%keys, i)); got != "OK" {
					t.Errorf("SET: %s", got)
				}
			}
		})
		copies := map[string]string{}
		hear := func(text string) bool {
			key, ok := strings.CutPrefix(text, "[invalidate [")
			delete(copies, strings.TrimSuffix(key, "]]"))
			return ok
		}
		get := func(key string) {
			c.send("GET " + key)
			for {
				got := c.readReply()
				if !hear(got) {
					copies[key] = got
					return
				}
			}
		}
		for i := range 200 {
			if key := fmt.Sprintf("k%d", i%keys); copies[key] == "" {
				get(key)
			}
		}
		wg.Wait()
		// In each store its changes come in order: when the last one has come, all have.
		for i := range keys {
			for _, value := range []string{"x", "y"} {
				writer.runScript(fmt.Sprintf("SET {k%d}end %s -> OK", i, value))
				get(fmt.Sprintf("{k%d}end", i))
			}
			writer.runScript(fmt.Sprintf("SET {k%d}end z -> OK", i))
			for copies[fmt.Sprintf("{k%d}end", i)] != "" {
				hear(c.readReply())
			}
		}
		for key, value := range copies {
			if got := writer.ask("GET " + key); got != value {
				t.Errorf("%s is %s, and the copy %s", key, got, value)
			}
		}
	})
}

func TestWhatTookLongIsNoted(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript(`
			SLOWLOG LEN -> (0)
			CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3 -> OK
			CLIENT SETNAME me -> OK
			SET a 1 -> OK
			MGET a b c -> [1 (nil) (nil)]
			AUTH default secret -> OK
			KEYS x* -> []
			CONFIG SET slowlog-log-slower-than -1 -> OK
			SET b 1 -> OK
			SLOWLOG GET -2 -> -ERR count should be greater than or equal to -1
		`)
		got := c.ask("SLOWLOG GET")
		for _, want := range []string{"[KEYS x*] 127.0.0.1", "[SET a 1 (shard ", "MGET a b c", " me]"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %s", got, want)
			}
		}
		if strings.Contains(got, "secret") {
			t.Errorf("a password is told: %s", got)
		}
		c.runScript("SLOWLOG RESET -> OK\nSLOWLOG LEN -> (0)")
	})
}

func TestWhoSaysNothingIsClosed(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	l := startServer(t, shapes[0], Options{Now: func() time.Time { return time.Unix(0, now.Load()) }})
	admin := l.dial()
	admin.runScript("CONFIG SET timeout 60 -> OK\nCONFIG SET requirepass boss -> OK")
	stranger, known, listener := l.dial(), l.dial(), l.dial()
	known.runScript("AUTH boss -> OK")
	listener.runScript("AUTH boss -> OK\nSUBSCRIBE x -> [subscribe x (1)]")
	stranger.runScript("PING -> -NOAUTH*")
	now.Add(int64(maxAuthTime + time.Second))
	l.s.sweepClientsOnce(l.s.opts.Now())
	closed := func(c *testConn) bool { _, err := c.in.ReadByte(); return err != nil }
	if !closed(stranger) {
		t.Error("a stranger stays")
	}
	known.runScript("PING -> PONG")
	now.Add(int64(61 * time.Second))
	l.s.sweepClientsOnce(l.s.opts.Now())
	if !closed(known) {
		t.Error("who says nothing stays")
	}
	listener.runScript("PING -> [pong ]")
}

func TestWithoutAPasswordOnlyTheMachineItselfIsServed(t *testing.T) {
	l := startServer(t, shapes[0], Options{})
	for from, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "10.0.0.1:1": false, "[2001:db8::1]:1": false, "?:0": false} {
		if got := l.s.isTrusted(from); got != want {
			t.Errorf("%s is trusted: %v", from, got)
		}
	}
	c := l.dial()
	c.runScript("CONFIG SET requirepass x -> OK")
	if !l.s.isTrusted("10.0.0.1:1") {
		t.Error("with a password it is protected enough")
	}
	c.runScript("CONFIG SET requirepass '' -> OK\nCONFIG SET protected-mode no -> OK")
	if !l.s.isTrusted("10.0.0.1:1") {
		t.Error("it was told not to protect itself")
	}
	c.runScript("CONFIG SET protected-mode YES -> OK\nCONFIG GET protected-mode -> [protected-mode yes]")
	if l.s.isTrusted("10.0.0.1:1") {
		t.Error("it was told to protect itself")
	}
}

func TestSettingsAreKeptInOneForm(t *testing.T) {
	l := startServer(t, shapes[0], Options{Memory: true})
	l.dial().runScript(`
		CONFIG SET latency-tracking Yes maxmemory 1KB slowlog-log-slower-than -1 -> OK
		CONFIG GET latency-tracking -> [latency-tracking yes]
		CONFIG GET maxmemory -> [maxmemory 1024]
		CONFIG SET maxmemory -1 -> -ERR CONFIG SET failed*
		CONFIG SET protected-mode perhaps -> -ERR CONFIG SET failed*
		CONFIG SET timeout soon -> -ERR CONFIG SET failed*
		CONFIG SET timeout 1 timeout 2 -> -ERR CONFIG SET failed*
		CONFIG SET latency-tracking-info-percentiles 99 -> OK
		CONFIG SET requirepass yes -> OK
		CONFIG SET requirepass another -> OK
	`)
	if !l.s.stats.TracksLatency.Load() {
		t.Error("how long calls take is not measured")
	}
	if err := l.s.Configure(map[string]string{"latency-tracking-info-percentiles": "50 99"}); err != nil {
		t.Errorf("what was one number cannot be two: %v", err)
	}
}

// Reads that have to wait for the disk are answered in their places, with those behind
// them, and writes after them.
func TestReadsOfWhatIsNotInMemoryKeepTheirOrder(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		const n = 200
		for i := range n {
			c.send(fmt.Sprintf("GET none%d", i)) // nothing is known about it yet
			c.send("GET here")
			c.send("GET " + strings.Repeat("x", 20_000)) // is refused
			if i%10 == 0 {
				c.send(fmt.Sprintf("SET here %d", i))
				c.send("PING")
			}
		}
		last := "(nil)"
		for i := range n {
			if got := c.readReply(); got != "(nil)" {
				t.Fatalf("GET none%d: %s", i, got)
			}
			if got := c.readReply(); got != last {
				t.Fatalf("GET here: %s, want %s", got, last)
			}
			if got := c.readReply(); !strings.HasPrefix(got, "-ERR") {
				t.Fatalf("a long key: %s", got)
			}
			if i%10 == 0 {
				if got := c.readReply() + c.readReply(); got != "OKPONG" {
					t.Fatal(got)
				}
				last = fmt.Sprint(i)
			}
		}
	})
}
