package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wide are limits that tests do not meet by chance.
var wide = Limits{Args: 1 << 20, Bulk: 64 << 20, Total: 128 << 20}

// parseStream returns all requests of a stream that is received in pieces, and the error
// that ends it. What is passed over is left out.
func parseStream(stream []byte, l Limits, piece func(left int) int) (out [][]string, err error) {
	var p Parser
	var buf []byte
	for len(stream) > 0 {
		n := min(len(stream), max(1, piece(len(stream))))
		buf, stream = append(buf, stream[:n]...), stream[n:]
		for {
			args, n, err := p.Next(buf, l)
			if err != nil {
				return out, err
			}
			if n == 0 {
				break
			}
			if len(args) > 0 {
				var words []string
				for _, a := range args {
					words = append(words, string(a))
				}
				out = append(out, words)
			}
			// A buffer is moved as it is used up: nothing may point to its old place.
			buf = bytes.Clone(buf[n:])
		}
	}
	return out, nil
}

func inOnePiece(left int) int { return left }

func TestRequestsAreRead(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want [][]string
	}{
		{"*1\r\n$4\r\nPING\r\n", [][]string{{"PING"}}},
		{"*2\r\n$3\r\nGET\r\n$0\r\n\r\n", [][]string{{"GET", ""}}},
		{"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n", [][]string{{"PING"}, {"QUIT"}}},
		{"*0\r\n*-10\r\nPING\r\n", [][]string{{"PING"}}},
		{"\r\n\nPING\n", [][]string{{"PING"}}},
		{"  SET  a\tb \r\n", [][]string{{"SET", "a", "b"}}},
		{`SET a "b c"` + "\n", [][]string{{"SET", "a", "b c"}}},
		{`SET "\x41\n\"\q" 'it\'s \n'` + "\n", [][]string{{"SET", "A\n\"q", `it's \n`}}},
		{`GET ""` + "\n", [][]string{{"GET", ""}}},
		{"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n", [][]string{{"GET", "\r\n"}}},
	} {
		got, err := parseStream([]byte(tc.in), wide, inOnePiece)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%q gives %q, %v; want %q", tc.in, got, err, tc.want)
		}
	}
}

func TestWhatIsNoRequestIsRefusedInRedisWords(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"*3000000000\r\n", "invalid multibulk length: a request of 3000000000 arguments, at most 1048576"},
		{"*1048577\r\n", "invalid multibulk length: a request of 1048577 arguments, at most 1048576"},
		{"*abc\r\n", "invalid multibulk length"},
		{"*+1\r\n", "invalid multibulk length"},
		{"*01\r\n", "invalid multibulk length"},
		{"*" + strings.Repeat("1", maxInlineBytes+1), "too big mbulk count string"},
		{"*1\r\nPING\r\n", "expected '$', got 'P'"},
		{"*1\r\n\x01", `expected '$', got '\x01'`},
		{"*1\r\n$-10\r\n", "invalid bulk length"},
		{"*1\r\n$2000000000\r\n", "invalid bulk length: an argument of 2000000000 bytes, at most 67108864"},
		{"*1\r\n$blabla\r\n", "invalid bulk length"},
		{"*1\r\n$" + strings.Repeat("1", maxInlineBytes+1), "too big bulk count string"},
		{strings.Repeat("x", maxInlineBytes+1), "too big inline request"},
		{strings.Repeat("x", maxInlineBytes+1) + "\n", "too big inline request"},
		{"set \"a b\n", "unbalanced quotes in request"},
		{"set 'a'b\n", "unbalanced quotes in request"},
	} {
		for _, piece := range []int{1 << 30, 1, 7} {
			_, err := parseStream([]byte(tc.in), wide, func(int) int { return piece })
			var bad *ProtocolError
			if !errors.As(err, &bad) || bad.Reason != tc.want {
				t.Errorf("%.40q in pieces of %d gives %v; want %q", tc.in, piece, err, tc.want)
			}
		}
	}
}

func TestStrangersMaySendLittle(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"*11\r\n", "unauthenticated multibulk length"},
		{"*1\r\n$16385\r\n", "unauthenticated bulk length"},
		{"a b c d e f g h i j k\n", "too many arguments in a line: at most 10"},
	} {
		_, err := parseStream([]byte(tc.in), UnauthenticatedLimits, inOnePiece)
		if err == nil || err.Error() != "Protocol error: "+tc.want {
			t.Errorf("%q gives %v; want %q", tc.in, err, tc.want)
		}
	}
	if got, err := parseStream([]byte("*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"), UnauthenticatedLimits, inOnePiece); err != nil || len(got) != 1 {
		t.Errorf("AUTH gives %q, %v", got, err)
	}
}

