package serve

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/cleavekv/cleave"
)

// BenchmarkPipelines measures requests that come many at a time on one connection.
func BenchmarkPipelines(b *testing.B) {
	for _, command := range []string{"GET", "SET"} {
		b.Run(command, func(b *testing.B) {
			db, err := cleave.OpenMemory(cleave.Options{Queue: 1 << 16})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			s := New(db, Options{})
			defer s.Close()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			go s.Serve(l)
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			const keys, depth = 100_000, 64
			value := strings.Repeat("v", 64)
			ask := func(name string, at int) (request string, reply int) {
				for i := range depth {
					key := fmt.Sprintf("key:%012d", (at+i)*7919%keys)
					if name == "GET" {
						request += fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
						reply += len("$64\r\n\r\n") + 64
					} else {
						request += fmt.Sprintf("*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$64\r\n%s\r\n", len(key), key, value)
						reply += len("+OK\r\n")
					}
				}
				return request, reply
			}
			room := make([]byte, 1<<16)
			send := func(request string, reply int) {
				if _, err := io.WriteString(conn, request); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, room[:reply]); err != nil {
					b.Fatal(err)
				}
			}
			var requests []string
			size := 0
			for i := 0; i < keys; i += depth {
				send(ask("SET", i))
				request, n := ask(command, i)
				requests, size = append(requests, request), n
			}
			b.ResetTimer()
			for i := 0; i < b.N; i += depth {
				send(requests[i/depth%len(requests)], size)
			}
		})
	}
}
