package txn

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

func someEffects() []byte {
	var b effect.Builder
	b.Put([]byte("\x01k"), []byte("v"))
	b.Delete([]byte("\x06k"))
	return b.Bytes()
}

var someID = ID{0, 0, 0, 0, 3, 0xe8, 15: 7}

func TestRecordsAreStable(t *testing.T) {
	// These bytes are on disks: they never change.
	lock := Lock{Txn: someID, Start: positionOf("k"), ParticipantStart: positionOf("a"), CoordinatorGroup: 3, DeadlineMS: 0x1122, PrepareMS: 0x33}
	write, ranged := lock, lock
	write.Write = true
	ranged.Range, ranged.End = true, positionOf("z")
	decision := Decision{someID, Committed, 0x1122, []partition.Span{{Start: positionOf("k"), End: positionOf("l")}, {Start: positionOf("z")}}}
	for _, test := range []struct {
		name       string
		key, value []byte
		wantKey    string
		wantValue  string
	}{
		{"read", lock.recordKey(nil), lock.appendRecord(nil, nil), "02016b00010000000003e800000000000000000007",
			"0101221100000000000033000000000000000300000000000000040161" + "0001"},
		{"write", write.recordKey(nil), write.appendRecord(nil, someEffects()), "02016b00010000000003e800000000000000000007",
			"0102221100000000000033000000000000000300000000000000040161" + "0001" + hex.EncodeToString(someEffects())},
		{"range", ranged.recordKey(nil), ranged.appendRecord(nil, nil), "02016b000100000000000000000000000003e800000000000000000007",
			"0103221100000000000033000000000000000300000000000000040161" + "0001" + "04017a0001"},
		{"mark", markKey(nil, positionOf("k"), someID), Mark{Aborted, 0x1122}.appendRecord(nil),
			"04016b000100000000000000000000000003e800000000000000000007", "01022211000000000000"},
		{"decision", decisionKey(nil, 3, someID), decision.appendRecord(nil), "076400000000000000030000000003e800000000000000000007",
			"01012211000000000000" + "02" + "04016b0001" + "04016c0001" + "04017a0001" + "00"},
	} {
		if got := hex.EncodeToString(test.key); got != test.wantKey {
			t.Errorf("%s: key %s, want %s", test.name, got, test.wantKey)
		}
		if got := hex.EncodeToString(test.value); got != test.wantValue {
			t.Errorf("%s: value %s, want %s", test.name, got, test.wantValue)
		}
	}
}

func FuzzALockIsTakenOnlyForWhatItWouldWrite(f *testing.F) {
	for _, lock := range []Lock{
		{Txn: someID, Start: positionOf("k"), ParticipantStart: positionOf("a"), CoordinatorGroup: 3, DeadlineMS: 9, PrepareMS: 1},
		{Txn: someID, Start: positionOf("k"), ParticipantStart: positionOf("a"), CoordinatorGroup: 3, DeadlineMS: 9, Write: true},
		{Txn: someID, CoordinatorGroup: 3, Range: true},
	} {
		f.Add(lock.recordKey(nil), lock.appendRecord(nil, someEffects()))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		x, err := DecodeIntent(key, value)
		if err != nil {
			if !errors.Is(err, ErrBadRecord) {
				t.Fatalf("%v is no ErrRecord", err)
			}
			return
		}
		var effects []byte
		if x.Write {
			effects = value[len(x.appendRecord(nil, nil)):]
			if _, err := effect.Parse(effects); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(x.recordKey(nil), key) || !bytes.Equal(x.appendRecord(nil, effects), value) {
			t.Fatalf("%x %x is taken for %+v", key, value, x)
		}
	})
}

func FuzzADecisionIsTakenOnlyForWhatItWouldWrite(f *testing.F) {
	d := Decision{someID, Committed, 77, []partition.Span{{Start: positionOf("k"), End: positionOf("l")}, {}}}
	f.Add(decisionKey(nil, 3, someID), d.appendRecord(nil))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		d, err := DecodeDecision(key, value)
		if err != nil {
			if !errors.Is(err, ErrBadRecord) {
				t.Fatalf("%v is no ErrRecord", err)
			}
			return
		}
		if !bytes.Equal(d.appendRecord(nil), value) || !bytes.HasSuffix(key, d.ID[:]) {
			t.Fatalf("%x %x is taken for %+v", key, value, d)
		}
	})
}

func FuzzAMarkIsTakenOnlyForWhatItWouldWrite(f *testing.F) {
	f.Add(Mark{Committed, 77}.appendRecord(nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		m, err := DecodeMark(value)
		if err == nil && !bytes.Equal(m.appendRecord(nil), value) || err != nil && !errors.Is(err, ErrBadRecord) {
			t.Fatalf("%x is taken for %+v, %v", value, m, err)
		}
	})
}

func TestAnIDSaysWhenItWasMade(t *testing.T) {
	if got := someID.TimeMS(); got != 1000 {
		t.Errorf("made at %d, want 1000", got)
	}
}

// A shard may begin in the middle of where a range lock's record would lie by
// its bytes. Between the start of the lock and its record no key lies, whatever
// the keyspace, so its side does not matter.
func TestNoKeyLiesBetweenTheStartOfARangeAndItsRecord(t *testing.T) {
	check := func(p partition.Position) {
		for n := range p { // every start that the key begins with
			if record := append(bytes.Clone(p[:n]), rangePad[:]...); bytes.Compare(p, record) < 0 {
				t.Errorf("%x lies before the record of a range from %x", []byte(p), []byte(p[:n]))
			}
		}
	}
	for _, id := range []partition.KeyspaceID{0, 1, 252, 256, 1 << 16, 1 << 24} {
		hashed := partition.Keyspace{ID: id, Kind: partition.Hash}
		ordered := partition.Keyspace{ID: id, Kind: partition.Range}
		check(append(hashed.SlotSpan(0).Start, 0, 1)) // the empty key, in a slot of zeros
		for _, key := range []string{"", "\x00", "\x00\x00", "a"} {
			check(ordered.AppendPosition(nil, []byte(key)))
		}
	}
}
