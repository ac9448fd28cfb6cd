package group

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

// Whatever crashes, and however the machine's clock is set: a key's versions only grow, sequences of
// batches too, the clock does not go back while the group is open, nor behind a batch that has survived,
// a key that was seen expired stays so, and no time is given out that the machine's clock was not near.
func TestVersionsAndTimeGoForwardOverCrashes(t *testing.T) {
	crashes := 0
	rapid.Check(t, func(t *rapid.T) {
		var wall wallClock
		wall.ms.Store(1 << 40)
		opts := Options{OwnsAll: true, Wall: wall.readMS}
		always := rapid.Bool().Draw(t, "always")
		d := newMemoryDisk(always)
		g, err := Open(d, d, opts)
		if err != nil {
			t.Fatal(err)
		}
		var version uint64
		var clock int64
		var last effect.Header // of a batch
		highest := wall.readMS()
		expired := false // the key was seen so; without always a crash may bring an older row back
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0:
				wall.ms.Add(rapid.Int64Range(-3000, 5000).Draw(t, "jump"))
				highest = max(highest, wall.readMS())
			case 1:
				crashes++
				d = d.crashCopy()
				clock, expired = 0, expired && always
				if g, err = Open(d, d, opts); err != nil {
					t.Fatal(err)
				}
				if always && g.NowMS() < last.ClockMS {
					t.Fatalf("after a crash the clock says %d, a batch was of %d", g.NowMS(), last.ClockMS)
				}
			case 2:
				if err := g.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				if g, err = Open(d, d, opts); err != nil {
					t.Fatal(err)
				}
			case 3:
				mustDo(t, g, &command.Set{Key: positionOf("e"), Expiry: command.ExpireIn(rapid.Int64Range(1, 2000).Draw(t, "ttl"))})
				expired = false
			case 4:
				if _, err := g.Housekeep(context.Background()); err != nil {
					t.Fatal(err)
				}
			default:
				reply, err := g.Execute(context.Background(), Request{Command: &command.Set{Key: positionOf("k"), Value: []byte("v")}})
				if err != nil || reply.Err != nil {
					t.Fatal(err, reply.Err)
				}
				if reply.Version <= version {
					t.Fatalf("version %d after %d", reply.Version, version)
				}
				version = reply.Version
			}
			for _, h := range d.headers {
				if h.Seq <= last.Seq {
					t.Fatalf("sequence %d after %d", h.Seq, last.Seq)
				}
				last = h
			}
			d.headers = nil
			now := g.NowMS()
			if now < clock || now > highest+50 {
				t.Fatalf("the clock says %d after %d, the machine's said %d at most", now, clock, highest)
			}
			clock = now
			_, alive, err := g.Read(context.Background(), positionOf("e"), nil)
			if err != nil || alive && expired {
				t.Fatalf("a key that had expired is alive: %v, %v", alive, err)
			}
			expired = !alive
		}
	})
	tally.Add(t, "crashes", crashes)
}

