package serve

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

// A server that ends executes nothing of a client behind a request that it has refused for
// that: what a pipeline writes last is not there without what it writes before.
func TestAServerThatEndsKeepsTheOrderOfPipelines(t *testing.T) {
	for _, sh := range shapes[1:] {
		t.Run(sh.name, func(t *testing.T) {
			rounds := 8
			if os.Getenv("CLEAVE_SOAK") != "" {
				rounds = 100
			}
			for range rounds {
				endWhileWriting(t, sh)
			}
		})
	}
}

func endWhileWriting(t *testing.T, sh shape) {
	db := open(t, "", sh.options())
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	l, done := serveOn(t, db, sh, Options{})
	const clients, rounds = 4, 300
	for id := range clients {
		var b strings.Builder
		for i := 1; i <= rounds; i++ {
			// The keys of the first are of several groups: it is a transaction.
			fmt.Fprintf(&b, "MSET a%d %d b%d %d c%d %d\r\nSET last%d %d\r\n", id, i, id, i, id, i, id, i)
		}
		if _, err := l.dial().Write([]byte(b.String())); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Millisecond)
	l.s.Close()
	<-done
	for id := range clients {
		number := func(name string) int {
			v, err := db.Default().Get(ctx, fmt.Appendf(nil, "%s%d", name, id))
			if err != nil && !errors.Is(err, cleave.ErrNotFound) {
				t.Fatal(err)
			}
			n, _ := strconv.Atoi(string(v))
			return n
		}
		first, last := number("a"), number("last")
		if first < last || first > last+1 {
			t.Errorf("request %d of a client was executed, and of those before it only %d", last, first)
		}
	}
}

// A SCAN that goes on behind a restart returns every key, whatever others have scanned since.
func TestSCANGoesOnBehindARestart(t *testing.T) {
	db := open(t, "", shapes[0].options())
	defer db.Close()
	if _, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "sorted", Kind: cleave.Range}); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	scan := func(c *conn, cursor string, count int) (next string) {
		got := strings.Fields(strings.Trim(c.ask(fmt.Sprintf("SCAN %s COUNT %d", cursor, count)), "[]"))
		for _, key := range got[1:] {
			delete(want, strings.Trim(key, "[]"))
		}
		return got[0]
	}
	first, done := serveOn(t, db, shapes[0], Options{})
	c := first.dial()
	c.script("SELECT sorted -> OK")
	for i := range 100 {
		c.script(fmt.Sprintf("SET k%02d v -> OK", i))
	}
	cursor := scan(c, "0", 10)
	if n, err := strconv.ParseUint(cursor, 10, 64); err != nil || n == 0 || n >= 1<<53 {
		t.Errorf("a cursor is %s", cursor)
	}
	first.s.Close()
	<-done

	second, done := serveOn(t, db, shapes[0], Options{})
	defer func() { second.s.Close(); <-done }()
	c = second.dial()
	c.script("SELECT sorted -> OK")
	scan(c, "0", 50) // somebody else's
	for i := range 100 {
		if i >= 10 { // the others came before
			want[fmt.Sprintf("k%02d", i)] = true
		}
	}
	for cursor != "0" {
		cursor = scan(c, cursor, 10)
	}
	if len(want) > 0 {
		t.Errorf("%d keys were not found, such as %v", len(want), want)
	}
}
