package key

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// FuzzParseLayout checks on any text that parsing ends, that an error points
// into the text, and that the canonical form is a fixed point.
func FuzzParseLayout(f *testing.F) {
	for _, text := range fuzzLayouts {
		f.Add(text)
	}
	script, err := os.ReadFile(filepath.Join("testdata", "layout", "parse.txt"))
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(script)) {
		if text, ok := strings.CutPrefix(line, "layout "); ok {
			f.Add(strings.TrimSpace(text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLayout(text)
		if err != nil {
			var at *LayoutError
			if !errors.Is(err, ErrLayout) || !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(text) {
				t.Fatalf("%q: error %#v", text, err)
			}
			return
		}
		canonical := l.String()
		again, err := ParseLayout(canonical)
		if err != nil || again.String() != canonical {
			t.Fatalf("%q is %q, which reads back as %v, %v", text, canonical, again, err)
		}
	})
}

var fuzzLayouts = []string{
	"(region, hour(ts)) | id",
	"salt(16) | ts:time",
	"salt(16, user) | user:string, ts:time",
	"(tenant:string, month(ts), every(168h, ts)) | id:uuid",
	"(a:string, b:bytes, c:int, d:float) | e:bool, f:uuid, g:time",
	"day(ts) | ts",
}

// FuzzLayoutDecode checks on any bytes, with layouts of all kinds, that a key
// that is accepted has no second form, that what is refused says where, and
// that printing is always printable.
func FuzzLayoutDecode(f *testing.F) {
	var all []*Layout
	for i, text := range fuzzLayouts {
		all = append(all, mustLayout(f, text))
		for _, v := range append(specVectors, edgeVectors...) {
			f.Add(i, mustEncode(f, v.tuple))
		}
	}
	f.Add(0, []byte("\x02eu\x00\x17\x07\x9b\x61\x15\x2a"))
	f.Add(1, []byte("\x15\x03\x1c\x18\xe8\x13\xaf\x80\x4e\xe0\x00"))
	f.Add(2, []byte("\x15\x0f\x02bob\x00\x1c\x18\xe8\x13\xaf\x80\x4e\xe0\x00"))
	f.Add(3, []byte("\x02acme\x00\x16\x02\xaa\x16\x0b\x95\x30aaaabbbbccccdddd"))
	f.Add(5, []byte("\x16\x51\x22\x1c\x18\xe8\x13\xaf\x80\x4e\xe0\x00"))
	f.Fuzz(func(t *testing.T, i int, key []byte) {
		l := all[uint(i)%uint(len(all))]
		v, err := l.Decode(key)
		text, formatErr := l.Format(key)
		if (err == nil) != (formatErr == nil) {
			t.Fatalf("Decode says %v, Format %v", err, formatErr)
		}
		if err == nil && v.String() != text {
			t.Fatalf("%x prints as %q, its values as %q", key, text, v)
		}
		for _, r := range text {
			if !unicode.IsPrint(r) {
				t.Fatalf("%x prints as %q", key, text)
			}
		}
		if _, tupleErr := Decode(key); err == nil && tupleErr != nil {
			t.Fatalf("%x is accepted but is no tuple: %v", key, tupleErr)
		}
		if err != nil {
			var at *FitError
			if !errors.Is(err, ErrForeignKey) || !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(key) {
				t.Fatalf("%x: error %#v", key, err)
			}
			return
		}
		if again, err := l.Encode(v); err != nil || !bytes.Equal(again, key) {
			t.Fatalf("%v: %x encodes again to %x, %v", l, key, again, err)
		}
		if p, err := l.Partition(key); err != nil || !bytes.HasPrefix(key, p) {
			t.Fatalf("partition %x, %v", p, err)
		}
	})
}
