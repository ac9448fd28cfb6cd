package journal

import (
	"reflect"
	"testing"

	"github.com/cleavekv/cleave/saga"
)

// What is read is refused, or is a record that is written as it was read and that the
// deciding code can be given.
func FuzzRecordsAreReadAsTheyWereWritten(f *testing.F) {
	steps := []saga.Planned{{Name: "a", Atomic: true}, {Name: "b", Lasting: true}}
	r := saga.Begin("1", "d", steps, []byte{0, 255}, "me", 5, 6)
	for range 3 {
		text, err := encodeRecord(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		r, _ = saga.Next(r, saga.Event{Kind: saga.Did, Step: r.At, NowMS: 7})
	}
	f.Add([]byte(`{"format":1,"id":"1","steps":[{}],"state":"compensating","revision":1,"stuck":"undo fails"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decodeRecord(text)
		if err != nil {
			return
		}
		again, err := encodeRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeRecord(again)
		if err != nil || !reflect.DeepEqual(back, r) {
			t.Fatalf("%+v is read back as %+v, %v", r, back, err)
		}
		saga.Wanted(r, 1)
		saga.Needs(r)
		for kind := saga.Did; kind <= saga.Pushed; kind++ {
			if next, err := saga.Next(r, saga.Event{Kind: kind, Step: r.At, NowMS: 9}); err == nil {
				if err := next.Validate(); err != nil {
					t.Fatalf("%+v after %d: %v", r, kind, err)
				}
			}
		}
	})
}
