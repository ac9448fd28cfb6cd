package command

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// longText is a value of n bytes that differ from chunk to chunk.
func longText(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// countLogged is how many bytes the commands log.
func (l *testEnv) countLogged(cs ...Command) int {
	l.t.Helper()
	l.commit()
	for _, c := range cs {
		if r := l.env.Do(c); r.Err != nil {
			l.t.Fatalf("%T: %v", c, r.Err)
		}
	}
	n := l.env.Effects().Size()
	l.commit()
	return n
}

// countingReader counts the bytes that a reader hands out.
type countingReader struct {
	*memoryStore
	bytes int
}

func (c *countingReader) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok, err := c.memoryStore.Get(key, dst)
	c.bytes += len(value) - len(dst)
	return value, ok, err
}

func TestChunks_OfALargeValue_AreReadAndLoggedAlone(t *testing.T) {
	l := newTestEnv(t)
	key := positionOf("big")
	value := longText(10 << 20)
	l.countLogged(&Set{Key: key, Value: value})
	if n := l.countLogged(&Append{Key: key, Suffix: []byte("0123456789")}); n < len(value) {
		t.Errorf("the first APPEND logs %d bytes: it must bring all of %d into chunks", n, len(value))
	}
	reader := &countingReader{memoryStore: l.store}
	for name, c := range map[string]Command{
		"append":   &Append{Key: key, Suffix: []byte("0123456789")},
		"setrange": &SetRange{Key: key, Offset: 5_000_000, Value: []byte("0123456789")},
		"setbit":   &SetBit{Key: key, Offset: 40_000_000, On: true},
		"bitfield": &BitField{Key: key, Ops: []BitFieldOp{{Kind: BitAdd, Width: 8, Offset: 40_000_000, Value: 1}}},
		"strlen":   &Strlen{Key: key},
		"getrange": &GetRange{Key: key, Start: 5_000_000, End: 5_000_009},
		"getbit":   &GetBit{Key: key, Offset: 40_000_000},
		"bitcount": &BitCount{Key: key, Range: ValueRange{Start: 5_000_000, End: 5_000_009}},
		"bitpos":   &BitPos{Key: key, On: true, Range: ValueRange{Start: 5_000_000, End: 5_000_009}, HasEnd: true},
		"pexpire":  &Expire{Key: key, Expiry: ExpireIn(1000)},
		"persist":  &Persist{Key: key},
		"type":     &Type{Key: key},
	} {
		e := NewEnv(reader)
		e.Begin(effect.Header{ClockMS: l.clockMS}, l.nextVersion)
		reader.bytes = 0
		if r := e.Do(c); r.Err != nil {
			t.Fatalf("%s: %v", name, r.Err)
		}
		if most := 2*ChunkBytes + 1024; reader.bytes > most || e.Effects().Size() > most {
			t.Errorf("%s reads %d bytes and logs %d, want at most %d of each", name, reader.bytes, e.Effects().Size(), most)
		}
	}
}

func TestChunks_OfAGap_AreNotWritten(t *testing.T) {
	l := newTestEnv(t)
	key := positionOf("gap")
	if n := l.countLogged(&SetBit{Key: key, Offset: MaxBitOffset, On: true}); n > 2*ChunkBytes {
		t.Errorf("the last bit of an absent value logs %d bytes", n)
	}
	r := l.env.Do(&Get{Key: key})
	want := make([]byte, MaxValueBytes)
	want[len(want)-1] = 1
	if r.Err != nil || !bytes.Equal(r.Bytes, want) {
		t.Errorf("got %d bytes, %v", len(r.Bytes), r.Err)
	}
	if r := l.env.Do(&Append{Key: key, Suffix: []byte("x")}); !errors.Is(r.Err, ErrTooLarge) {
		t.Errorf("a byte more than a value may have: %+v", r)
	}
}

func TestChunks_OfALongKey_AreNotMade(t *testing.T) {
	l := newTestEnv(t)
	key := positionOf(strings.Repeat("k", maxChunkedPositionBytes))
	l.countLogged(&Append{Key: key, Suffix: longText(maxPlainStringBytes + 1)})
	if rows := l.store.tableRows(effect.Rows); len(rows) != 1 {
		t.Errorf("%d rows: each chunk would repeat a key of %d bytes", len(rows), len(key))
	}
	if got := l.env.Do(&Get{Key: key}); !bytes.Equal(got.Bytes, longText(maxPlainStringBytes+1)) {
		t.Errorf("got %d bytes, %v", len(got.Bytes), got.Err)
	}
}

