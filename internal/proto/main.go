// Command proto measures the shape of the server's loop.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/serve"
	"github.com/cleavekv/cleave/internal/wal"
)

func main() {
	dir := flag.String("dir", "", "")
	fsync := flag.String("appendfsync", "always", "")
	addr := flag.String("addr", "127.0.0.1:7379", "")
	cache := flag.Int64("cache", 512<<20, "")
	flag.Parse()
	go http.ListenAndServe("127.0.0.1:7381", nil)
	d, err := wal.ParseDurability(*fsync)
	if err != nil {
		log.Fatal(err)
	}
	o := node.Options{Dir: *dir, Durability: d, Queue: 65536}
	o.Store.CacheBytes = *cache
	n, err := node.Open(o)
	if err != nil {
		log.Fatal(err)
	}
	s, err := serve.New(n)
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	log.Fatal(s.Serve(ln.(*net.TCPListener)))
}
