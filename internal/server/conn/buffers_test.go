package conn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/server/resp"
)

// A large request that comes in small pieces, as over TLS, is moved a bounded number of times however
// many pieces it has.
func TestStream_LargeRequestInSmallReads_IsMovedOnce(t *testing.T) {
	limits := resp.Limits{Args: 10, Bulk: 64 << 20, Total: 64 << 20}
	for _, size := range []int{1 << 20, 8 << 20} {
		c := &Conn{}
		taken, moved := 0, 0
		request := fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", size, strings.Repeat("x", size))
		request = append(request, "*1\r\n$"...) // and a part of the next
		for len(request) > 0 {
			n := min(len(request), streamReadBytes)
			c.appendInput(request[:n])
			request = request[n:]
			rest := c.In
			for {
				args, n, err := c.Parser.Next(rest, limits)
				if err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					break
				}
				if len(args) != 3 || len(args[2]) != size {
					t.Fatalf("%d words", len(args))
				}
				taken, rest = taken+1, rest[n:]
			}
			moved += c.keepRest(rest)
		}
		if taken != 1 || len(c.In) != 5 {
			t.Fatalf("%d requests were taken, and %d bytes wait", taken, len(c.In))
		}
		if moved > 2*streamReadBytes {
			t.Errorf("a request of %d bytes was moved by %d", size, moved)
		}
	}
}

// An answer that is taken in small parts is not moved at each of them.
func TestAnswer_TakenInSmallParts_IsNotMovedEachTime(t *testing.T) {
	for _, size := range []int{1 << 20, 16 << 20} {
		c := &Conn{}
		c.Out.Bytes = make([]byte, size)
		for i := range c.Out.Bytes {
			c.Out.Bytes[i] = byte(i >> 10)
		}
		moved, sent := 0, 0
		for len(c.Out.Bytes) > 0 {
			n := min(len(c.Out.Bytes), 10_000)
			if c.Out.Bytes[0] != byte(sent>>10) || len(c.Out.Bytes) != size-sent {
				t.Fatalf("behind %d bytes that were sent come %d others", sent, len(c.Out.Bytes))
			}
			sent += n
			moved += c.keepUnsent(c.Out.Bytes[n:])
		}
		if moved > 8*MaxRetainedBytes {
			t.Errorf("of an answer of %d bytes %d were moved", size, moved)
		}
		if c.outSent != 0 || cap(c.Out.Bytes) > MaxRetainedBytes {
			t.Errorf("%d and %d bytes are held", c.outSent, cap(c.Out.Bytes))
		}
	}
}

func TestClient_LargeRequestArrives_InFewBuffersOfItsSize(t *testing.T) {
	const size = 32 << 20
	head := []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$33554432\r\n")
	c := &Conn{}
	limits := resp.Limits{Args: 10, Bulk: 64 << 20, Total: 64 << 20}
	c.appendInput(head)
	piece := make([]byte, 64<<10)
	var made, total int
	for len(c.In) < len(head)+size+2 {
		if _, n, err := c.Parser.Next(c.In, limits); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		before := cap(c.In)
		c.appendInput(piece[:min(len(piece), len(head)+size+2-len(c.In))])
		if now := cap(c.In); now != before {
			made, total = made+1, total+now
		}
		if cap(c.In) > 2*len(c.In)+2*len(piece) {
			t.Fatalf("%d bytes have arrived, and take %d", len(c.In), cap(c.In))
		}
	}
	if args, _, err := c.Parser.Next(c.In, limits); err != nil || len(args) != 3 || len(args[2]) != size {
		t.Fatalf("%d arguments, %v", len(args), err)
	}
	if total > 3*size || cap(c.In) > size+1<<20 {
		t.Errorf("%d buffers of %d bytes were made, the last of %d, for a request of %d", made, total, cap(c.In), size)
	}
}