func TestChunks_OfAReplacedValue_AreSwept(t *testing.T) {
	for _, end := range []Command{
		&Delete{Keys: []partition.Position{positionOf("k")}},
		&Set{Key: positionOf("k"), Value: []byte("short")},
		&Set{Key: positionOf("k"), Value: longText(1 << 20)},
	} {
		l := newTestEnv(t)
		l.countLogged(&Append{Key: positionOf("k"), Suffix: longText(200_000)})
		l.countLogged(end)
		for more := true; more; l.commit() {
			r := l.env.Do(&Sweep{Key: positionOf("k"), Limit: 3})
			if more = r.More; r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		for position, raw := range l.store.tableRows(effect.Rows) {
			if row, err := DecodeRow([]byte(raw)); err != nil || row.Kind == Element {
				t.Errorf("%T leaves %q behind (%v)", end, position, err)
			}
		}
	}
}

// TestChunks_MeanWhatPlainBytesMean changes a long value in all ways, beside plain bytes.
func TestChunks_MeanWhatPlainBytesMean(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		l := newTestEnv(t)
		c := &stringModel{testEnv: l, rng: rng, key: positionOf("k")}
		for i := range 60 {
			if err := c.runStep(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
			if rng.IntN(3) == 0 {
				l.commit()
			}
		}
	}
}

// stringModel is a key beside what it should hold.
type stringModel struct {
	*testEnv
	rng  *rand.Rand
	key  partition.Position
	text []byte
}

// pickOffset is one that is likely to be near the edge of a chunk, or of the value.
func (c *stringModel) pickOffset() int64 {
	edges := []int{0, ChunkBytes, 2 * ChunkBytes, maxPlainStringBytes, len(c.text), 20 * ChunkBytes}
	return max(0, int64(edges[c.rng.IntN(len(edges))]+c.rng.IntN(40)-20))
}

// zeroExtended is the text with zeros up to a length.
func (c *stringModel) zeroExtended(n int) []byte {
	return append(c.text, make([]byte, max(0, n-len(c.text)))...)
}

func (c *stringModel) runStep() error {
	switch c.rng.IntN(9) {
	case 0:
		tail := longText(c.rng.IntN(3 * ChunkBytes))
		c.text = append(c.text, tail...)
		return c.wantInt(&Append{Key: c.key, Suffix: tail}, int64(len(c.text)))
	case 1:
		part, at := longText(1+c.rng.IntN(3*ChunkBytes)), c.pickOffset()
		c.text = c.zeroExtended(int(at) + len(part))
		copy(c.text[at:], part)
		return c.wantInt(&SetRange{Key: c.key, Offset: at, Value: part}, int64(len(c.text)))
	case 2:
		at, on := c.pickOffset()*8+c.rng.Int64N(8), c.rng.IntN(2) == 0
		old := int64(0)
		if isBitSet(c.text, at) {
			old = 1
		}
		c.text = c.zeroExtended(int(at/8) + 1)
		if c.text[at/8] &^= 1 << (7 - at%8); on {
			c.text[at/8] |= 1 << (7 - at%8)
		}
		return c.wantInt(&SetBit{Key: c.key, Offset: at, On: on}, old)
	case 3:
		return c.stepBitField()
	case 4:
		start, end := c.pickOffset(), c.pickOffset()
		from, to := clampForward(start, end, int64(len(c.text)))
		return c.wantBytes(&GetRange{Key: c.key, Start: start, End: end}, c.text[from:to])
	case 5:
		part := ValueRange{Start: c.pickOffset(), End: c.pickOffset(), InBits: c.rng.IntN(2) == 0}
		from, to := part.bitBounds(int64(len(c.text)), clampForward)
		return c.wantInt(&BitCount{Key: c.key, Range: part}, countBits(c.text, from, to))
	case 6:
		part, on := ValueRange{Start: c.pickOffset(), End: c.pickOffset()}, c.rng.IntN(2) == 0
		if c.text == nil {
			return nil
		}
		from, to := part.bitBounds(int64(len(c.text)), clampRange)
		return c.wantInt(&BitPos{Key: c.key, On: on, Range: part, HasEnd: true}, findBit(c.text, from, to, on))
	case 7:
		if c.rng.IntN(3) > 0 {
			return c.wantInt(&Strlen{Key: c.key}, int64(len(c.text)))
		}
		set := &Set{Key: c.key, Value: longText(c.rng.IntN(2 * maxPlainStringBytes)), ReturnOld: true}
		old := c.text
		c.text = bytes.Clone(set.Value)
		if old == nil {
			return replyErr(c.env.Do(set))
		}
		return c.wantBytes(set, old)
	}
	if c.text == nil {
		return nil
	}
	return c.wantBytes(&Get{Key: c.key}, c.text)
}

func (c *stringModel) stepBitField() error {
	f := &BitField{Key: c.key}
	var want []BitResult
	text := bytes.Clone(c.text)
	for range 1 + c.rng.IntN(3) {
		p := BitFieldOp{Kind: BitOpKind(c.rng.IntN(3)), Width: 1 + c.rng.IntN(40), Offset: c.pickOffset()*8 + c.rng.Int64N(8), Value: c.rng.Int64N(1 << 20)}
		if f.Ops = append(f.Ops, p); p.Kind != BitGet {
			c.text = c.zeroExtended(int(p.Offset+int64(p.Width)+7) / 8)
		}
	}
	for i := range f.Ops {
		result, _ := f.Ops[i].apply(c.text)
		want = append(want, result)
	}
	r := c.env.Do(f)
	if r.Err != nil || fmt.Sprint(f.Results) != fmt.Sprint(want) {
		return fmt.Errorf("%+v of %d bytes: %v (%v), want %v", f.Ops, len(text), f.Results, r.Err, want)
	}
	return nil
}

func replyErr(r Reply) error { return r.Err }

func (c *stringModel) wantInt(cmd Command, want int64) error {
	if r := c.env.Do(cmd); r.Err != nil || r.Int != want {
		return fmt.Errorf("%T: %d, %v; want %d", cmd, r.Int, r.Err, want)
	}
	return nil
}

func (c *stringModel) wantBytes(cmd Command, want []byte) error {
	if r := c.env.Do(cmd); r.Err != nil || !bytes.Equal(r.Bytes, want) {
		return fmt.Errorf("%T: %d bytes, %v; want %d", cmd, len(r.Bytes), r.Err, len(want))
	}
	return nil
}
