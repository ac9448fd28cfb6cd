package balancer

import (
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

func TestRemedyOf_AMovingEdge_NamesALayoutThatSpreadsIt(t *testing.T) {
	for _, c := range []struct{ used, want string }{
		{"", "(hash(id), id)"},
		{"order_id:int", "(hash(order_id), order_id:int)"},
		{"ts:time", "(salt(4), ts:time)"},
		{"ts:time | id:int", "(salt(4, id), ts:time) | id:int"},
		{"(region, hour(ts)) | ts, id:uuid", "(salt(4, id), region, hour(ts)) | ts, id:uuid"},
		{"tenant, id", "(salt(4, id), tenant, id)"},
		{"hash(id), id", ""},
		{"salt(16) | ts:time", ""},
		{"region, salt(4) | ts:time", ""},
		{"a0" + manyColumns(key.MaxFields-1), ""},
	} {
		k := &partition.Keyspace{ID: 1, Name: "orders", Kind: partition.Range, Layout: c.used}
		if err := k.Validate(); err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.want != "" {
			want = "`cleave keyspace create orders-spread --range --layout '" + c.want + "'`"
		}
		got := RemedyOf(&classify.Finding{Class: classify.MovingEdge}, k, 3)
		if command := got[max(0, strings.Index(got+"`", "`")):]; command != want {
			t.Errorf("%q: %s, want %s", c.used, command, want)
		}
	}
	for _, k := range []*partition.Keyspace{nil, {ID: 1, Name: "h", Kind: partition.Hash}} {
		if got := RemedyOf(&classify.Finding{Class: classify.MovingEdge}, k, 3); got == "" || strings.Contains(got, "`") {
			t.Errorf("%v: %q", k, got)
		}
	}
}

func manyColumns(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(", a")
		b.WriteByte(byte('a' + i/26))
		b.WriteByte(byte('a' + i%26))
	}
	return b.String()
}

// Advice follows what was measured: a key that is only written is not advised to be cached.
func TestRemedyOf_AHotKey_IsForItsReadsOrItsWrites(t *testing.T) {
	for _, c := range []struct {
		reads         float64
		cache, spread bool
	}{{0, false, true}, {0.1, false, true}, {0.5, true, true}, {0.9, true, false}, {1, true, false}} {
		got := RemedyOf(&classify.Finding{Class: classify.HotKey, Reads: c.reads}, nil, 3)
		if strings.Contains(got, "CLIENT TRACKING") != c.cache || strings.Contains(got, "package counter") != c.spread {
			t.Errorf("%v of reads: %s", c.reads, got)
		}
	}
}
