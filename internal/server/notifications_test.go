package server

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

// subscribeNotifications subscribes to all keyspace notifications.
func (c *testConn) subscribeNotifications() *testConn {
	c.t.Helper()
	c.ask("PSUBSCRIBE __key*__:*")
	return c
}

// collectNotifications adds notifications to events, by channel and key, until there are enough.
func (c *testConn) collectNotifications(enough func(events map[string][]string, n int) bool) map[string][]string {
	c.t.Helper()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	events := map[string][]string{}
	for n := 0; !enough(events, n); n++ {
		words := strings.Fields(strings.Trim(c.readReply(), "[]"))
		if len(words) != 4 {
			c.t.Fatalf("no message of a pattern: %q", words)
		}
		channel, message := words[2], words[3]
		if strings.HasPrefix(channel, "__keyevent@") { // by key they are comparable: events of different keys come in any order
			at, event, _ := strings.Cut(channel, ":")
			channel, message = at+":"+message, event
		}
		events[channel] = append(events[channel], message)
	}
	return events
}

const notifyScript = `SET s 1
SET s 2 EX 1000
SET s 3 KEEPTTL
SET s 4 NX
SET s 5 XX GET
SETEX e 100 v
PSETEX e 100000 v
SETNX n 1
SETNX n 1
GETSET n 2
MSET m1 a m2 b
MSETNX m3 a m1 b
MSETNX m3 a m4 b
INCR i
INCRBY i 5
DECR i
INCRBYFLOAT i 1.5
APPEND a x
APPEND a y
SETRANGE a 1 zz
SETRANGE a 1 ''
SETBIT b 3 1
BITFIELD b SET u8 0 7 INCRBY u8 8 1
BITFIELD b GET u8 0
BITOP AND bo b a
BITOP OR bo none none2
EXPIRE a 100
EXPIRE a 100 NX
PERSIST a
PERSIST a
EXPIRE nosuch 10
EXPIRE a -1
GETEX s EX 100
GETEX s PERSIST
GETEX s
GETDEL s
GETDEL s
HSET h f 1 g 2
HSETNX h f 2
HSETNX h k 2
HMSET h f 3
HINCRBY h n 1
HINCRBYFLOAT h n 1.5
HDEL h nosuch
HDEL h f g
HDEL h k n
HSET h f 1
SET h string
SET r1 v EX 100
RENAME r1 r2
RENAME r2 r2
SET r3 v
RENAME r2 r3
RENAMENX r3 i
RENAMENX r3 r4
HSET ha f 1
COPY ha hb
COPY ha hb
COPY ha hb REPLACE
COPY ha nothere
DEL ha hb nosuch
UNLINK i
LPUSHX nolist v
MULTI
SET x 1
INCR x
APPEND h more
DEL x
EXEC
MULTI
SET y 1
DISCARD
SET end 1
DEL end`

func TestNotifications_OfAScript_AreThoseOfRedis(t *testing.T) {
	redis := dialRedis(t)
	want, count := map[string]map[string][]string{}, map[string]int{}
	for classes, ends := range map[string]int{"AKE": 4, "g$E": 2, "KEgn": 4, "KA": 2} {
		asker, listener := redis(), redis().subscribeNotifications()
		asker.runScript("CONFIG SET notify-keyspace-events " + classes + " -> OK")
		playScript(asker)
		want[classes] = listener.collectNotifications(func(events map[string][]string, n int) bool {
			count[classes] = n
			return len(events["__keyspace@0__:end"])+len(events["__keyevent@0__:end"]) == ends
		})
		asker.runScript("FLUSHALL -> OK")
	}
	forEachShape(t, func(t *testing.T, l *testServer) {
		for classes, want := range want {
			asker, listener := l.dial(), l.dial().subscribeNotifications()
			asker.runScript("CONFIG SET notify-keyspace-events " + classes + " -> OK")
			playScript(asker)
			got := listener.collectNotifications(func(_ map[string][]string, n int) bool { return n == count[classes] })
			if !reflect.DeepEqual(got, want) {
				for name := range want {
					t.Errorf("%s: %s: %v, and those of Redis are %v", classes, name, got[name], want[name])
				}
			}
			asker.runScript("FLUSHALL -> OK\nCONFIG SET notify-keyspace-events '' -> OK\nSET after 1 -> OK")
			if l.s.node.RecordsEvents() {
				t.Error("events are recorded though nobody is notified")
			}
		}
	})
}

