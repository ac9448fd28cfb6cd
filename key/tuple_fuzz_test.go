package key

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

// FuzzDecode checks on any bytes that decoding ends, that what is accepted has
// no second form, and that the Reader and Decode agree.
func FuzzDecode(f *testing.F) {
	for _, v := range append(append(specVectors, bindingVectors...), edgeVectors...) {
		b, err := hex.DecodeString(v.hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(bytes.Repeat([]byte{codeNested}, 100))
	f.Add([]byte{codePosBig, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		tuple, err := Decode(b)
		walked, walkErr := walk(NewReader(b))
		if (err == nil) != (walkErr == nil) || err != nil && err.Error() != walkErr.Error() {
			t.Fatalf("Decode says %v, Reader says %v", err, walkErr)
		}
		if err != nil {
			var at *DecodeError
			if !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(b) {
				t.Fatalf("error %v of %d bytes", err, len(b))
			}
			return
		}
		if again := mustEncode(t, tuple); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %v, which encodes to %x", b, tuple, again)
		}
		if Compare(tuple, walked) != 0 {
			t.Fatalf("Decode gives %v, Reader %v", tuple, walked)
		}
	})
}

// walk decodes by hand, through nested readers and typed methods.
func walk(r Reader) (Tuple, error) {
	t := Tuple{}
	for r.Next() {
		e := r.Element()
		if inner, ok := e.Tuple(); ok {
			v, err := walk(inner)
			if err != nil {
				return nil, err
			}
			t = append(t, v)
			continue
		}
		if b, ok := e.AppendPayload(nil); ok && e.Kind() == KindBytes {
			t = append(t, append([]byte{}, b...))
			continue
		}
		if b, ok := e.Bytes(); ok {
			t = append(t, string(b))
			continue
		}
		if i, ok := e.BigInt(); ok {
			t = append(t, i)
			continue
		}
		t = append(t, e.Value())
	}
	return t, r.Err()
}
