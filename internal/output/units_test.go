package output

import (
	"math"
	"testing"
)

func TestUnitsAreThoseThatPeopleRead(t *testing.T) {
	for got, want := range map[string]string{
		Bytes(int64(0)): "0 B", Bytes(uint64(1023)): "1023 B", Bytes(int64(1536)): "1.5 KiB", Bytes(int64(96 << 20)): "96.0 MiB",
		Bytes(uint64(1) << 63): "8192 PiB", Bytes(102399.9): "100 KiB", Bytes(int64(-2048)): "-2.0 KiB",
		Count(0): "0", Count(999): "999", Count(1000): "1,000", Count(-1234567): "-1,234,567", Count(-999): "-999",
		Counted(1, "row"): "1 row", Counted(0, "shard"): "0 shards", Counted(1234, "key"): "1,234 keys", Counted(uint64(2), "hash"): "2 hashes", Counted(3, "index"): "3 indexes",
		Seconds(0): "0 s", Seconds(0.0000042): "4 µs", Seconds(0.0042): "4.2 ms", Seconds(1.5): "1.5 s", Seconds(200): "3m20s",
		Seconds(7500): "2h5m", Seconds(273600): "3d4h", Seconds(math.Inf(1)): "?",
		Bar(0.5, 4): "██··", Bar(0, 2): "··", Bar(2, 2): "██",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
