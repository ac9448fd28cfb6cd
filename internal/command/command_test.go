package command

import "testing"

func TestSmoke(t *testing.T) {
	b := newLab(t)
	if r := b.env.Do(&Set{Key: at("a"), Value: []byte("1")}); r.Kind != OK || r.Version != 1 {
		t.Fatal(r)
	}
	for range 2 {
		if r := b.env.Do(&Get{Key: at("a")}); string(r.Bytes) != "1" {
			t.Fatal(r)
		}
		b.commit()
	}
	b.env.Do(&HSet{Key: at("h"), Fields: []FieldValue{{[]byte("f"), []byte("v")}, {[]byte(""), []byte("w")}}})
	for range 2 {
		if r := b.env.Do(&HGetAll{Key: at("h")}); len(r.Items) != 2 || string(r.Items[1].Value) != "v" {
			t.Fatal(r)
		}
		b.commit()
	}
}
