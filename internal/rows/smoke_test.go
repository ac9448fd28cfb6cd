package rows

import (
	"fmt"
	"testing"
)

func TestSmoke(t *testing.T) {
	tb := New(Options{Bytes: 1 << 20})
	for i := range 100000 {
		k := fmt.Appendf(nil, "key-%d", i%20000)
		v := fmt.Appendf(nil, "value-%d", i)
		tb.Publish(uint64(i/1000+1), k, v, false)
		if got, st := tb.Get(k, nil); st != Present || string(got) != string(v) {
			t.Fatal(i, st, string(got))
		}
		if i > 5000 {
			tb.Applied(uint64((i-5000)/1000 + 1))
		}
	}
	t.Logf("%+v", tb.Metrics())
}
