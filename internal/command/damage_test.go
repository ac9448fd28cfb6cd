package command

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/effect"
)

// everyRead names each command that reads a key or its fields.
const everyRead = `set k v get|get k|del k|exists k|type k|incrby k 1|incrbyfloat k 1|append k x|strlen k|getrange k 0 1|setrange k 0 x|` +
	`pexpire k 5|persist k|pttl k|set k v|` + everyFieldRead + `|hlen k`

const everyFieldRead = `hset k f v|hget k f|hmget k f|hdel k f|hgetall k|hexists k f|hstrlen k f|hincrby k f 1|hincrbyfloat k f 1`

func TestABrokenReaderFailsTheCommandWhichLeavesNothing(t *testing.T) {
	broken := errors.New("the disk is gone")
	for line := range strings.SplitSeq(everyRead, "|") {
		e := NewEnv(failing{broken})
		if r := e.Do(parse(line)); !errors.Is(r.Err, broken) || e.Effects().Len() != 0 {
			t.Errorf("%s: %+v", line, r)
		}
	}
	for _, c := range []Command{
		&Range{Limit: 1}, &Reap{Key: at("k")}, &Sweep{Key: at("k"), Limit: 1}, &HScan{Key: at("k"), Limit: 1},
		&Commit{Reads: []Read{{Key: at("k")}}}, &Commit{Ranges: []RangeRead{{}}},
	} {
		if r := NewEnv(failing{broken}).Do(c); !errors.Is(r.Err, broken) {
			t.Errorf("%T: %+v", c, r)
		}
	}
}

type failing struct{ err error }

func (f failing) Get([]byte, []byte) ([]byte, bool, error) { return nil, false, f.err }

func (f failing) Scan([]byte, []byte, bool, func(key, value []byte) bool) error { return f.err }

func TestADamagedRowFailsTheCommandWhichLeavesNothing(t *testing.T) {
	own := string(effect.Rows.AppendKey(nil, at("k")))
	element := own + string(rune(elementTag)) + "f"
	for line := range strings.SplitSeq(everyRead, "|") {
		checkDamage(t, own, parse(line))
	}
	for line := range strings.SplitSeq(everyFieldRead, "|") {
		checkDamage(t, element, parse(line))
	}
	for _, c := range []Command{
		&Range{Limit: 9}, &Commit{Ranges: []RangeRead{{}}}, &Sweep{Key: at("k"), Limit: 9}, &HScan{Key: at("k"), Limit: 9},
	} {
		checkDamage(t, element, c)
	}
}

func checkDamage(t *testing.T, key string, c Command) {
	t.Helper()
	l := newLab(t)
	l.do("hset k f old", "del k", "hset k f 1") // so that there is something to sweep
	l.commit()
	if _, ok := l.store.rows[key]; !ok {
		t.Fatalf("no row at %q", key)
	}
	l.store.rows[key] = "damaged"
	if r := l.env.Do(c); !errors.Is(r.Err, ErrRow) || l.env.Effects().Len() != 0 {
		t.Errorf("%s with damage at %q: %+v", describe(c), key, r)
	}
}

func TestAnExpiryOfAnotherLengthIsRefused(t *testing.T) {
	if _, err := DecodeExpiry(make([]byte, 7)); !errors.Is(err, ErrRow) {
		t.Errorf("got %v", err)
	}
}

func TestALargeBatchLeavesNoLargeMemoryBehind(t *testing.T) {
	l := newLab(t)
	for i := range keepSlots {
		l.env.put(fmt.Appendf(nil, "%d", i), nil, nil)
	}
	l.env.Do(&Set{Key: at("k"), Value: make([]byte, keepBytes+1)})
	l.do("append k x", "get k")
	l.commit()
	if len(l.env.over.slots) > keepSlots || cap(l.env.arena) > keepBytes || cap(l.env.join) > keepBytes {
		t.Errorf("kept %d slots, %d and %d bytes", len(l.env.over.slots), cap(l.env.arena), cap(l.env.join))
	}
	if got := say(l.do("strlen k")); got != fmt.Sprint(keepBytes+2) {
		t.Errorf("length %s", got)
	}
}
