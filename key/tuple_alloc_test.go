package key

import (
	"math/big"
	"testing"
)

func TestAppendingAndReadingDoNotAllocate(t *testing.T) {
	tuple := Tuple{"eu", []byte("a\x00b"), int64(-1 << 40), uint64(1 << 63), 1.5, float32(2), true, nil, vectorUUID, Tuple{nil, "x"}, big.NewInt(-5)}
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		var err error
		if buf, err = Append(buf[:0], tuple); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Append allocates %v times", n)
	}
	scratch := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		r := NewReader(buf)
		for r.Next() {
			e := r.Element()
			e.Int()
			e.Uint()
			e.Float32()
			e.Float64()
			e.Bool()
			e.UUID()
			scratch, _ = e.AppendPayload(scratch[:0])
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
	}); n != 0 {
		t.Errorf("Reader allocates %v times", n)
	}
}