func FuzzARecordThatIsReadIsWrittenTheSame(f *testing.F) {
	f.Add(appendRecord(nil, &command.Reply{Kind: command.Int, Int: -5, Version: 9}))
	f.Add(appendRecord(nil, &command.Reply{Kind: command.Items, Bytes: []byte("x"), Items: []command.Item{{Field: []byte("f"), Found: true}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := recordReader{rest: b}
		r, err := d.readReply()
		if err != nil {
			if !errors.Is(err, errBadRecord) {
				t.Fatal(err)
			}
			return
		}
		back := recordReader{rest: appendRecord(nil, &r)}
		again, err := back.readReply()
		if err != nil || again.Int != r.Int || string(again.Bytes) != string(r.Bytes) || len(again.Items) != len(r.Items) {
			t.Fatalf("%+v came back as %+v, %v", r, again, err)
		}
	})
}

// versionEater is a command that uses versions up: each write of a key takes one.
type versionEater int

func (n versionEater) Eval(e *command.Env) (reply command.Reply) {
	set := command.Set{Key: positionOf("k")}
	for range int(n) {
		reply = set.Eval(e)
	}
	return reply
}

// strictDisk checks that only versions are committed that were reserved before, and sequences too.
type strictDisk struct {
	*memoryDisk
	t testing.TB
}

func (d *strictDisk) Commit(urgent bool, effects []byte) error {
	stored, _, _ := d.crashCopy().Get(newLedgerKey(0), nil)
	batch, err := effect.Parse(effects)
	if err != nil {
		d.t.Fatal(err)
	}
	highest, ledgerAlone := uint64(0), true
	for _, op := range batch.All() {
		ledgerAlone = ledgerAlone && effect.Table(op.Key[0]) == effect.State
		if effect.Table(op.Key[0]) != effect.Rows {
			continue
		}
		row, err := command.DecodeRow(op.Value)
		if err != nil {
			d.t.Fatal(err)
		}
		highest = max(highest, row.Version)
	}
	if seq := batch.Header().Seq; !ledgerAlone {
		if l, err := decodeLedger(stored); err != nil || highest >= l.versionCeiling || seq > l.seqCeiling {
			d.t.Errorf("version %d is given out in batch %d, those below %d are reserved, up to %d (%v)", highest, seq, l.versionCeiling, l.seqCeiling, err)
		}
	}
	return d.memoryDisk.Commit(urgent, effects)
}

// However many calls wait, however many versions each takes, and however little is left of
// what was reserved: no batch gives out a version that a crash would give out again.
func TestABatchGivesOutWhatIsReserved(t *testing.T) {
	const most = command.MaxTxnKeys
	cases := []struct{ left, each, calls, seqsLeft int }{
		{0, 1, 1, maxBatchVersions + 1},
		{maxBatchVersions + 1, 1, 1, 0},
		{4*most + 1, most, 5, maxBatchVersions + 1},
		{maxBatchVersions, most, 4, maxBatchVersions + 1},
		{4*most + 1, 5 * most, 2, maxBatchVersions + 1}, // more keys than a transaction may have
		{maxBatchVersions + 1, 3 * most, 2, maxBatchVersions + 1},
	}
	for _, c := range cases[:tally.Size(len(cases), 4)] {
		t.Run(fmt.Sprintf("left=%d/each=%d/seqs=%d", c.left, c.each, c.seqsLeft), func(t *testing.T) {
			d := &strictDisk{memoryDisk: newMemoryDisk(false), t: t}
			g, err := Open(d, d, Options{OwnsAll: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := g.actor.Do(context.Background(), func(x *executor) {
				x.nextVersion = x.ledger.versionCeiling - uint64(c.left)
				x.seq = x.ledger.seqCeiling - uint64(c.seqsLeft)
			}); err != nil {
				t.Fatal(err)
			}
			batch, errs := make([]*call, c.calls), make([]error, c.calls)
			for i := range batch {
				batch[i] = &call{Request: Request{Command: versionEater(c.each)}}
			}
			if err := g.actor.CallBatch(context.Background(), batch, errs); err != nil {
				t.Fatal(err)
			}
			last := uint64(0)
			for i, call := range batch {
				if errs[i] != nil || call.reply.Err != nil || call.reply.Version < last+uint64(c.each) {
					t.Errorf("call %d: version %d after %d, %v, %v", i, call.reply.Version, last, errs[i], call.reply.Err)
				}
				last = call.reply.Version
			}
		})
	}
}

// A busy group has neither a ledger in each batch nor log entries of their own for it, though time passes
// and keys expire.
func TestABusyGroupRarelyWritesItsLedger(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1 << 40)
	d := &ledgerCounter{memoryDisk: newMemoryDisk(false)}
	g, err := Open(d, d, Options{OwnsAll: true, Wall: wall.readMS})
	if err != nil {
		t.Fatal(err)
	}
	opened := d.commits
	const batches = 1000
	for i := range batches {
		wall.ms.Add(1)
		mustDo(t, g, &command.Set{Key: positionOf("k"), Expiry: command.ExpireIn(int64(1 + i%100))})
	}
	if n := d.commits - opened; n != batches {
		t.Errorf("%d batches took %d log entries", batches, n)
	}
	if d.ledgers > batches/10 {
		t.Errorf("%d of %d batches have a ledger", d.ledgers, batches)
	}
}

// ledgerCounter counts the ledgers that are committed.
type ledgerCounter struct {
	*memoryDisk
	ledgers int
}

func (d *ledgerCounter) Commit(urgent bool, effects []byte) error {
	batch, err := effect.Parse(effects)
	for _, op := range batch.All() {
		if effect.Table(op.Key[0]) == effect.State {
			d.ledgers++
		}
	}
	return errors.Join(err, d.memoryDisk.Commit(urgent, effects))
}

// A version takes as many bytes of a batch as maxBatchVersions counts on.
func TestAVersionTakesSixteenBytes(t *testing.T) {
	shortest := partition.Position{1, 0, 1} // a position has an end of two bytes
	env := command.NewEnv(newMemoryDisk(false))
	before := env.Effects().Size()
	if reply := env.Do(&command.Set{Key: shortest}); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	if n := env.Effects().Size() - before; n*maxBatchVersions < wal.MaxBytes {
		t.Errorf("a row takes %d bytes: a batch has more versions than %d", n, maxBatchVersions)
	}
}

// A range brings versions along that may be far above those that its new group has
// reserved. They stay above it also if the group ends with that very batch.
func TestVersionsStayAboveARangeThatCame(t *testing.T) {
	const floor = 10 * versionReserve
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{ID: 1})
	mustDo(t, g, &ownership.ChangeOwnership{Become: []ownership.Range{servingRange("a", "m", 1)}, VersionFloor: floor, ClockFloorMS: 1})
	for range 3 {
		g = openGroup(t, d.crashCopy(), Options{ID: 1})
		if v := mustDo(t, g, newSet("b", "1")).Version; v < floor {
			t.Fatalf("after a crash the key got version %d, below the floor %d", v, uint64(floor))
		}
		d = d.crashCopy()
	}
}

func TestTheClockNeverGoesBackAndNeverPassesItsCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wall := int64(0)
		c := &clock{wall: func() int64 { return wall }}
		last, ceiling := int64(0), int64(0)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				wall += rapid.Int64Range(-100, 200).Draw(t, "jump")
			case 1:
				ceiling = max(ceiling, wall+rapid.Int64Range(0, 100).Draw(t, "reserve"))
				c.raiseCeiling(ceiling)
			case 2: // a restart knows the ceiling and nothing else
				c = &clock{wall: c.wall}
				c.startAt(ceiling)
			}
			now := c.now()
			if now < last || now > ceiling {
				t.Fatalf("clock says %d after %d with ceiling %d", now, last, ceiling)
			}
			last = now
		}
	})
}
