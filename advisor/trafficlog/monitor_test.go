package trafficlog_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/trafficlog"
)

// readMonitor returns the keys of a log, with a * behind those that are written, and the problems.
func readMonitor(t *testing.T, text string) (keys []string, problems []advisor.Problem) {
	t.Helper()
	for _, writes := range []bool{false, true} {
		r := trafficlog.NewMonitorReader(strings.NewReader(text), trafficlog.Options{OnlyWrites: writes, OnlyReads: !writes, Separator: 1})
		for {
			records := new(advisor.Records)
			if err := r.Next(records); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			for record := range records.All() {
				_, k := record.Value(0)
				mark := ""
				if writes {
					mark = "*"
				}
				keys = append(keys, string(k)+mark)
			}
			if writes {
				problems = append(problems, records.Problems()...)
			}
		}
	}
	return keys, problems
}

func TestMonitor_Requests_HaveTheirKeys(t *testing.T) {
	for request, want := range map[string]string{
		`"GET" "user:1"`: "user:1", `"set" "user:1" "v"`: "user:1*", `"hgetall" "h"`: "h", `"ZADD" "z" "1" "a"`: "z*", `"zscore" "z" "a"`: "z",
		`"mget" "a" "b"`: "a b", `"mset" "a" "1" "b" "2"`: "a* b*", `"del" "a" "b"`: "a* b*", `"exists" "a"`: "a",
		`"eval" "return 1" "2" "a" "b" "c"`: "a* b*", `"eval_ro" "return 1" "1" "a"`: "a", `"zunionstore" "d" "2" "a" "b"`: "d* a* b*", `"zinter" "2" "a" "b" "withscores"`: "a b",
		`"blpop" "q1" "q2" "0"`: "q1* q2*", `"bitop" "and" "d" "a"`: "d* a*", `"xread" "count" "1" "streams" "s1" "s2" "0" "0"`: "s1 s2", `"xgroup" "create" "s" "g" "0"`: "s*",
		`"object" "encoding" "k"`: "k", `"copy" "a" "b"`: "a* b*", `"lmpop" "2" "a" "b" "left"`: "a* b*", `"blmpop" "0" "1" "a" "left"`: "a*",
		`"ping"`: "", `"auth" "secret"`: "", `"client" "setname" "k"`: "", `"info"`: "", `"get"`: "", `"eval" "x" "9999999999" "a"`: "", `"evalsha"`: "", `"xread" "block"`: "",
		`"get" "a \"quoted\"\x00\\\n"`: "a \"quoted\"\x00\\\n",
	} {
		keys, problems := readMonitor(t, "OK\n1339518083.107412 [0 127.0.0.1:60866] "+request+"\r\n")
		if got := strings.Join(keys, " "); got != want || len(problems) > 0 {
			t.Errorf("%s: keys %q, want %q; %v", request, got, want, problems)
		}
	}
}

func TestMonitor_OtherLines_AreSkippedAndNamed(t *testing.T) {
	good := `1339518083.107412 [0 127.0.0.1:60866] "get" "k"` + "\n"
	text := good + "\n(error) NOAUTH\n" + good + `1339518083.1 [0 lua] "get" "k` + "\n" + `1.1 [0 unix:/x] "get" k` + "\n" + strings.Repeat("x", advisor.MaxRecordBytes+9) + "\n" + strings.TrimSuffix(good, "\n")
	keys, problems := readMonitor(t, text)
	var lines []int64
	for _, p := range problems {
		lines = append(lines, p.Line)
	}
	if !slices.Equal(keys, []string{"k", "k", "k"}) || !slices.Equal(lines, []int64{3, 5, 6, 7}) {
		t.Errorf("keys %q, problems %v", keys, problems)
	}
}

func ExampleNewMonitorReader() {
	log := strings.NewReader(`1339518083.107412 [0 127.0.0.1:60866] "incrby" "cart:42:total" "5"` + "\n")
	r := trafficlog.NewMonitorReader(log, trafficlog.Options{})
	records := new(advisor.Records)
	if err := r.Next(records); err != nil {
		fmt.Println(err)
		return
	}
	for record := range records.All() {
		for i, name := range records.Columns() {
			_, value := record.Value(i)
			fmt.Printf("%s=%s ", name, value)
		}
	}
	// Output: part1=cart part2=42 part3=total
}

// Any text is read without a panic, to its end.
func FuzzMonitor(f *testing.F) {
	f.Add(`1339518083.107412 [0 127.0.0.1:60866] "zunionstore" "d" "2" "\x00" "b"` + "\nOK\n1.1 [0 lua] \"xread\" \"streams\"")
	f.Fuzz(func(t *testing.T, text string) {
		r := trafficlog.NewMonitorReader(strings.NewReader(text), trafficlog.Options{})
		for range len(text) + 2 {
			if err := r.Next(new(advisor.Records)); err != nil {
				if err != io.EOF {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatal("the log does not end")
	})
}