// In Redis rename_from comes before rename_to, and the key is new before both.
func TestNotifications_OfRename_AreInTheOrderOfRedis(t *testing.T) {
	redis := dialRedis(t)
	collect := func(dial func() *testConn) (events []string) {
		asker, listener := dial(), dial()
		asker.runScript("CONFIG SET notify-keyspace-events EAn -> OK\nMSET a 1 d 1 -> OK")
		listener.runScript("PSUBSCRIBE __keyevent@0__:* -> [psubscribe*")
		asker.runScript("SET begin 1 -> OK\nRENAME a b -> OK\nRENAME b d -> OK\nRENAMENX d e -> (1)\nSET end 1 -> OK")
		for begun := false; ; {
			event := listener.readReply()
			begun = begun || strings.HasSuffix(event, " begin]")
			if begun {
				events = append(events, event)
			}
			if strings.HasSuffix(event, ":set end]") {
				break
			}
		}
		asker.runScript("CONFIG SET notify-keyspace-events '' -> OK")
		return events
	}
	l := startServer(t, shapes[0], Options{})
	if got, want := collect(l.dial), collect(redis); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// playScript asks for what the script says.
func playScript(c *testConn) {
	c.t.Helper()
	for line := range strings.Lines(notifyScript) {
		c.ask(strings.TrimSpace(line))
	}
}

func TestNotifications_OfWhatNoClientDoes_ArePublished(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		k, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "orders", Kind: cleave.Range})
		if err != nil {
			t.Fatal(err)
		}
		listener := l.dial().subscribeNotifications()
		l.dial().runScript("CONFIG SET notify-keyspace-events AKEn -> OK")
		if err := k.Set(ctx, []byte("a"), []byte("1")); err != nil {
			t.Fatal(err)
		}
		// Of several groups, and stores.
		if err := l.db.Update(ctx, func(tx *cleave.Txn) error {
			for i := range 8 {
				if err := tx.Set(l.db.Default(), fmt.Appendf(nil, "t%d", i), []byte("1")); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := l.db.Update(ctx, func(tx *cleave.Txn) error {
			if err := tx.Set(k, []byte("gone"), nil); err != nil {
				return err
			}
			return fmt.Errorf("no")
		}); err == nil {
			t.Fatal("a transaction that refuses is committed")
		}
		l.dial().runScript("SET soon v PX 20 -> OK")
		want := map[string][]string{}
		n := 0
		expect := func(space, key string, events ...string) {
			want["__keyspace@"+space+"__:"+key], want["__keyevent@"+space+"__:"+key] = events, events
			n += 2 * len(events)
		}
		expect("orders", "a", "new", "set")
		expect("0", "soon", "new", "set", "expire", "expired")
		for i := range 8 {
			expect("0", fmt.Sprintf("t%d", i), "new", "set")
		}
		if got := listener.collectNotifications(func(_ map[string][]string, have int) bool { return have == n }); !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestNotifications_OfMisses_AreThoseOfRedis(t *testing.T) {
	const script = "GET no\nSET yes 1\nGET yes\nMGET no2 yes no3\nHGET no f\nHGETALL no\nSTRLEN no\nTYPE no\nTTL no\nEXISTS no yes\nGETDEL no\nGETEX no\nOBJECT ENCODING no\n" +
		"SETNX new 1\nINCR new2\nDUMP no\nMULTI\nGET in\nEXEC\nGET end"
	ask := func(asker, listener *testConn) map[string][]string {
		asker.runScript("CONFIG SET notify-keyspace-events KEm -> OK")
		for line := range strings.Lines(script) {
			asker.ask(strings.TrimSpace(line))
		}
		return listener.collectNotifications(func(events map[string][]string, _ int) bool { return len(events["__keyevent@0__:end"]) > 0 })
	}
	redis := dialRedis(t)
	want := ask(redis(), redis().subscribeNotifications())
	forEachShape(t, func(t *testing.T, l *testServer) {
		if got := ask(l.dial(), l.dial().subscribeNotifications()); !reflect.DeepEqual(got, want) {
			t.Errorf("%v, and those of Redis are %v", got, want)
		}
	})
}

func TestNotifyClasses_AreThoseOfRedis(t *testing.T) {
	redis, l := dialRedis(t)(), startServer(t, shapes[0], Options{}).dial()
	for _, classes := range []string{"", "KEA", "AKE", "$lKE", "gKEx", "K$", "q", "ggKK", "gdtez", "g$lshzxetd", "mKE", "nE", "KEa", "AKEm", "KE "} {
		for _, c := range []*testConn{redis, l} {
			c.sendWords("CONFIG", "SET", "notify-keyspace-events", classes)
		}
		if got, want := l.readReply(), redis.readReply(); got != want {
			t.Errorf("%q: %s, and that of Redis is %s", classes, got, want)
		}
		if got, want := l.ask("CONFIG GET notify-keyspace-events"), redis.ask("CONFIG GET notify-keyspace-events"); got != want {
			t.Errorf("%q is kept as %s, and by Redis as %s", classes, got, want)
		}
	}
}
