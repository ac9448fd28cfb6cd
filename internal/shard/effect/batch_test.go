package effect

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseReturnsWhatWasBuiltAndRewoundIsAsIfNeverBuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type state struct {
			mark Savepoint
			ops  []Op
		}
		h := Header{rapid.Uint64().Draw(t, "seq"), rapid.Int64().Draw(t, "clock")}
		bytesOf := rapid.SliceOfN(rapid.Byte(), 0, 200)
		var b Builder
		b.Put([]byte("left of the batch before"), nil)
		b.Reset(h)
		var want []Op
		var refs []Ref
		states := []state{{b.Savepoint(), nil}}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"put", "put", "parts", "delete", "mark", "rewind"}).Draw(t, "step") {
			case "put":
				op := Op{Key: bytesOf.Draw(t, "key"), Value: bytesOf.Draw(t, "value")}
				refs, want = append(refs, b.Put(op.Key, op.Value)), append(want, op)
			case "parts":
				head, body := bytesOf.Draw(t, "head"), bytesOf.Draw(t, "body")
				op := Op{Key: bytesOf.Draw(t, "key"), Value: slices.Concat(head, body)}
				refs, want = append(refs, b.PutParts(op.Key, head, body)), append(want, op)
			case "delete":
				op := Op{Key: bytesOf.Draw(t, "key"), Delete: true}
				refs, want = append(refs, b.Delete(op.Key)), append(want, op)
			case "mark":
				states = append(states, state{b.Savepoint(), slices.Clone(want)})
			case "rewind":
				n := rapid.IntRange(0, len(states)-1).Draw(t, "mark")
				b.RollbackTo(states[n].mark)
				want = slices.Clone(states[n].ops)
				refs, states = refs[:len(want)], states[:n+1]
			}
		}
		batch, err := Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if batch.Header() != h || batch.Len() != len(want) || b.Len() != len(want) || b.Size() != len(b.Bytes()) {
			t.Fatalf("header %v, %d operations, %d built in %d bytes; want %v, %d", batch.Header(), batch.Len(), b.Len(), b.Size(), h, len(want))
		}
		n := 0
		for i, op := range batch.All() {
			if n != i || !isSameOp(op, want[i]) || !isSameOp(b.At(refs[i]), op) {
				t.Fatalf("operation %d is %v, at its reference %v; want %v", i, op, b.At(refs[i]), want[i])
			}
			n++
		}
		if n != len(want) {
			t.Fatalf("%d operations, want %d", n, len(want))
		}
	})
}

func isSameOp(a, b Op) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Delete == b.Delete
}

func TestBytesAreStable(t *testing.T) {
	// These bytes are on disks: they never change.
	var b Builder
	b.Reset(Header{Seq: 0x0102030405060708, ClockMS: 1700000000000})
	b.Put(Rows.AppendKey(nil, []byte("\x01a\x00\x01")), []byte("value"))
	b.Delete(Expiry.AppendKey(nil, []byte("\x01a\x00\x01")))
	b.PutParts(Orphans.AppendKey(nil, []byte("k")), nil, nil)
	b.PutParts(State.AppendKey(nil, nil), bytes.Repeat([]byte{7}, 100), bytes.Repeat([]byte{8}, 28))
	want := "01" + "0807060504030201" + "0068e5cf8b010000" + "04000000" +
		"0a" + "0101610001" + "05" + "76616c7565" +
		"0b" + "0601610001" +
		"04" + "086b" + "00" +
		"02" + "07" + "8001" + strings.Repeat("07", 100) + strings.Repeat("08", 28)
	if got := hex.EncodeToString(b.Bytes()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	tables := []Table{Rows, Intents, Dedup, Marks, Capture, Expiry, State, Orphans, Events}
	for i, table := range tables {
		if int(table) != i+1 {
			t.Errorf("table %d has the number %d: numbers never change", i+1, table)
		}
	}
}

func TestDamagedBatchesAreRefusedWithTheReason(t *testing.T) {
	var b Builder
	b.Put([]byte("key"), []byte("value"))
	good := b.Bytes()
	change := func(edit func(p []byte) []byte) []byte { return edit(bytes.Clone(good)) }
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"empty":       {nil, "0 bytes"},
		"short":       {good[:headerBytes-1], "at least 21"},
		"newer":       {change(func(p []byte) []byte { p[0] = 2; return p }), "format 2"},
		"cut":         {good[:len(good)-1], "operation 0 at byte 21"},
		"more":        {append(bytes.Clone(good), 0), "operation 1"},
		"count":       {change(func(p []byte) []byte { p[countOffset] = 2; return p }), "1 operations, 2 announced"},
		"long length": {append(bytes.Clone(good[:headerBytes]), 0x80, 0x00, 0x00), "operation 0"},
		"huge length": {binary.AppendUvarint(bytes.Clone(good[:headerBytes]), 1<<64-1), "operation 0"},
	} {
		_, err := Parse(test.data)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an ErrFormat with %q", name, err, test.want)
		}
	}
}

func TestZeroValuesAreEmptyBatches(t *testing.T) {
	var b Builder
	m := b.Savepoint()
	b.Put([]byte("k"), nil)
	b.RollbackTo(m)
	batch, err := Parse(b.Bytes())
	if err != nil || batch.Len() != 0 || batch.Header() != (Header{}) {
		t.Errorf("got %v, %v", batch, err)
	}
	var none Batch
	for range none.All() {
		t.Error("the zero Batch has an operation")
	}
	if none.Len() != 0 || none.Header() != (Header{}) {
		t.Error("the zero Batch is not empty")
	}
}

func TestAWarmBuilderDoesNotAllocateAndALargeOneIsLetGo(t *testing.T) {
	var b Builder
	key, value := []byte("key"), make([]byte, 100)
	sum := 0
	build := func() {
		b.Reset(Header{Seq: 1})
		for range 100 {
			b.Put(key, value)
			m := b.Savepoint()
			b.Delete(key)
			b.RollbackTo(m)
		}
		batch, err := Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for i, op := range batch.All() {
			sum += i + len(op.Value)
		}
	}
	if n := testing.AllocsPerRun(10, build); n != 0 {
		t.Errorf("%v allocations", n)
	}
	b.Put(key, make([]byte, maxRetainedBytes))
	if b.Reset(Header{}); cap(b.buf) > maxRetainedBytes {
		t.Errorf("%d bytes are kept, at most %d wanted", cap(b.buf), maxRetainedBytes)
	}
}

func FuzzParseTakesExactlyWhatABuilderWrites(f *testing.F) {
	var b Builder
	b.Reset(Header{Seq: 1, ClockMS: 2})
	b.Put([]byte("key"), []byte("value"))
	b.Delete([]byte("key"))
	f.Add(bytes.Clone(b.Bytes()))
	f.Add([]byte{formatVersion})
	f.Fuzz(func(t *testing.T, data []byte) {
		batch, err := Parse(data)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v is no ErrFormat", err)
			}
			return
		}
		var b Builder
		b.Reset(batch.Header())
		for _, op := range batch.All() {
			if op.Delete {
				b.Delete(op.Key)
			} else {
				b.Put(op.Key, op.Value)
			}
		}
		if !bytes.Equal(b.Bytes(), data) {
			t.Fatalf("Parse takes %x, which would be written %x", data, b.Bytes())
		}
	})
}

func BenchmarkPut(b *testing.B) {
	var out Builder
	key, value := make([]byte, 24), make([]byte, 64)
	for b.Loop() {
		if out.Put(key, value); out.Size() > 1<<20 {
			out.Reset(Header{})
		}
	}
}