func TestTheSumOfArgumentsIsBounded(t *testing.T) {
	l := Limits{Args: 10, Bulk: 6, Total: 10}
	if _, err := parseStream([]byte("*2\r\n$5\r\nabcde\r\n$5\r\nabcde\r\n"), l, inOnePiece); err != nil {
		t.Errorf("10 bytes: %v", err)
	}
	_, err := parseStream([]byte("*2\r\n$5\r\nabcde\r\n$6\r\n"), l, inOnePiece)
	if err == nil || !strings.Contains(err.Error(), "at most 10 bytes") {
		t.Errorf("11 bytes: %v", err)
	}
}

// A client that declares much and sends nothing must cost nothing.
func TestMemoryFollowsWhatWasReceived(t *testing.T) {
	var p Parser
	head := []byte("*1048576\r\n$67108864\r\n")
	if _, n, err := p.Next(head, wide); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if cap(p.argSpans) > 16 || cap(p.args) > 16 {
		t.Errorf("room for %d arguments after a declaration alone", max(cap(p.argSpans), cap(p.args)))
	}
	if got := p.MissingBytes(len(head)); got != 64<<20+2 {
		t.Errorf("Missing is %d", got)
	}
}

// However the stream is cut, the same requests come out.
func TestCutsDoNotMatter(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var stream []byte
		var want [][]string
		for range 1 + rng.IntN(8) {
			words := make([]string, 1+rng.IntN(4))
			for i := range words {
				b := make([]byte, rng.IntN(40))
				for j := range b {
					b[j] = "\r\n$*\"'\\ ab\x00\xff"[rng.IntN(12)]
				}
				words[i] = string(b)
			}
			want = append(want, words)
			stream = AppendArray(stream, len(words))
			for _, w := range words {
				stream = AppendBulk(stream, w)
			}
		}
		got, err := parseStream(stream, wide, func(int) int { return 1 + rng.IntN(20) })
		if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("seed %d: %q, %v; want %q", seed, got, err, want)
		}
	}
}

func FuzzRequests(f *testing.F) {
	for _, s := range []string{"*1\r\n$4\r\nPING\r\n", "SET a \"b\\x41\"\r\n", "*2\r\n$1\r\na\r\n$-1\r\n", "*-1\r\n", "\r\n"} {
		f.Add([]byte(s), uint8(3))
	}
	small := Limits{Args: 8, Bulk: 64, Total: 128}
	f.Fuzz(func(t *testing.T, stream []byte, cut uint8) {
		one, errOne := parseStream(stream, small, inOnePiece)
		some, errSome := parseStream(stream, small, func(int) int { return int(cut) })
		if fmt.Sprint(errOne) != fmt.Sprint(errSome) || !slices.EqualFunc(one, some, slices.Equal) {
			t.Fatalf("whole: %q, %v; cut by %d: %q, %v", one, errOne, cut, some, errSome)
		}
		for _, words := range one {
			if len(words) > small.Args {
				t.Fatalf("%d arguments", len(words))
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	var one []byte
	one = AppendArray(one, 3)
	for _, w := range []string{"SET", "key:000000001234", strings.Repeat("x", 64)} {
		one = AppendBulk(one, w)
	}
	stream := bytes.Repeat(one, 64)
	var p Parser
	b.SetBytes(int64(len(one)))
	b.ReportAllocs()
	for b.Loop() {
		for buf := stream; len(buf) > 0; {
			_, n, err := p.Next(buf, wide)
			if n == 0 || err != nil {
				b.Fatal(n, err)
			}
			buf = buf[n:]
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/request")
}

// More arguments than memory is kept for are all there.
func TestARequestOfManyArgumentsIsWhole(t *testing.T) {
	const n = 2 * maxRetainedArgs
	buf := []byte("*" + strconv.Itoa(n) + "\r\n" + strings.Repeat("$1\r\nx\r\n", n))
	var p Parser
	args, size, err := p.Next(buf, Limits{Args: n, Bulk: 1, Total: n})
	if err != nil || size != len(buf) || len(args) != n {
		t.Fatalf("%d arguments in %d of %d bytes, %v", len(args), size, len(buf), err)
	}
	if args, _, err := p.Next([]byte("*1\r\n$1\r\ny\r\n"), Limits{Args: 1, Bulk: 1, Total: 1}); err != nil || len(args) != 1 || string(args[0]) != "y" {
		t.Fatalf("and then %q, %v", args, err)
	}
}
