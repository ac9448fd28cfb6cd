module github.com/cleavekv/cleave/bench

go 1.26.0

replace github.com/cleavekv/cleave => ../

require (
	github.com/OneOfOne/xxhash v1.2.8
	github.com/alphadose/haxmap v1.4.0
	github.com/buraksezer/consistent v0.10.0
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/cleavekv/cleave v0.0.0-00010101000000-000000000000
	github.com/dgryski/go-jump v0.0.0-20211018200510-ba001c3ffce0
	github.com/dgryski/go-maglev v0.0.0-20200611225407-8961b9b1b8e6
	github.com/dgryski/go-metro v0.0.0-20250106013310-edb8663e5e33
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f
	github.com/golang/groupcache v0.0.0-20241129210726-2c02b8208cf8
	github.com/google/orderedcode v0.0.1
	github.com/kkdai/maglev v0.2.0
	github.com/lithammer/go-jump-consistent-hash v1.0.2
	github.com/orcaman/concurrent-map/v2 v2.0.1
	github.com/puzpuzpuz/xsync/v4 v4.5.0
	github.com/serialx/hashring v0.0.0-20200727003509-22c0c7ab6b1b
	github.com/spaolacci/murmur3 v1.1.0
	github.com/zeebo/xxh3 v1.1.0
	stathat.com/c/consistent v1.0.0
)

require (
	github.com/dchest/siphash v1.2.3 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	github.com/twmb/murmur3 v1.2.2 // indirect
	golang.org/x/exp v0.0.0-20230626212559-97b1e661b5df // indirect
	golang.org/x/sys v0.49.0 // indirect
)
