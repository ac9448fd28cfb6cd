package resp

import (
	"math"
	"testing"
)

func TestRepliesAreWrittenForBothVersions(t *testing.T) {
	for _, tc := range []struct {
		name         string
		write        func(v Version) []byte
		resp2, resp3 string
	}{
		{"null", func(v Version) []byte { return v.AppendNull(nil) }, "$-1\r\n", "_\r\n"},
		{"null array", func(v Version) []byte { return v.AppendNullArray(nil) }, "*-1\r\n", "_\r\n"},
		{"map", func(v Version) []byte { return v.AppendMap(nil, 3) }, "*6\r\n", "%3\r\n"},
		{"set", func(v Version) []byte { return v.AppendSet(nil, 3) }, "*3\r\n", "~3\r\n"},
		{"push", func(v Version) []byte { return v.AppendPush(nil, 3) }, "*3\r\n", ">3\r\n"},
		{"true", func(v Version) []byte { return v.AppendBool(nil, true) }, ":1\r\n", "#t\r\n"},
		{"false", func(v Version) []byte { return v.AppendBool(nil, false) }, ":0\r\n", "#f\r\n"},
		{"double", func(v Version) []byte { return v.AppendDouble(nil, 3.5) }, "$3\r\n3.5\r\n", ",3.5\r\n"},
		{"infinite", func(v Version) []byte { return v.AppendDouble(nil, math.Inf(-1)) }, "$4\r\n-inf\r\n", ",-inf\r\n"},
		{"verbatim", func(v Version) []byte { return v.AppendVerbatim(nil, "ab") }, "$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"},
		{"simple", func(Version) []byte { return AppendSimple(nil, "OK") }, "+OK\r\n", "+OK\r\n"},
		{"int", func(Version) []byte { return AppendInt(AppendInt(nil, -10), 7) }, ":-10\r\n:7\r\n", ":-10\r\n:7\r\n"},
		{"bulk", func(Version) []byte { return AppendBulk(nil, "a\r\nb") }, "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"},
		{"array", func(Version) []byte { return AppendArray(nil, 12) }, "*12\r\n", "*12\r\n"},
	} {
		if got := string(tc.write(RESP2)); got != tc.resp2 {
			t.Errorf("%s in RESP2 is %q, want %q", tc.name, got, tc.resp2)
		}
		if got := string(tc.write(RESP3)); got != tc.resp3 {
			t.Errorf("%s in RESP3 is %q, want %q", tc.name, got, tc.resp3)
		}
	}
}

// A key in an error must not look like the next reply.
func TestAnErrorIsOneLine(t *testing.T) {
	if got := string(AppendError(nil, "ERR no \r\n+OK\r\n")); got != "-ERR no   +OK\r\n" {
		t.Errorf("%q", got)
	}
}
