package feed

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

func TestNotesAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := partition.Span{Start: rapid.SliceOf(rapid.Byte()).Draw(t, "start"), End: rapid.SliceOf(rapid.Byte()).Draw(t, "end")}
		got, ok := Carried(effect.Op{Key: CarriedKey(s), Delete: true})
		if !ok || string(got.Start) != string(s.Start) || string(got.End) != string(s.End) {
			t.Fatalf("%q is read as %q, %v", s, got, ok)
		}
		h := Handed{Store: rapid.IntRange(0, 1<<30).Draw(t, "store"), Position: rapid.Uint64().Draw(t, "position")}
		if got, ok := HandedOver(effect.Op{Key: h.Key(), Delete: true}); !ok || got != h {
			t.Fatalf("%+v is read as %+v, %v", h, got, ok)
		}
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		Carried(effect.Op{Key: key, Delete: true}) // whatever is in a log, they do not fall over
		HandedOver(effect.Op{Key: key, Delete: true})
	})
	for _, op := range []effect.Op{{}, {Key: CarriedKey(partition.Span{})}, {Key: []byte{byte(effect.State)}, Delete: true}, {Key: []byte{byte(effect.State), carriedTag, 9}, Delete: true}} {
		if _, ok := Carried(op); ok {
			t.Errorf("%+v is taken for a note", op)
		}
	}
	if _, ok := HandedOver(effect.Op{Key: []byte{byte(effect.State), handedTag}, Delete: true}); ok {
		t.Error("half a note is taken for one")
	}
}
