package group

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/tally"
	"pgregory.net/rapid"
)

// Whatever crashes: a key's versions only grow, time never goes back, and a
// request takes effect once.
func TestVersionsAndTimeGoForwardOverCrashes(t *testing.T) {
	crashes := 0
	rapid.Check(t, func(t *rapid.T) {
		var wall wallClock
		wall.ms.Store(1 << 40)
		opts := Options{Alone: true, Wall: wall.read}
		d := newDisk(rapid.Bool().Draw(t, "always"))
		g, err := Open(d, d, opts)
		if err != nil {
			t.Fatal(err)
		}
		var version uint64
		var clock int64
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				wall.ms.Add(rapid.Int64Range(-3000, 5000).Draw(t, "jump"))
			case 1:
				crashes++
				d = d.crash()
				if g, err = Open(d, d, opts); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := g.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				if g, err = Open(d, d, opts); err != nil {
					t.Fatal(err)
				}
			default:
				reply, err := g.Do(context.Background(), Request{Command: &command.Set{Key: at("k"), Value: []byte("v")}})
				if err != nil || reply.Err != nil {
					t.Fatal(err, reply.Err)
				}
				if reply.Version <= version {
					t.Fatalf("version %d after %d", reply.Version, version)
				}
				version = reply.Version
			}
			now := g.NowMS()
			if now < clock {
				t.Fatalf("the clock says %d after %d", now, clock)
			}
			clock = now
		}
	})
	tally.Add(t, "crashes", crashes)
}

func FuzzARecordThatIsReadIsWrittenTheSame(f *testing.F) {
	f.Add(appendRecord(nil, &command.Reply{Kind: command.Int, Int: -5, Version: 9}))
	f.Add(appendRecord(nil, &command.Reply{Kind: command.Items, Bytes: []byte("x"), Items: []command.Item{{Field: []byte("f"), Found: true}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := recordReader{rest: b}
		r, err := d.reply()
		if err != nil {
			if !errors.Is(err, errRecord) {
				t.Fatal(err)
			}
			return
		}
		back := recordReader{rest: appendRecord(nil, &r)}
		again, err := back.reply()
		if err != nil || again.Int != r.Int || string(again.Bytes) != string(r.Bytes) || len(again.Items) != len(r.Items) {
			t.Fatalf("%+v came back as %+v, %v", r, again, err)
		}
	})
}
